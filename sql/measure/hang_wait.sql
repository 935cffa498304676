-- Who waits for whom in calls that are stuck: the edges of the wait-for graph.
--
-- A rank in a stuck call waits for each member of the communicator that never entered
-- the call of that number; in a receive or a send, for its peer. A member of which the
-- case holds no bundle may have come or not: such an edge is not certain.
--
-- grain:   host_id, thread_id, start_ns, awaited_communicator_rank
-- reads:   open_call, collective_span
--
-- columns:
--   job_id                    VARCHAR      job
--   rank                      INTEGER      rank that waits
--   host_id                   INTEGER      its host
--   thread_id                 INTEGER      its thread
--   start_ns                  BIGINT   ns  entry of the call, host MONOTONIC
--   communicator_id           VARCHAR      communicator
--   collective_seq            BIGINT       number of the call in it
--   operation                 VARCHAR      operation
--   open_for_ns               BIGINT   ns  from its entry to the end of the recording
--   awaited_communicator_rank INTEGER      member it waits for
--   awaited_rank              INTEGER      its global rank; NULL: in no bundle
--   awaited_host_id           INTEGER      its host; NULL: in no bundle
--   last_seq                  BIGINT       last call that it entered there; NULL: none

with entered as (
    select
        communicator_id,
        communicator_rank,
        case when operation in ('send', 'recv') then operation else 'all' end as kind,
        case when operation in ('send', 'recv') then peer_rank end as peer_rank,
        max(collective_seq) as last_seq
    from collective_span
    where communicator_rank is not null and collective_seq is not null
    group by all
),

member as (
    select distinct
        communicator_id,
        communicator_rank,
        communicator_size,
        rank,
        host_id
    from collective_span
    where communicator_rank is not null and rank is not null
),

stuck as (
    select
        o.*,
        case o.operation when 'send' then 'recv' when 'recv' then 'send' else 'all' end
            as kind,
        m.communicator_size
    from open_call as o
    inner join member as m
        on o.communicator_id = m.communicator_id and o.rank = m.rank
    where
        o.is_stuck
        and o.is_base_known
        and o.collective_seq is not null
        and o.communicator_rank is not null
),

asked as (
    select
        *,
        unnest(
            if(kind = 'all', range(communicator_size), [peer_rank])
        )::integer as awaited
    from stuck
    where kind = 'all' or peer_rank >= 0
)

select
    a.job_id,
    a.rank,
    a.host_id,
    a.thread_id,
    a.start_ns,
    a.communicator_id,
    a.collective_seq,
    a.operation,
    a.open_for_ns,
    a.awaited as awaited_communicator_rank,
    m.rank as awaited_rank,
    m.host_id as awaited_host_id,
    e.last_seq
from asked as a
left join member as m
    on a.communicator_id = m.communicator_id and a.awaited = m.communicator_rank
left join entered as e
    on
        a.communicator_id = e.communicator_id
        and a.awaited = e.communicator_rank
        and a.kind = e.kind
        and (a.kind = 'all' or a.communicator_rank = e.peer_rank)
where
    a.awaited <> a.communicator_rank
    and coalesce(e.last_seq, -1) < a.collective_seq
