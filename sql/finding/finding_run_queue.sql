-- Rank whose thread waits for a CPU longer than its peers do.
--
-- Never from giving the CPU away (sched_yield), nor from waiting inside collectives.
--
-- requires: collective, off_cpu
-- uses:     gpu_call
-- subject:  rank
-- reads:    _class_accused
-- columns:  finding

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
    null::bigint as clock_error_ns,
    slowdown_ratio,
    null::double as share_ratio,
    step_count,
    affected_step_count,
    null::bigint as period_steps,
    confidence,
    'wait_span' as evidence_view,
    [
        'host_id = ' || host_id,
        'rank = ' || rank,
        'runq_class = ''run_queue''',
        'runq_latency_ns > 0'
    ] as evidence_keys,
    evidence_for,
    evidence_against,
    []::varchar[] as not_checked,
    next_step
from _class_accused
where kind = 'run_queue'
