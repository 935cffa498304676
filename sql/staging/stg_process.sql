-- Processes that were recorded.
--
-- grain:   bundle_id, pid, start_ticks
-- reads:   raw.fact_process
--
-- columns:
--   bundle_id     INTEGER          bundle the row came from
--   host_id       INTEGER          host
--   pid           INTEGER          process id
--   start_ticks   BIGINT           start since boot, in ticks
--   parent_pid    INTEGER          parent process id
--   process_name  VARCHAR          task name of the process
--   target_reason VARCHAR          why it was recorded
--   job_id        VARCHAR          job it belongs to
--   cgroup        VARCHAR          control group
--   first_ns      BIGINT    ns     first seen, host MONOTONIC
--   exit_ns       BIGINT    ns     gone, host MONOTONIC

select
    bundle_id,
    host_id,
    pid,
    start_ticks,
    parent_pid,
    process_name,
    target_reason,
    job_id,
    cgroup,
    first_ns,
    exit_ns
from raw.fact_process
