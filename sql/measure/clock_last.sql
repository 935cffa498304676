-- How often each host was the last to arrive where it met others: clock-free.
--
-- The last to arrive waits for nobody and so stays the shortest time in a call that
-- releases all together; a stay is a difference of one clock. Two hosts bound each
-- other only while each is last now and then: a host that is always last leaves a band
-- as wide as its lateness.
--
-- grain:   host_id
-- reads:   clock_bound
--
-- columns:
--   host_id    INTEGER         host
--   met_count  BIGINT   count  rendezvous with other hosts
--   last_count BIGINT   count  of them, where this host arrived last
--   last_ratio DOUBLE   ratio  last_count of met_count

with stay as (
    select
        *,
        completion_ns - arrival_ns as stay_ns
    from clock_bound
    where part = 'all' and arrival_ns is not null and completion_ns is not null
),

ranked as (
    select
        host_id,
        row_number() over (
            partition by communicator_id, collective_seq, operation
            order by stay_ns, host_id
        ) = 1 as is_last
    from stay
    qualify
        count(*) over (
            partition by communicator_id, collective_seq, operation
        ) > 1
)

select
    host_id,
    count(*) as met_count,
    count(*) filter (where is_last) as last_count,
    (count(*) filter (where is_last) / count(*))::double as last_ratio
from ranked
group by host_id
