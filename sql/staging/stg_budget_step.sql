-- What a recording gave up to stay within its budget, and when.
--
-- grain:   bundle_id, time_ns
-- reads:   raw.fact_budget_step
--
-- columns:
--   bundle_id  INTEGER       bundle the row came from
--   host_id    INTEGER       host
--   time_ns    BIGINT   ns   from then on, host MONOTONIC
--   step       VARCHAR       name of the step
--   stream     VARCHAR       stream that is thinner from then on; NULL: all end
--   effect     VARCHAR       what is missing from then on
--   share_ppm  BIGINT   ppm  measured cost, of one CPU
--   budget_ppm BIGINT   ppm  allowed cost, of one CPU

select
    bundle_id,
    host_id,
    time_ns,
    step,
    stream,
    effect,
    share_ppm,
    budget_ppm
from raw.fact_budget_step
