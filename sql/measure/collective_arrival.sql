-- When each member came to each rendezvous, in cluster time, with its error.
--
-- Cluster time is proved by the clock model. A member came surely last when it came
-- later than every other member by more than the error between the two hosts; on one
-- host the error is zero. Members whose clocks are in different groups are not
-- compared.
--
-- grain:       host_id, thread_id, start_ns
-- reads:       _arrival_time, _last_arrival, model.clock_pair
-- materialize: yes
--
-- columns:
--   communicator_id VARCHAR      communicator
--   collective_seq  BIGINT       number of the call in it; 0: it makes it
--   operation       VARCHAR      operation; send_recv for both sides
--   pairing         VARCHAR      sender>receiver of a send_recv, else all
--   host_id         INTEGER      host
--   thread_id       INTEGER      thread on that host
--   start_ns        BIGINT   ns  entry of the call, host MONOTONIC
--   rank            INTEGER      global rank
--   job_id          VARCHAR      job
--   clock_group_id  INTEGER      hosts whose times may be compared
--   arrival_ns      BIGINT   ns  arrival, host MONOTONIC
--   ts_ns           BIGINT   ns  arrival, cluster time
--   arrival_skew_ns BIGINT   ns  after the first member of the group
--   margin_ns       BIGINT   ns  after the last of the other members; negative: before
--                                it
--   wait_ns         BIGINT   ns  arrival to completion, free of clocks; NULL: not
--                                proved
--   clock_error_ns  BIGINT   ns  half-width of the error of arrival_skew_ns
--   margin_error_ns BIGINT   ns  half-width of the error of margin_ns; of the last
--                                member, the largest against any other
--   is_surely_last  BOOLEAN      it came after every other member by more than the
--                                error between their hosts

with compared as (
    select
        *,
        row_number() over late as place,
        first_value(ts_ns) over late as last_ts_ns,
        first_value(host_id) over late as last_host_id,
        nth_value(ts_ns, 2) over late as second_ts_ns,
        nth_value(host_id, 2) over late as second_host_id,
        last_value(ts_ns) over late as first_ts_ns,
        last_value(host_id) over late as first_host_id
    from _arrival_time
    window
        late as (
            partition by
                communicator_id, collective_seq, operation, pairing, clock_group_id
            order by ts_ns desc, rank asc
            rows between unbounded preceding and unbounded following
        )
),

against as (
    select
        *,
        if(place = 1, second_ts_ns, last_ts_ns) as other_ts_ns,
        if(place = 1, second_host_id, last_host_id) as other_host_id
    from compared
),

erred as (
    select
        a.*,
        a.ts_ns - a.other_ts_ns as margin_ns,
        case when a.host_id = a.first_host_id then 0 else f.error_ns end
            as clock_error_ns,
        case
            when a.place = 1 then l.error_ns
            when a.host_id = a.other_host_id then 0
            else o.error_ns
        end as margin_error_ns,
        a.place = 1 and l.is_surely_last as is_surely_last
    from against as a
    inner join _last_arrival as l
        on
            a.communicator_id = l.communicator_id
            and a.collective_seq = l.collective_seq
            and a.operation = l.operation
            and a.pairing = l.pairing
            and a.clock_group_id = l.clock_group_id
    asof left join model.clock_pair as f
        on
            a.host_id = f.host_id
            and a.first_host_id = f.other_host_id
            and a.ts_ns >= f.from_ts_ns
    asof left join model.clock_pair as o
        on
            a.host_id = o.host_id
            and a.other_host_id = o.other_host_id
            and a.ts_ns >= o.from_ts_ns
)

select
    communicator_id,
    collective_seq,
    operation,
    pairing,
    host_id,
    thread_id,
    start_ns,
    rank,
    job_id,
    clock_group_id,
    arrival_ns,
    ts_ns,
    ts_ns - first_ts_ns as arrival_skew_ns,
    margin_ns,
    wait_ns,
    clock_error_ns,
    margin_error_ns,
    is_surely_last
from erred
