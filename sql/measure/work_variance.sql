-- How much of the variance of each computation of a role lies between its ranks.
--
-- Near 1 the ranks differ from each other; near 0 each varies alike, from step to step
-- and from micro-batch to micro-batch, and no rank is to blame for it.
--
-- grain:   job_id, role, operation
-- reads:   activity_length
--
-- columns:
--   job_id        VARCHAR         job
--   role          VARCHAR         role: the pipeline stage
--   operation     VARCHAR         computation
--   rank_count    BIGINT   count  ranks of the role
--   mean_ns       BIGINT   ns     mean length
--   largest_ratio DOUBLE          mean of the slowest rank over the median of the ranks
--   between_ratio DOUBLE   ratio  variance between ranks, of the whole; NULL: none

with by_rank as (
    select
        job_id,
        'stage ' || stage as role,
        operation,
        rank,
        count(*) as length_count,
        avg(own_ns) as mean_ns,
        var_pop(own_ns) as within_ns2
    from activity_length
    where not is_communication
    group by job_id, stage, operation, rank
),

whole as (
    select
        *,
        sum(length_count * mean_ns) over kind
        / sum(length_count) over kind as all_mean_ns
    from by_rank
    window kind as (partition by job_id, role, operation)
),

summed as (
    select
        job_id,
        role,
        operation,
        count(*) as rank_count,
        any_value(all_mean_ns) as mean_ns,
        max(mean_ns) / nullif(median(mean_ns), 0) as largest_ratio,
        sum(length_count * (mean_ns - all_mean_ns) ** 2) as between_sum,
        sum(length_count * within_ns2) as within_sum
    from whole
    group by job_id, role, operation
)

select
    job_id,
    role,
    operation,
    rank_count,
    mean_ns::bigint as mean_ns,
    largest_ratio,
    between_sum / nullif(between_sum + within_sum, 0) as between_ratio
from summed
