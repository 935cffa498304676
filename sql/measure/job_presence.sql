-- Which ranks of each job this case holds, and which are missing.
--
-- grain:   job_id
-- reads:   rank
--
-- columns:
--   job_id        VARCHAR           job
--   world_size    INTEGER           ranks the job has, where known
--   rank_count    BIGINT     count  ranks in this case
--   missing_ranks BIGINT[]          ranks without a bundle
--   note          VARCHAR           a sentence about them; NULL: none is missing

with present as (
    select
        job_id,
        max(world_size) as world_size,
        count(*) as rank_count,
        list(rank::bigint) as ranks
    from rank
    group by job_id
),

compared as (
    select
        *,
        list_filter(
            range(coalesce(world_size, 0)), lambda x: not list_contains(ranks, x)
        ) as missing_ranks
    from present
)

select
    job_id,
    world_size,
    rank_count,
    missing_ranks,
    case
        when len(missing_ranks) > 0
            then
                len(missing_ranks)
                || ' of '
                || world_size
                || ' ranks are in no bundle: '
                || array_to_string(missing_ranks[1:8], ', ')
                || if(len(missing_ranks) > 8, ' ...', '')
    end as note
from compared
