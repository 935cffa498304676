-- Which ranks of each job this case holds, and which are missing.
--
-- grain:   job_id
-- reads:   rank, model.late_attach
--
-- columns:
--   job_id        VARCHAR           job
--   world_size    INTEGER           ranks the job has, where known
--   rank_count    BIGINT     count  ranks in this case
--   missing_ranks BIGINT[]          ranks without a bundle
--   note          VARCHAR           what is missing, or cannot be matched; NULL:
--                                   nothing

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
),

unmatched as (
    select
        r.job_id,
        list(distinct r.rank order by r.rank) as ranks
    from model.late_attach as a
    inner join rank as r on a.host_id = r.host_id and a.pid = r.pid
    where a.shift is null and a.state <> 'alone'
    group by r.job_id
)

select
    c.job_id,
    c.world_size,
    c.rank_count,
    c.missing_ranks,
    nullif(concat_ws(
        '; ',
        case
            when len(c.missing_ranks) > 0
                then
                    len(c.missing_ranks)
                    || ' of '
                    || c.world_size
                    || ' ranks are in no bundle: '
                    || array_to_string(c.missing_ranks[1:8], ', ')
                    || if(len(c.missing_ranks) > 8, ' ...', '')
        end,
        'recorders came late, and which call of these ranks is which is not known: '
        || array_to_string(u.ranks[1:8], ', ')
        || if(len(u.ranks) > 8, ' ...', '')
        || '; they order nothing between hosts'
    ), '') as note
from compared as c
left join unmatched as u on c.job_id = u.job_id
