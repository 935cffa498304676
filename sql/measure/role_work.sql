-- Own work of each role of a job, against the other roles and among its own ranks.
--
-- A role that works longer than the others slows a job as a late rank does, but it is
-- the way the work was cut and no rank is to blame: reported, and never an accusation.
--
-- grain:   job_id, role
-- reads:   rank_summary
--
-- columns:
--   job_id       VARCHAR          job
--   role         VARCHAR          role
--   member_count BIGINT    count  ranks of that role
--   ranks        INTEGER[]        them
--   own_ns       BIGINT    ns     own work of a step, median of the role's ranks
--   other_own_ns BIGINT    ns     the same, median of the other roles; NULL: none
--   work_ratio   DOUBLE           the former over the latter
--   spread_ratio DOUBLE           slowest rank of the role over its fastest

with worked as (
    select
        job_id,
        role,
        rank,
        own_ns / step_count as own_ns
    from rank_summary
    where step_count > 0 and role is not null
),

role_own as (
    select
        job_id,
        role,
        count(*) as member_count,
        list(rank order by rank) as ranks,
        median(own_ns) as own_ns,
        max(own_ns) / nullif(min(own_ns), 0) as spread_ratio
    from worked
    group by job_id, role
),

compared as (
    select
        a.*,
        median(b.own_ns) as other_own_ns
    from role_own as a
    left join role_own as b on a.job_id = b.job_id and a.role <> b.role
    group by all
)

select
    job_id,
    role,
    member_count,
    ranks,
    own_ns::bigint as own_ns,
    other_own_ns::bigint as other_own_ns,
    own_ns / nullif(other_own_ns, 0) as work_ratio,
    spread_ratio
from compared
