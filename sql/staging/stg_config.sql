-- How each host, and each recorded process, is set up, one setting a row.
--
-- grain:   bundle_id, scope, pid, setting
-- reads:   raw.fact_config
-- caveat:  pid is 0 for the host
--
-- columns:
--   bundle_id     INTEGER  bundle the row came from
--   host_id       INTEGER  host
--   scope         VARCHAR  host or process
--   pid           INTEGER  process; 0 for the host
--   setting       VARCHAR  what is set
--   setting_value VARCHAR  what it is set to
--   source        VARCHAR  file it was read from

select
    bundle_id,
    host_id,
    scope,
    coalesce(pid, 0) as pid,
    key as setting,
    value as setting_value,
    source
from raw.fact_config
