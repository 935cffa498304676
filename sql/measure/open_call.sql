-- Calls that had not returned when recording stopped, and since when.
--
-- An open call has no duration. Most are open because recording stopped within them; a
-- call is stuck when it had been open for long by both limits of the view threshold:
-- hang_open, and hang_open_ratio of the longest stay that its rank ever completed.
--
-- grain:   host_id, thread_id, start_ns
-- reads:   collective_span, host, threshold
--
-- columns:
--   job_id            VARCHAR       job
--   rank              INTEGER       global rank
--   host_id           INTEGER       host
--   thread_id         INTEGER       thread on that host
--   start_ns          BIGINT   ns   entry of the call, host MONOTONIC
--   communicator_id   VARCHAR       communicator
--   communicator_rank INTEGER       rank within it
--   collective_seq    BIGINT        number of the call in it
--   operation         VARCHAR       operation
--   peer_rank         INTEGER       root or peer, as rank within the communicator
--   is_base_known     BOOLEAN       its number counts from the communicator's creation
--   open_for_ns       BIGINT   ns   from its entry to the end of the recording
--   is_stuck          BOOLEAN       that is too long for a call that goes on

with limit_of as (
    select
        max(value) filter (name = 'hang_open') as open_s,
        max(value) filter (name = 'hang_open_ratio') as open_ratio
    from threshold
),

longest as (
    select
        host_id,
        pid,
        max(issued_ns - arrival_ns) as stay_ns
    from collective_span
    where is_blocking and not is_open and operation not like 'comm%'
    group by host_id, pid
)

select
    c.job_id,
    c.rank,
    c.host_id,
    c.thread_id,
    c.start_ns,
    c.communicator_id,
    c.communicator_rank,
    c.collective_seq,
    c.operation,
    c.peer_rank,
    c.is_base_known,
    h.stop_ns - c.start_ns as open_for_ns,
    h.stop_ns - c.start_ns
    >= greatest(1e9 * l.open_s, l.open_ratio * coalesce(g.stay_ns, 0)) as is_stuck
from collective_span as c
inner join host as h on c.host_id = h.host_id
left join longest as g on c.host_id = g.host_id and c.pid = g.pid
cross join limit_of as l
where c.is_open and c.rank is not null
