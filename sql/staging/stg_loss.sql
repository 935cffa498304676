-- Records that could not be kept, by probe, CPU and reason.
--
-- grain:   bundle_id, stream, probe_id, cpu, reason
-- reads:   raw.fact_loss
--
-- columns:
--   bundle_id  INTEGER      bundle the row came from
--   host_id    INTEGER      host
--   stream     VARCHAR      stream
--   probe_id   SMALLINT     probe in that bundle; NULL for scheduler tracepoints
--   cpu        SMALLINT     CPU on which they were lost; NULL where not known
--   reason     VARCHAR      ring_full, map_full or spool_damaged
--   lost_count BIGINT       records
--   first_ns   BIGINT   ns  first of them, host MONOTONIC
--   last_ns    BIGINT   ns  last of them, host MONOTONIC

select
    bundle_id,
    host_id,
    stream,
    probe_id::smallint as probe_id,
    cpu::smallint as cpu,
    reason,
    lost_count,
    first_ns,
    last_ns
from raw.fact_loss
