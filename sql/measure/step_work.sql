-- Time of each rank's step outside waiting for other ranks: free of clocks.
--
-- A rank waits in a rendezvous for as long as it stays longer than the member that
-- stays least; what all stay is the transfer and counts as own work. Enqueue-only calls
-- that one synchronisation completes wait together, so the longest wait of them counts;
-- and only where it is longer than what even the last to come stayed, for else the
-- ranks run ahead of their GPUs and the order in which they issue says nothing. In an
-- imported trace own work is the passes, and waiting may overlap with it.
--
-- grain:       job_id, rank, step
-- reads:       _meeting, activity_length, model.step
-- materialize: yes
-- caveat:      ranks of which the case holds no bundle are not waited for visibly
--
-- columns:
--   rank             INTEGER         global rank
--   host_id          INTEGER         host
--   job_id           VARCHAR         job
--   step             BIGINT          number of the step, the same on every rank
--   rendezvous_count BIGINT   count  rendezvous of the step
--   own_ns           BIGINT   ns     step without waiting for others
--   wait_ns          BIGINT   ns     waiting for others, over every rendezvous
--   step_ns          BIGINT   ns     length of the step
--   ahead_ns         BIGINT   ns     what even the last to come stayed in enqueue-only
--                                    calls: hidden in it, a slow GPU cannot be seen
--   skew_ns          BIGINT   ns     longest wait of any member of those calls

with met as (
    select
        job_id,
        rank,
        arrival_ns,
        completion_ns,
        stay_ns,
        is_enqueue_only,
        min(stay_ns) over meeting as least_stay_ns,
        max(stay_ns) over meeting as largest_stay_ns,
        count(stay_ns) over meeting as known_count
    from _meeting
    window
        meeting as (partition by communicator_id, collective_seq, operation, pairing)
),

placed as (
    select
        m.job_id,
        m.rank,
        s.step,
        m.is_enqueue_only,
        case when m.is_enqueue_only then m.completion_ns else m.arrival_ns end
            as wait_key,
        m.stay_ns - m.least_stay_ns as wait_ns,
        m.least_stay_ns,
        m.largest_stay_ns - m.least_stay_ns as skew_ns
    from met as m
    asof inner join model.step as s
        on m.job_id = s.job_id and m.rank = s.rank and m.arrival_ns >= s.start_ns
    where m.arrival_ns < s.end_ns and m.stay_ns is not null and m.known_count > 1
),

waited as (
    select
        job_id,
        rank,
        step,
        is_enqueue_only,
        count(*) as rendezvous_count,
        max(
            case
                when not is_enqueue_only or wait_ns > least_stay_ns then wait_ns else 0
            end
        ) as wait_ns,
        max(least_stay_ns) filter (is_enqueue_only) as ahead_ns,
        max(skew_ns) filter (is_enqueue_only) as skew_ns
    from placed
    group by job_id, rank, step, is_enqueue_only, wait_key
),

summed as (
    select
        job_id,
        rank,
        step,
        null as own_ns,
        sum(rendezvous_count)::bigint as rendezvous_count,
        sum(wait_ns)::bigint as wait_ns,
        sum(ahead_ns)::bigint as ahead_ns,
        max(skew_ns) as skew_ns
    from waited
    group by job_id, rank, step
    union all
    select
        job_id,
        rank,
        step,
        sum(own_ns) filter (ends_with(operation, '-compute')) as own_ns,
        count(*) filter (is_communication) as rendezvous_count,
        sum(wait_ns)::bigint as wait_ns,
        0 as ahead_ns,
        0 as skew_ns
    from activity_length
    group by job_id, rank, step
)

select
    s.rank,
    s.host_id,
    s.job_id,
    s.step,
    coalesce(w.rendezvous_count, 0) as rendezvous_count,
    coalesce(
        w.own_ns, greatest(s.end_ns - s.start_ns - coalesce(w.wait_ns, 0), 0)
    )::bigint as own_ns,
    coalesce(w.wait_ns, 0) as wait_ns,
    s.end_ns - s.start_ns as step_ns,
    coalesce(w.ahead_ns, 0) as ahead_ns,
    coalesce(w.skew_ns, 0) as skew_ns
from model.step as s
left join summed as w
    on s.job_id = w.job_id and s.rank = w.rank and s.step = w.step
