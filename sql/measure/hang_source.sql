-- Each rank that stuck calls wait for, and whether it waits for itself in the end.
--
-- A source is waited for and is in no stuck call itself. A rank that reaches itself
-- along the edges is in a deadlock: none of its circle can go on.
--
-- grain:   job_id, rank
-- reads:   hang_wait
--
-- columns:
--   job_id          VARCHAR           job
--   rank            INTEGER           rank that is waited for
--   host_id         INTEGER           its host
--   waiting_ranks   INTEGER[]         who waits for it, directly
--   blocked_count   BIGINT     count  who waits for it, directly or through others
--   communicator_id VARCHAR           communicator on which most wait for it
--   collective_seq  BIGINT            number of the call that it never entered
--   last_seq        BIGINT            last that it entered there; NULL: none
--   operation       VARCHAR           operation of the waiting call
--   open_for_ns     BIGINT     ns     longest that somebody had waited at the end
--   is_source       BOOLEAN           it is in no stuck call itself
--   is_deadlocked   BOOLEAN           it waits, through others, for itself

with recursive edge as (
    select distinct
        job_id,
        rank,
        awaited_rank
    from hang_wait
    where awaited_rank is not null
),

reach as (
    select
        job_id,
        rank,
        awaited_rank
    from edge
    union
    select
        r.job_id,
        r.rank,
        e.awaited_rank
    from reach as r
    inner join edge as e on r.job_id = e.job_id and r.awaited_rank = e.rank
),

behind as (
    select
        job_id,
        awaited_rank as rank,
        count(*) filter (rank <> awaited_rank) as blocked_count,
        bool_or(rank = awaited_rank) as is_deadlocked
    from reach
    group by job_id, awaited_rank
),

met as (
    select
        job_id,
        awaited_rank as rank,
        any_value(awaited_host_id) as host_id,
        list(distinct rank order by rank) as waiting_ranks,
        mode(communicator_id) as communicator_id,
        max(open_for_ns) as open_for_ns
    from hang_wait
    where awaited_rank is not null
    group by job_id, awaited_rank
),

waiting as (
    select distinct
        job_id,
        rank
    from hang_wait
),

missed as (
    select
        job_id,
        awaited_rank as rank,
        communicator_id,
        min(collective_seq) as collective_seq,
        max(last_seq) as last_seq,
        any_value(operation) as operation
    from hang_wait
    group by job_id, awaited_rank, communicator_id
)

select
    m.job_id,
    m.rank,
    m.host_id,
    m.waiting_ranks,
    b.blocked_count,
    m.communicator_id,
    s.collective_seq,
    s.last_seq,
    s.operation,
    m.open_for_ns,
    w.rank is null as is_source,
    b.is_deadlocked
from met as m
inner join behind as b on m.job_id = b.job_id and m.rank = b.rank
inner join missed as s
    on
        m.job_id = s.job_id
        and m.rank = s.rank
        and m.communicator_id = s.communicator_id
left join waiting as w on m.job_id = w.job_id and m.rank = w.rank
