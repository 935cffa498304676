-- Rank whose thread is blocked outside calls longer than its peers are.
--
-- Blocked in reads, on disks, in file calls, timers, locks, on the network, or stopped.
--
-- requires: collective, off_cpu
-- uses:     gpu_call
-- subject:  rank
-- reads:    rank_class_excess, _rank_window, cause, threshold
-- columns:  finding

with found as (
    select
        e.*,
        w.subject_id,
        w.from_ns,
        w.to_ns,
        c.code,
        c.next_step
    from rank_class_excess as e
    inner join threshold as t on t.name = 'blocked_step'
    inner join _rank_window as w on e.job_id = w.job_id and e.rank = w.rank
    left join cause as c on e.top_class = c.class
    where e.kind = 'blocked' and e.excess_ratio >= t.value
)

select
    'found' as verdict,
    'rank' as subject_kind,
    subject_id,
    host_id,
    rank,
    from_ns as window_from_ns,
    to_ns as window_to_ns,
    code as cause,
    magnitude_ns,
    null::bigint as clock_error_ns,
    1 + excess_ratio as slowdown_ratio,
    null::double as share_ratio,
    step_count,
    affected_step_count,
    null::bigint as period_steps,
    case
        when peer_count < 2 then 'low'
        when affected_step_count < 3 then 'medium'
        else 'high'
    end as confidence,
    'wait_span' as evidence_view,
    ['host_id = ' || host_id, 'rank = ' || rank, 'class = ''' || top_class || '''']
        as evidence_keys,
    [
        'time budget: ' || top_class || ' in ' || affected_step_count || ' of '
        || step_count || ' steps, ' || round(magnitude_ns / 1e6, 1)
        || ' ms beyond its peers, ' || round(100 * excess_ratio, 1)
        || ' % of all its step time'
    ] as evidence_for,
    if(peer_count = 0, ['no other rank has its role to compare with'], [])
        as evidence_against,
    []::varchar[] as not_checked,
    next_step
from found
