-- Times a thread was off the CPU as recorded, one a row.
--
-- grain:   host_id, thread_id, start_ns, is_totals_only
-- reads:   raw.off_cpu
-- caveat:  short absences are totals: placed only to within the row before
--
-- columns:
--   host_id               INTEGER          host the thread ran on
--   thread_id             INTEGER          thread on that host
--   start_ns              BIGINT    ns     the thread lost the CPU, host MONOTONIC
--   is_totals_only        BOOLEAN          the row carries only totals of short
--                                          absences
--   bundle_id             INTEGER          bundle the row came from
--   pid                   INTEGER          process id
--   tid                   INTEGER          thread id
--   off_state             VARCHAR          state as switched out
--   syscall               VARCHAR          system call it was in; NULL in user mode
--   cpu                   SMALLINT         CPU it came back on
--   next_pid              INTEGER          process that took the CPU
--   next_tid              INTEGER          thread that took the CPU
--   prev_pid              INTEGER          process that had the CPU before it came back
--   prev_tid              INTEGER          thread that had the CPU before it came back
--   waker_pid             INTEGER          process that woke it
--   waker_tid             INTEGER          thread that woke it
--   is_waker_in_interrupt BOOLEAN          woken from an interrupt: the waker is a hint
--   is_open               BOOLEAN          still away when recording stopped
--   is_iowait             BOOLEAN          the kernel counted it as waiting for input
--                                          or output
--   is_preempted          BOOLEAN          runnable when it lost the CPU
--   is_yielded            BOOLEAN          gave the CPU away by sched_yield
--   skipped_count         INTEGER          shorter absences since the thread's row
--                                          before
--   duration_ns           BIGINT    ns     until it ran again; NULL while away
--   runq_latency_ns       BIGINT    ns     of that, runnable and waiting for a CPU
--   skipped_ns            BIGINT    ns     sum of the shorter absences
--   skipped_runnable_ns   BIGINT    ns     of that, runnable

select
    host_id,
    thread_id,
    start_ns,
    is_totals_only,
    bundle_id,
    pid,
    tid,
    off_state,
    syscall,
    cpu,
    next_pid,
    next_tid,
    prev_pid,
    prev_tid,
    waker_pid,
    waker_tid,
    is_waker_in_interrupt,
    is_open,
    is_iowait,
    is_preempted,
    is_yielded,
    skipped_count,
    duration_ns,
    runq_latency_ns,
    skipped_ns,
    skipped_runnable_ns
from raw.off_cpu
