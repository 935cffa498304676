-- What went wrong while bundles were loaded, with the host's name.
--
-- grain:   problem_number
-- reads:   stg_load_problem, stg_bundle
--
-- columns:
--   problem_number BIGINT   number in order of path and kind
--   host_id        INTEGER  host, where one could be read
--   host_name      VARCHAR  its name
--   path           VARCHAR  file
--   kind           VARCHAR  a word for it
--   member         VARCHAR  part of the file
--   message        VARCHAR  a sentence for it

with host_name as (
    select
        host_id,
        max(host_name) as host_name
    from stg_bundle
    group by host_id
)

select
    p.problem_number,
    p.host_id,
    h.host_name,
    p.path,
    p.kind,
    p.member,
    p.message
from stg_load_problem as p
left join host_name as h on p.host_id = h.host_id
