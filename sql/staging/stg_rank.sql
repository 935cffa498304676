-- Ranks as the environment of their processes names them.
--
-- grain:   bundle_id, pid, start_ticks
-- reads:   raw.fact_rank
--
-- columns:
--   bundle_id   INTEGER          bundle the row came from
--   host_id     INTEGER          host
--   pid         INTEGER          process id
--   start_ticks BIGINT           start since boot, in ticks
--   rank        INTEGER          global rank
--   local_rank  INTEGER          rank on its host
--   world_size  INTEGER          ranks of the job
--   source      VARCHAR          who named the rank
--   job_id      VARCHAR          job it belongs to

select
    bundle_id,
    host_id,
    pid,
    start_ticks,
    rank,
    local_rank,
    world_size,
    source,
    job_id
from raw.fact_rank
