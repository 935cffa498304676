-- Threads of the recorded processes.
--
-- grain:   bundle_id, thread_id
-- reads:   raw.fact_thread
--
-- columns:
--   bundle_id   INTEGER          bundle the row came from
--   host_id     INTEGER          host
--   thread_id   INTEGER          thread on that host
--   pid         INTEGER          process id
--   tid         INTEGER          thread id
--   start_ticks BIGINT           start since boot, in ticks
--   thread_name VARCHAR          task name
--   first_ns    BIGINT    ns     first seen, host MONOTONIC

select
    bundle_id,
    host_id,
    thread_id,
    pid,
    tid,
    start_ticks,
    thread_name,
    first_ns
from raw.fact_thread
