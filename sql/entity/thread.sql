-- One thread of a recorded process.
--
-- grain:   host_id, thread_id
-- reads:   stg_thread, stg_process
--
-- columns:
--   host_id      INTEGER      host
--   thread_id    INTEGER      thread on that host
--   pid          INTEGER      process id
--   tid          INTEGER      thread id
--   start_ticks  BIGINT       start since boot, in ticks
--   thread_name  VARCHAR      task name of the thread
--   process_name VARCHAR      task name of the process
--   first_ns     BIGINT   ns  first seen, host MONOTONIC

with process_name as (
    select
        host_id,
        pid,
        arg_max(process_name, start_ticks) as process_name
    from stg_process
    group by host_id, pid
)

select
    t.host_id,
    t.thread_id,
    max(t.pid) as pid,
    max(t.tid) as tid,
    max(t.start_ticks) as start_ticks,
    arg_max(t.thread_name, t.first_ns) as thread_name,
    any_value(p.process_name) as process_name,
    min(t.first_ns) as first_ns
from stg_thread as t
left join process_name as p on t.host_id = p.host_id and t.pid = p.pid
group by t.host_id, t.thread_id
