-- Job in which the delay goes round: one rank alone is late, each time another.
--
-- No rank is to blame for it over the run; something that moves from rank to rank is.
--
-- requires: collective
-- uses:     gpu_call
-- subject:  job
-- gap:      job_gpu_ahead
-- reads:    straggler_rotation, model.what_if_job
-- columns:  finding

select
    'found' as verdict,
    'job' as subject_kind,
    r.job_id as subject_id,
    null::integer as host_id,
    null::integer as rank,
    null::bigint as window_from_ns,
    null::bigint as window_to_ns,
    null::varchar as cause,
    r.magnitude_ns,
    null::bigint as clock_error_ns,
    j.slowdown_ratio,
    null::double as share_ratio,
    r.step_count,
    r.lone_count as affected_step_count,
    null::bigint as period_steps,
    'medium' as confidence,
    'straggler_rotation' as evidence_view,
    ['job_id = ''' || replace(r.job_id, '''', '''''') || ''''] as evidence_keys,
    [
        'in ' || r.lone_count || ' of ' || r.step_count
        || ' steps one rank alone is late, by ' || round(r.magnitude_ns / 1e6, 1)
        || ' ms; ' || len(r.ranks) || ' ranks were it, the most frequent in '
        || round(100 * r.top_ratio)::bigint || ' % of these steps'
    ] as evidence_for,
    []::varchar[] as evidence_against,
    []::varchar[] as not_checked,
    'look for what moves from rank to rank: a shared lock, a periodic task, input'
        as next_step
from straggler_rotation as r
left join model.what_if_job as j on r.job_id = j.job_id
where r.is_rotating
