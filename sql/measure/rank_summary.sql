-- Each rank over all its steps: own work, waiting, and excess over its role.
--
-- grain:   job_id, rank
-- reads:   rank, step_work
--
-- columns:
--   rank              INTEGER         global rank
--   host_id           INTEGER         host
--   job_id            VARCHAR         job
--   role              VARCHAR         role it plays
--   role_member_count BIGINT   count  ranks of that role
--   step_count        BIGINT   count  its steps
--   own_ns            BIGINT   ns     time outside waiting for others
--   wait_ns           BIGINT   ns     waiting for others
--   step_ns           BIGINT   ns     length of its steps
--   excess_ns         BIGINT   ns     own time beyond the median of its role, step by
--                                     step

with compared as (
    select
        w.job_id,
        w.rank,
        w.own_ns,
        w.wait_ns,
        w.step_ns,
        w.own_ns - median(w.own_ns) over (
            partition by w.job_id, r.role, w.step
        ) as excess_ns
    from step_work as w
    inner join rank as r on w.job_id = r.job_id and w.rank = r.rank
),

summed as (
    select
        job_id,
        rank,
        count(*) as step_count,
        sum(own_ns)::bigint as own_ns,
        sum(wait_ns)::bigint as wait_ns,
        sum(step_ns)::bigint as step_ns,
        sum(excess_ns)::bigint as excess_ns
    from compared
    group by job_id, rank
)

select
    r.rank,
    r.host_id,
    r.job_id,
    r.role,
    count(*) over (partition by r.job_id, r.role) as role_member_count,
    coalesce(s.step_count, 0) as step_count,
    s.own_ns,
    s.wait_ns,
    s.step_ns,
    s.excess_ns
from rank as r
left join summed as s on r.job_id = s.job_id and r.rank = s.rank
