-- Bundles of this case.
--
-- grain:   bundle_id
-- reads:   raw.bundle
--
-- columns:
--   bundle_id      INTEGER          bundle the row came from
--   host_id        INTEGER          host
--   path           VARCHAR          file it was loaded from
--   capture_id     VARCHAR          identity of the capture
--   host_name      VARCHAR          name of the host
--   boot_id        VARCHAR          identity of the boot
--   machine_id     VARCHAR          identity of the installation
--   loader         VARCHAR          core or bcc
--   probe_set      VARCHAR          standard or full
--   stop_reason    VARCHAR          why recording ended
--   is_recovered   BOOLEAN          sealed after the recorder was killed
--   planted        VARCHAR          clock that a test tool put in, JSON
--   off_cpu_min_ns BIGINT    ns     shortest absence with a row of its own
--   start_ns       BIGINT    ns     recording began, host MONOTONIC
--   stop_ns        BIGINT    ns     recording ended, host MONOTONIC
--   start_utc      VARCHAR          recording began, wall clock, not trusted

select
    bundle_id,
    host_id,
    path,
    capture_id,
    host_name,
    boot_id,
    machine_id,
    loader,
    probe_set,
    stop_reason,
    is_recovered,
    planted,
    off_cpu_min_ns,
    start_ns,
    stop_ns,
    start_utc
from raw.bundle
