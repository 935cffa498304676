-- Rank that holds the others up.
--
-- Accused by its own excess over its role, never by who came last; see straggler_score.
--
-- requires: collective
-- uses:     gpu_call, off_cpu
-- subject:  rank
-- gap:      gpu_ahead
-- reads:    straggler_case, straggler_score, _rank_window, job_presence, rank
-- columns:  finding

with undecided as (
    select
        w.*,
        s.window_from_step,
        p.note,
        case
            when r.role is null
                then
                    'roles unknown, cannot separate: its trace does not say which'
                    || ' ranks do the same work'
            when
                w.step_count = 0
                then 'no step of it was found: its calls do not repeat'
            when s.rank is null then 'its steps could not be compared with the job''s'
            when s.role_member_count < 2 then 'no other rank has its role'
            else 'it differs from the only other rank of its role: either may be late'
        end as reason
    from _rank_window as w
    inner join rank as r on w.job_id = r.job_id and w.rank = r.rank
    left join straggler_score as s
        on w.job_id = s.job_id and w.rank = s.rank and s.window_kind = 'run'
    left join job_presence as p on w.job_id = p.job_id
    where
        w.step_count = 0
        or s.rank is null
        or s.role_member_count < 2
        or s.is_one_of_two
)

select
    'found' as verdict,
    'rank' as subject_kind,
    subject_id,
    host_id,
    rank,
    from_ns as window_from_ns,
    to_ns as window_to_ns,
    cause,
    magnitude_ns,
    clock_error_ns,
    slowdown_ratio,
    share_ratio,
    step_count,
    affected_step_count,
    period_steps,
    confidence,
    evidence_view,
    [
        'host_id = ' || host_id,
        'rank = ' || rank,
        'step in (' || array_to_string(affected_steps[1:3], ', ') || ')'
    ] as evidence_keys,
    evidence_for,
    evidence_against,
    not_checked,
    next_step
from straggler_case
union all
select
    'not_decidable' as verdict,
    'rank' as subject_kind,
    subject_id,
    host_id,
    rank,
    from_ns as window_from_ns,
    to_ns as window_to_ns,
    null as cause,
    null as magnitude_ns,
    null as clock_error_ns,
    null as slowdown_ratio,
    null as share_ratio,
    step_count,
    null as affected_step_count,
    null as period_steps,
    null as confidence,
    'step_work' as evidence_view,
    ['host_id = ' || host_id, 'rank = ' || rank] as evidence_keys,
    [] as evidence_for,
    [reason] as evidence_against,
    if(note is null, [], [note]) as not_checked,
    'give it peers that do the same work, or compare with an earlier run' as next_step
from undecided
