-- Job in which one role works longer than the others: the way the work was cut.
--
-- An observation about the job, not about any rank: the ranks of the role are alike.
--
-- requires: collective
-- uses:     gpu_call
-- subject:  job
-- gap:      job_gpu_ahead
-- reads:    role_work, model.what_if_job, threshold
-- columns:  finding

with longest as (
    select
        w.*,
        j.slowdown_ratio,
        j.last_stage_share_ratio,
        j.step_count
    from role_work as w
    inner join threshold as t on t.name = 'role_imbalance'
    left join model.what_if_job as j on w.job_id = j.job_id
    where
        w.member_count > 1
        and w.work_ratio >= t.value
        and w.spread_ratio < 1 + 0.5 * (w.work_ratio - 1)
    qualify
        row_number() over (partition by w.job_id order by w.own_ns desc, w.role asc) = 1
)

select
    'found' as verdict,
    'job' as subject_kind,
    job_id as subject_id,
    null::integer as host_id,
    null::integer as rank,
    null::bigint as window_from_ns,
    null::bigint as window_to_ns,
    null::varchar as cause,
    own_ns - other_own_ns as magnitude_ns,
    null::bigint as clock_error_ns,
    slowdown_ratio,
    null::double as share_ratio,
    step_count,
    step_count as affected_step_count,
    null::bigint as period_steps,
    'high' as confidence,
    'role_work' as evidence_view,
    ['job_id = ''' || replace(job_id, '''', '''''') || ''''] as evidence_keys,
    list_filter(
        [
            role || ' works ' || round(own_ns / 1e9, 3) || ' s a step on all '
            || member_count || ' ranks of it (within '
            || round(100 * (spread_ratio - 1), 1) || ' %), the other roles '
            || round(other_own_ns / 1e9, 3) || ' s',
            'what-if: the last stage makes '
            || round(100 * last_stage_share_ratio)::bigint
            || ' % of what the job takes beyond even work'
        ],
        lambda x: x is not null
    ) as evidence_for,
    []::varchar[] as evidence_against,
    []::varchar[] as not_checked,
    'cut the work more evenly: no rank of the role is slower than its peers'
        as next_step
from longest
