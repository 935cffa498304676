-- Latest arrival and earliest completion of each host at each rendezvous.
--
-- No member completes before the last arrival that it waits for: of one rendezvous
-- every arrival here lies before every completion here, on whatever clock. Rendezvous
-- of one host alone say nothing and are left out.
--
-- grain:   communicator_id, collective_seq, operation, part, host_id
-- reads:   clock_call, clock_rule
-- caveat:  an open call still gives its arrival
--
-- columns:
--   communicator_id VARCHAR         communicator of the rendezvous
--   collective_seq  BIGINT          number of the call in it
--   operation       VARCHAR         operation
--   part            VARCHAR         which law of clock_rule
--   host_id         INTEGER         host
--   is_release      BOOLEAN         members leave together: the call blocks and is
--                                   symmetric
--   member_count    BIGINT   count  members on this host
--   arrival_rank    INTEGER         global rank that arrived last on this host
--   arrival_ns      BIGINT   ns     latest arrival that others wait for; NULL: none
--   completion_ns   BIGINT   ns     earliest completion that waits; NULL: none proved

with member as (
    select
        c.*,
        r.part,
        r.is_release,
        r.arrival_of,
        r.completion_of,
        case
            when c.communicator_rank = c.peer_rank then ['every', 'root']
            else ['every']
        end as plain_places,
        case when c.communicator_rank = 0 then ['first'] else [] end as first_place,
        case
            when c.communicator_rank = c.communicator_size - 1 then ['last'] else []
        end as last_place
    from clock_call as c
    inner join clock_rule as r on c.operation = r.operation
    where c.reason is null
),

law as (
    select
        *,
        list_contains(
            plain_places || first_place || last_place, arrival_of
        ) as is_waited_for,
        list_contains(
            plain_places || first_place || last_place, completion_of
        ) as is_waiting
    from member
),

bound as (
    select
        communicator_id,
        collective_seq,
        operation,
        part,
        host_id,
        bool_and(is_release and is_blocking) as is_release,
        count(*) as member_count,
        arg_max(rank, arrival_ns) filter (where is_waited_for) as arrival_rank,
        max(arrival_ns) filter (where is_waited_for) as arrival_ns,
        min(completion_ns) filter (where is_waiting) as completion_ns
    from law
    group by communicator_id, collective_seq, operation, part, host_id
    having
        max(arrival_ns) filter (where is_waited_for) is not null
        or min(completion_ns) filter (where is_waiting) is not null
)

select
    communicator_id,
    collective_seq,
    operation,
    part,
    host_id,
    is_release,
    member_count,
    arrival_rank,
    arrival_ns,
    completion_ns
from bound
qualify
    count(*) over (
        partition by communicator_id, collective_seq, operation, part
    ) > 1
