-- What each rank was doing when recording stopped, as far as it was recorded.
--
-- grain:   job_id, rank
-- reads:   rank, collective_span, rank_thread, stg_off_cpu, host, process
--
-- columns:
--   job_id        VARCHAR      job
--   rank          INTEGER      global rank
--   host_id       INTEGER      host
--   operation     VARCHAR      last call that it entered; NULL: none is known
--   is_open       BOOLEAN      that call had not returned
--   call_ago_ns   BIGINT   ns  from its entry to the end of the recording
--   off_state     VARCHAR      state of its main thread, if it was off the CPU
--   syscall       VARCHAR      system call in which it was; NULL: none
--   off_cpu_ns    BIGINT   ns  from its leaving the CPU to the end of the recording
--   is_ended      BOOLEAN      its process had ended

with last_call as (
    select
        host_id,
        pid,
        arg_max(operation, start_ns) as operation,
        arg_max(is_open, start_ns) as is_open,
        max(start_ns) as start_ns
    from collective_span
    group by host_id, pid
),

away as (
    select
        t.host_id,
        t.rank,
        t.job_id,
        min(o.start_ns) as start_ns,
        arg_min(o.off_state, o.start_ns) as off_state,
        arg_min(o.syscall, o.start_ns) as syscall
    from stg_off_cpu as o
    inner join rank_thread as t
        on o.host_id = t.host_id and o.thread_id = t.thread_id
    inner join rank as r on t.job_id = r.job_id and t.rank = r.rank and o.tid = r.pid
    where o.is_open
    group by t.host_id, t.rank, t.job_id
)

select
    r.job_id,
    r.rank,
    r.host_id,
    c.operation,
    c.is_open,
    h.stop_ns - c.start_ns as call_ago_ns,
    a.off_state,
    a.syscall,
    h.stop_ns - a.start_ns as off_cpu_ns,
    coalesce(p.exit_ns is not null, false) as is_ended
from rank as r
inner join host as h on r.host_id = h.host_id
left join last_call as c on r.host_id = c.host_id and r.pid = c.pid
left join away as a on r.job_id = a.job_id and r.rank = a.rank
left join process as p
    on r.host_id = p.host_id and r.pid = p.pid and r.start_ticks = p.start_ticks
where r.pid is not null
