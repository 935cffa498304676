-- One time off the CPU of a thread that makes collectives, and what it waited for.
--
-- Asleep in a collective or a GPU call it waits for what the call waits for; elsewhere
-- the system call says it. Giving the CPU away by sched_yield is never waiting for a
-- CPU. The wait for a CPU is the last part of an absence: blocked first, then ready.
--
-- grain:       host_id, thread_id, start_ns, is_totals_only
-- reads:       stg_off_cpu, _wait_place, syscall_class, _step_thread
-- caveat:      skipped_ns, the sum of shorter absences, lies before start_ns and is
--              placed
--              where the row is
--
-- columns:
--   host_id         INTEGER      host
--   thread_id       INTEGER      thread on that host
--   start_ns        BIGINT   ns  lost the CPU, host MONOTONIC
--   is_totals_only  BOOLEAN      the row carries only skipped_ns
--   rank            INTEGER      global rank of the thread
--   class           VARCHAR      class of step_budget of the blocked part
--   outer_class     VARCHAR      class of the outer_span around it; NULL: in none
--   runq_class      VARCHAR      class of the part that waits for a CPU
--   off_state       VARCHAR      state as switched out
--   syscall         VARCHAR      system call it was in; NULL in user mode
--   next_pid        INTEGER      process that took the CPU
--   next_tid        INTEGER      thread that took the CPU
--   waker_pid       INTEGER      process that woke it
--   ready_ns        BIGINT   ns  ready to run again, host MONOTONIC
--   end_ns          BIGINT   ns  ran again, host MONOTONIC
--   duration_ns     BIGINT   ns  length
--   runq_latency_ns BIGINT   ns  of that, ready and waiting for a CPU
--   skipped_ns      BIGINT   ns  sum of the shorter absences before it

with away as (
    select
        o.host_id,
        o.thread_id,
        o.start_ns,
        o.is_totals_only,
        t.rank,
        o.off_state,
        o.syscall,
        o.next_pid,
        o.next_tid,
        o.waker_pid,
        o.is_yielded,
        o.skipped_ns,
        coalesce(o.duration_ns, 0) as away_ns,
        case
            when o.is_yielded then 0
            else least(coalesce(o.runq_latency_ns, 0), coalesce(o.duration_ns, 0))
        end as runq_ns
    from stg_off_cpu as o
    inner join _step_thread as t on o.host_id = t.host_id and o.thread_id = t.thread_id
    where o.is_totals_only or not o.is_open
),

inside as (
    select
        a.*,
        p.outer_class
    from away as a
    left join _wait_place as p
        on
            a.host_id = p.host_id
            and a.thread_id = p.thread_id
            and a.start_ns = p.start_ns
            and a.is_totals_only = p.is_totals_only
)

select
    i.host_id,
    i.thread_id,
    i.start_ns,
    i.is_totals_only,
    i.rank,
    case
        when i.outer_class <> 'launch_gap' then i.outer_class
        when i.is_yielded then 'yielded'
        when i.off_state = 'stopped' then 'stopped'
        when i.off_state = 'disk' then 'disk'
        when i.off_state = 'sleep' then coalesce(k.class, 'unexplained')
        else 'unexplained'
    end as class,
    i.outer_class,
    case
        when i.outer_class in ('waiting_for_others', 'gpu_sync_wait')
            then 'run_queue_in_wait'
        else 'run_queue'
    end as runq_class,
    i.off_state,
    i.syscall,
    i.next_pid,
    i.next_tid,
    i.waker_pid,
    i.start_ns + i.away_ns - i.runq_ns as ready_ns,
    i.start_ns + i.away_ns as end_ns,
    i.away_ns as duration_ns,
    i.runq_ns as runq_latency_ns,
    coalesce(i.skipped_ns, 0) as skipped_ns
from inside as i
left join syscall_class as k on i.syscall = k.syscall
