-- Ranks that run ahead of their GPUs, so that a slow GPU there cannot be seen.
--
-- Under enqueue-only collectives the host issues everything early and all ranks wait
-- alike for the slowest GPU. Where even the last rank to issue stays longer than the
-- ranks differ, by a part of the step that matters, nothing here can tell whose GPU it
-- was.
--
-- grain:   subject_kind, subject_id
-- reads:   subject, step_work, collective_span, threshold
--
-- columns:
--   subject_kind VARCHAR  rank
--   subject_id   VARCHAR  its rank
--   host_id      INTEGER  host
--   rank         INTEGER  global rank
--   stream       VARCHAR  stream that would be needed
--   reason       VARCHAR  why it cannot be seen

with ahead as (
    select
        host_id,
        rank,
        sum(ahead_ns) filter (ahead_ns > skew_ns) / sum(step_ns) as ahead_ratio,
        median(ahead_ns) filter (ahead_ns > skew_ns) as ahead_ns,
        median(skew_ns) filter (ahead_ns > skew_ns) as skew_ns
    from step_work
    group by host_id, rank
),

enqueued as (
    select
        host_id,
        rank,
        count(*) as call_count,
        count(completion_ns) as proved_count
    from collective_span
    where is_enqueue_only and rank is not null
    group by host_id, rank
),

limit_of as (
    select value as gap_step from threshold
    where name = 'gap_step'
)

select
    s.subject_kind,
    s.subject_id,
    s.host_id,
    s.rank,
    'gpu_kernel' as stream,
    case
        when e.proved_count < 0.5 * e.call_count
            then
                'GPU-side arrival is not recorded by this capture, and no recorded'
                || ' synchronisation covers the stream of '
                || e.call_count - e.proved_count || ' of ' || e.call_count || ' calls'
        else
            'GPU-side arrival is not recorded by this capture: collectives complete '
            || round(a.ahead_ns / 1e6, 1) || ' ms after the last rank issues them, '
            || round(100 * a.ahead_ratio)::bigint
            || ' % of a step, while ranks differ by '
            || round(a.skew_ns / 1e6, 1) || ' ms'
    end as reason
from subject as s
inner join enqueued as e on s.host_id = e.host_id and s.rank = e.rank
left join ahead as a on s.host_id = a.host_id and s.rank = a.rank
cross join limit_of as l
where e.proved_count < 0.5 * e.call_count or a.ahead_ratio >= l.gap_step
