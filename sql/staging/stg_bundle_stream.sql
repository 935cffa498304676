-- Streams of each bundle with their counters, and why others are not there.
--
-- grain:   bundle_id, stream
-- reads:   raw.bundle_stream
--
-- columns:
--   bundle_id            INTEGER          bundle the row came from
--   host_id              INTEGER          host
--   stream               VARCHAR          stream
--   kind                 VARCHAR          uprobe or tracepoint
--   is_damaged           BOOLEAN          part of it could not be loaded
--   missing_columns      VARCHAR[]        columns the recorder could not fill
--   row_count            BIGINT           rows in the bundle
--   loaded_row_count     BIGINT           rows in the case
--   asked_probe_count    INTEGER          probes asked for
--   attached_probe_count INTEGER          probes the kernel accepted
--   hit_count            BIGINT           times its probes ran
--   lost_count           BIGINT           records lost
--   open_count           BIGINT           calls without a return
--   from_ns              BIGINT    ns     probes attached, host MONOTONIC
--   to_ns                BIGINT    ns     probes detached, host MONOTONIC
--   absent_reason        VARCHAR          why it was not recorded; else NULL

select
    bundle_id,
    host_id,
    stream,
    kind,
    is_damaged,
    missing_columns,
    row_count,
    loaded_row_count,
    asked_probe_count::integer as asked_probe_count,
    attached_probe_count::integer as attached_probe_count,
    hit_count,
    lost_count,
    open_count,
    from_ns,
    to_ns,
    absent_reason
from raw.bundle_stream
