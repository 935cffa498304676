-- Clock readings of each host, one a second.
--
-- grain:   bundle_id, monotonic_ns
-- reads:   raw.clock_reading
--
-- columns:
--   bundle_id             INTEGER          bundle the row came from
--   host_id               INTEGER          host
--   monotonic_ns          BIGINT    ns     CLOCK_MONOTONIC
--   monotonic_raw_ns      BIGINT    ns     CLOCK_MONOTONIC_RAW
--   boottime_ns           BIGINT    ns     CLOCK_BOOTTIME
--   realtime_ns           BIGINT    ns     CLOCK_REALTIME
--   tai_ns                BIGINT    ns     CLOCK_TAI
--   bracket_ns            BIGINT    ns     time the five readings took
--   adjtime_frequency_ppb BIGINT    ppb    frequency correction
--   adjtime_status        BIGINT           status bits of adjtimex
--   adjtime_maxerror_us   BIGINT    us     stated maximum error of REALTIME
--   adjtime_esterror_us   BIGINT    us     stated estimated error

select
    bundle_id,
    host_id,
    monotonic_ns,
    monotonic_raw_ns,
    boottime_ns,
    realtime_ns,
    tai_ns,
    bracket_ns,
    adjtime_frequency_ppb::bigint as adjtime_frequency_ppb,
    adjtime_status::bigint as adjtime_status,
    adjtime_maxerror_us::bigint as adjtime_maxerror_us,
    adjtime_esterror_us::bigint as adjtime_esterror_us
from raw.clock_reading
