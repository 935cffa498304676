-- Rank that stuck calls wait for and that never came to them, or is deadlocked.
--
-- A rank that waits is no cause. What a call that is open would have lasted is not
-- known, and nothing here says so. Members without a bundle are not accused.
--
-- requires: collective
-- uses:     gpu_call, off_cpu
-- subject:  rank
-- gap:      hang_unseen
-- reads:    hang_source, hang_unseen, last_activity, subject
-- columns:  finding

with seen as (
    select
        h.*,
        s.subject_id,
        a.operation as last_operation,
        a.is_open,
        a.call_ago_ns,
        a.off_state,
        a.syscall,
        a.off_cpu_ns,
        a.is_ended
    from hang_source as h
    inner join subject as s
        on h.host_id = s.host_id and h.rank = s.rank and s.subject_kind = 'rank'
    left join last_activity as a on h.job_id = a.job_id and h.rank = a.rank
    where h.is_source or h.is_deadlocked
)

select
    'found' as verdict,
    'rank' as subject_kind,
    subject_id,
    host_id,
    rank,
    null::bigint as window_from_ns,
    null::bigint as window_to_ns,
    null::varchar as cause,
    null::bigint as magnitude_ns,
    null::bigint as clock_error_ns,
    null::double as slowdown_ratio,
    null::double as share_ratio,
    null::bigint as step_count,
    null::bigint as affected_step_count,
    null::bigint as period_steps,
    'high' as confidence,
    'hang_wait' as evidence_view,
    ['awaited_host_id = ' || host_id, 'awaited_rank = ' || rank] as evidence_keys,
    list_filter(
        [
            'ranks ' || array_to_string(waiting_ranks[1:12], ', ')
            || if(len(waiting_ranks) > 12, ' and more', '') || ' wait for it in '
            || operation || ' ' || collective_seq || ', for at least '
            || round(open_for_ns / 1e9, 1) || ' s when the recording ended',
            coalesce(
                'the last call that it entered there is ' || last_seq,
                'it entered no call there'
            ),
            if(
                is_deadlocked,
                'deadlock: through others it waits for itself, so none of them goes on',
                null
            ),
            if(
                blocked_count > len(waiting_ranks),
                blocked_count || ' ranks are blocked behind it in all',
                null
            ),
            if(is_ended, 'its process has ended', null),
            'it was ' || if(is_open, 'in ', 'after ') || last_operation || ', entered '
            || round(call_ago_ns / 1e9, 1) || ' s before the end',
            'its main thread was off the CPU (' || off_state
            || coalesce(', in ' || syscall, '') || ') since '
            || round(off_cpu_ns / 1e9, 1) || ' s before the end'
        ],
        lambda x: x is not null
    ) as evidence_for,
    []::varchar[] as evidence_against,
    []::varchar[] as not_checked,
    case
        when is_deadlocked
            then 'compare the order of their calls: each holds what another waits for'
        when is_ended then 'find out why its process ended: logs, signals, memory'
        else 'look at its stack and its logs: it is alive and does not come'
    end as next_step
from seen
union all
select
    'not_decidable' as verdict,
    subject_kind,
    subject_id,
    host_id,
    rank,
    null as window_from_ns,
    null as window_to_ns,
    null as cause,
    null as magnitude_ns,
    null as clock_error_ns,
    null as slowdown_ratio,
    null as share_ratio,
    null as step_count,
    null as affected_step_count,
    null as period_steps,
    null as confidence,
    'hang_wait' as evidence_view,
    ['awaited_rank is null'] as evidence_keys,
    [] as evidence_for,
    [reason] as evidence_against,
    [] as not_checked,
    'bring in its bundle' as next_step
from hang_unseen
