-- One recorded process.
--
-- grain:   host_id, pid, start_ticks
-- reads:   stg_process
--
-- columns:
--   host_id       INTEGER      host
--   pid           INTEGER      process id
--   start_ticks   BIGINT       start since boot, in ticks
--   parent_pid    INTEGER      parent process id
--   process_name  VARCHAR      task name
--   target_reason VARCHAR      why it was recorded
--   job_id        VARCHAR      job it belongs to
--   cgroup        VARCHAR      control group
--   first_ns      BIGINT   ns  first seen, host MONOTONIC
--   exit_ns       BIGINT   ns  gone, host MONOTONIC; NULL while it lived

select
    host_id,
    pid,
    start_ticks,
    max(parent_pid) as parent_pid,
    arg_max(process_name, first_ns) as process_name,
    arg_min(target_reason, first_ns) as target_reason,
    max(job_id) as job_id,
    max(cgroup) as cgroup,
    min(first_ns) as first_ns,
    max(exit_ns) as exit_ns
from stg_process
group by host_id, pid, start_ticks
