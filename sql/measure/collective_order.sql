-- First call of each communicator on which its members do not agree.
--
-- Calls meet by their number, so all members must give each number the same operation,
-- and one of equal size and type where the library demands it: in NCCL everywhere, in
-- MPI in reductions. Sends and receives are numbered by pair and not looked at.
--
-- grain:   communicator_id
-- reads:   collective_span, communicator
-- caveat:  only calls numbered since the communicator was made can be compared
--
-- columns:
--   communicator_id  VARCHAR           communicator
--   size             INTEGER           members it has; NULL where nobody recorded it
--   member_count     BIGINT     count  members whose numbered calls are in this case
--   unnumbered_count BIGINT     count  members whose calls are not numbered
--   last_agreed_seq  BIGINT            last number on which all agree; NULL: none
--   first_seq        BIGINT            first on which they differ; NULL: none does
--   call_words       VARCHAR[]         the calls made under it, most members first
--   member_words     VARCHAR[]         who made each, as ranks
--   minority_ranks   INTEGER[]         who differs from a majority; NULL: there is none

with numbered as (
    select
        communicator_id,
        collective_seq,
        host_id,
        pid,
        coalesce(rank, communicator_rank) as rank,
        operation,
        case
            when
                is_enqueue_only
                or operation in ('all_reduce', 'reduce', 'scan', 'exscan')
                then element_count
        end as element_count,
        data_type,
        is_base_known
    from collective_span
    where
        communicator_id is not null
        and collective_seq is not null
        and operation not in ('send', 'recv')
        and not is_captured
),

members as (
    select
        communicator_id,
        count(distinct row(host_id, pid)) filter (is_base_known) as member_count,
        count(distinct row(host_id, pid)) filter (not is_base_known)
            as unnumbered_count
    from numbered
    group by communicator_id
),

differing as (
    select
        communicator_id,
        collective_seq
    from numbered
    where is_base_known
    group by communicator_id, collective_seq
    having
        min(operation) <> max(operation)
        or min(element_count) <> max(element_count)
        or min(data_type) <> max(data_type)
),

first_differing as (
    select
        communicator_id,
        min(collective_seq) as first_seq
    from differing
    group by communicator_id
),

choice as (
    select
        n.communicator_id,
        n.operation || coalesce(' of ' || n.element_count || ' elements', '')
        || coalesce(', type ' || n.data_type, '') as call_words,
        list(distinct n.rank order by n.rank) as ranks
    from numbered as n
    inner join first_differing as f
        on n.communicator_id = f.communicator_id and n.collective_seq = f.first_seq
    where n.is_base_known
    group by n.communicator_id, n.operation, n.element_count, n.data_type
),

chosen as (
    select
        communicator_id,
        list(call_words order by len(ranks) desc, call_words asc) as call_words,
        list(
            array_to_string(ranks, ', ') order by len(ranks) desc, call_words asc
        ) as member_words,
        list(ranks order by len(ranks) desc, call_words asc) as ranks,
        sum(len(ranks)) as all_count
    from choice
    group by communicator_id
)

select
    m.communicator_id,
    c.size,
    m.member_count,
    m.unnumbered_count,
    nullif(f.first_seq, 0) - 1 as last_agreed_seq,
    f.first_seq,
    h.call_words,
    h.member_words,
    if(2 * len(h.ranks[1]) > h.all_count, flatten(h.ranks[2:]), null) as minority_ranks
from members as m
inner join communicator as c on m.communicator_id = c.communicator_id
left join first_differing as f on m.communicator_id = f.communicator_id
left join chosen as h on m.communicator_id = h.communicator_id
