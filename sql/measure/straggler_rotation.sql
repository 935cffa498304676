-- Whether one rank alone is late in many steps of a job, and always another one.
--
-- In such a step the excess of one rank is beyond that of the next by the part
-- affected_step of the view threshold. Two ranks that are late together are none.
--
-- grain:   job_id
-- reads:   step_excess, rank_summary, threshold
--
-- columns:
--   job_id       VARCHAR           job
--   step_count   BIGINT     count  its steps
--   lone_count   BIGINT     count  of them, with one rank alone late
--   ranks        INTEGER[]         ranks that were it, the most frequent first
--   top_ratio    DOUBLE     ratio  steps that the most frequent was it, of lone_count
--   magnitude_ns BIGINT     ns     median excess of the one
--   is_rotating  BOOLEAN           it happens in most steps, to no rank in most of them

with limit_of as (
    select
        max(value) filter (name = 'affected_step') as affected_step,
        max(value) filter (name = 'rotation_step') as rotation_step,
        max(value) filter (name = 'straggler_share') as share_limit
    from threshold
),

ranked as (
    select
        e.job_id,
        e.step,
        arg_max(e.rank, e.excess_ns) as rank,
        max(e.excess_ns, 2) as largest_ns,
        median(e.step_ns) as step_ns
    from step_excess as e
    inner join rank_summary as r on e.job_id = r.job_id and e.rank = r.rank
    where r.role_member_count > 2
    group by e.job_id, e.step
),

late as (
    select
        r.job_id,
        r.rank,
        r.largest_ns[1] as excess_ns,
        r.largest_ns[1] - r.largest_ns[2] >= l.affected_step * r.step_ns as is_lone
    from ranked as r
    cross join limit_of as l
),

counted as (
    select
        job_id,
        rank,
        count(*) as step_count,
        count(*) filter (is_lone) as lone_count,
        list(excess_ns) filter (is_lone) as excesses
    from late
    group by job_id, rank
),

summed as (
    select
        job_id,
        sum(step_count)::bigint as step_count,
        sum(lone_count)::bigint as lone_count,
        list(rank order by lone_count desc, rank asc) filter (lone_count > 0) as ranks,
        max(lone_count) / nullif(sum(lone_count), 0) as top_ratio,
        list_median(flatten(list(excesses) filter (lone_count > 0)))::bigint
            as magnitude_ns
    from counted
    group by job_id
)

select
    s.job_id,
    s.step_count,
    s.lone_count,
    s.ranks,
    s.top_ratio,
    s.magnitude_ns,
    coalesce(
        s.lone_count >= l.rotation_step * s.step_count
        and s.top_ratio < l.share_limit
        and len(s.ranks) > 2,
        false
    ) as is_rotating
from summed as s
cross join limit_of as l
