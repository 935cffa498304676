-- The member that came last to each rendezvous, and whether it surely did.
--
-- Surely last is who came later than the last member of every other host by more than
-- the error between the two hosts, and later than all others of its own host. Only the
-- latest in cluster time can be that.
--
-- grain:   communicator_id, collective_seq, operation, pairing, clock_group_id
-- reads:   _arrival_time, model.clock_pair
--
-- columns:
--   communicator_id VARCHAR      communicator
--   collective_seq  BIGINT       number of the call in it; 0: it makes it
--   operation       VARCHAR      operation; send_recv for both sides
--   pairing         VARCHAR      sender>receiver of a send_recv, else all
--   clock_group_id  INTEGER      hosts whose times may be compared
--   rank            INTEGER      the latest member
--   error_ns        BIGINT   ns  largest error against the host of another member
--   is_surely_last  BOOLEAN      it came after all others by more than the errors

with on_host as (
    select
        communicator_id,
        collective_seq,
        operation,
        pairing,
        clock_group_id,
        host_id,
        max(ts_ns) as last_ts_ns,
        max(ts_ns, 2)[2] as second_ts_ns,
        arg_max(rank, (ts_ns, -rank)) as rank
    from _arrival_time
    group by all
),

latest as (
    select *
    from on_host
    qualify row_number() over (
        partition by
            communicator_id, collective_seq, operation, pairing, clock_group_id
        order by last_ts_ns desc, rank asc
    ) = 1
),

rival as (
    select
        l.*,
        o.host_id as other_host_id,
        o.last_ts_ns as other_ts_ns
    from latest as l
    left join on_host as o
        on
            l.communicator_id = o.communicator_id
            and l.collective_seq = o.collective_seq
            and l.operation = o.operation
            and l.pairing = o.pairing
            and l.clock_group_id = o.clock_group_id
            and l.host_id <> o.host_id
),

erred as (
    select
        r.*,
        if(r.other_host_id is null, 0, p.error_ns) as error_ns
    from rival as r
    asof left join model.clock_pair as p
        on
            r.host_id = p.host_id
            and r.other_host_id = p.other_host_id
            and r.last_ts_ns >= p.from_ts_ns
)

select
    communicator_id,
    collective_seq,
    operation,
    pairing,
    clock_group_id,
    any_value(rank) as rank,
    max(error_ns) as error_ns,
    coalesce(
        bool_and(
            other_host_id is null
            or coalesce(last_ts_ns - other_ts_ns > error_ns, false)
        )
        and bool_and(second_ts_ns is null or last_ts_ns > second_ts_ns)
        and (count(other_host_id) > 0 or count(second_ts_ns) > 0),
        false
    ) as is_surely_last
from erred
group by communicator_id, collective_seq, operation, pairing, clock_group_id
