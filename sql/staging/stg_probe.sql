-- Probes that were asked for, with their counters.
--
-- grain:   bundle_id, probe_id
-- reads:   raw.fact_probe
--
-- columns:
--   bundle_id      INTEGER          bundle the row came from
--   host_id        INTEGER          host
--   probe_id       SMALLINT         probe in that bundle
--   stream         VARCHAR          stream it feeds
--   operation      VARCHAR          vendor-neutral operation
--   vendor         VARCHAR          nvidia, mpi or kernel
--   library_ref    INTEGER          library it is in, in that bundle; NULL: the kernel
--   symbol         VARCHAR          function or tracepoint
--   is_attached    BOOLEAN          the kernel accepted it
--   refused_reason VARCHAR          why it was refused
--   hit_count      BIGINT           times it ran
--   lost_count     BIGINT           records it could not write

select
    bundle_id,
    host_id,
    probe_id::smallint as probe_id,
    stream,
    operation,
    vendor,
    library_ref,
    symbol,
    is_attached,
    refused_reason,
    hit_count,
    lost_count
from raw.fact_probe
