-- Each rank over all its steps: own work, waiting, and excess over its role.
--
-- grain:   job_id, rank
-- reads:   rank, step_excess
--
-- columns:
--   rank              INTEGER         global rank
--   host_id           INTEGER         host
--   job_id            VARCHAR         job
--   role              VARCHAR         role it plays
--   role_member_count BIGINT   count  ranks of that role
--   rank_name             VARCHAR         name of it beside its number; NULL: none
--   step_count        BIGINT   count  its steps
--   own_ns            BIGINT   ns     time outside waiting for others
--   own_ratio         DOUBLE          that, over the median of its role
--   wait_ns           BIGINT   ns     waiting for others
--   step_ns           BIGINT   ns     length of its steps
--   excess_ns         BIGINT   ns     own time beyond the median of its role, step by
--                                     step

with summed as (
    select
        job_id,
        rank,
        count(*) as step_count,
        sum(own_ns)::bigint as own_ns,
        sum(wait_ns)::bigint as wait_ns,
        sum(step_ns)::bigint as step_ns,
        sum(excess_ns)::bigint as excess_ns
    from step_excess
    group by job_id, rank
)

select
    r.rank,
    r.host_id,
    r.job_id,
    r.role,
    count(*) over (partition by r.job_id, r.role) as role_member_count,
    r.rank_name,
    coalesce(s.step_count, 0) as step_count,
    s.own_ns,
    s.own_ns
    / nullif(median(s.own_ns) over (partition by r.job_id, r.role), 0) as own_ratio,
    s.wait_ns,
    s.step_ns,
    s.excess_ns
from rank as r
left join summed as s on r.job_id = s.job_id and r.rank = s.rank
