-- Each accused rank with all that speaks for and against it.
--
-- High confidence needs the what-if and one other measure in support and none against;
-- clocks that abstain lower nothing. A contradiction, very few late steps, or steps
-- that are not sure give low confidence.
--
-- grain:   job_id, rank, window_kind, window_from_step
-- reads:   _straggler_accused
--
-- columns:
--   job_id              VARCHAR         job
--   rank                INTEGER         global rank
--   window_kind         VARCHAR         run, or window (of 50 steps)
--   window_from_step    BIGINT          first step
--   host_id             INTEGER         host
--   subject_id          VARCHAR         name as a subject
--   from_ns             BIGINT   ns     begin of its steps, cluster time
--   to_ns               BIGINT   ns     end of its steps, cluster time
--   cause               VARCHAR         code of the view cause
--   magnitude_ns        BIGINT   ns     median excess of the late steps, clock-free
--   clock_error_ns      BIGINT   ns     error of the order against the others' hosts
--   slowdown_ratio      DOUBLE          job as recorded, over ideal
--   share_ratio         DOUBLE   ratio  part of the job's excess that it alone makes
--   step_count          BIGINT   count  steps in the window
--   affected_step_count BIGINT   count  late steps
--   affected_steps      BIGINT[]        their numbers
--   period_steps        BIGINT          distance of late steps, if regular
--   confidence          VARCHAR         high, medium or low
--   evidence_for        VARCHAR[]       what supports it
--   evidence_against    VARCHAR[]       what contradicts it
--   not_checked         VARCHAR[]       what abstains or is missing
--   evidence_view       VARCHAR         view whose rows show its late steps
--   next_step           VARCHAR         what to look at next

select
    job_id,
    rank,
    window_kind,
    window_from_step,
    host_id,
    subject_id,
    from_ns,
    to_ns,
    coalesce(cause, 'not_determined') as cause,
    magnitude_ns,
    clock_error_ns,
    slowdown_ratio,
    share_ratio,
    step_count,
    affected_step_count,
    affected_steps,
    period_steps,
    case
        when is_contradicted or is_rare or coalesce(step_confidence, 0) < 0.5 then 'low'
        when is_support or is_ordered then 'high'
        else 'medium'
    end as confidence,
    list_filter(
        [
            'what-if: alone as recorded it makes the job ' || round(alone_ratio, 2)
            || ' times as long as ideal, ' || round(100 * share_ratio)::bigint
            || ' % of the whole excess; like its peers it would win the job '
            || round(won_ns / 1e9, 2) || ' s',
            case
                when rank_name is not null
                    then
                        'operations: its own work takes ' || round(own_ratio, 2)
                        || ' times the median of its role'
            end,
            'onset: not late before step ' || onset_step || ', and mostly since',
            'trend: its excess grows by ' || round(growth_ns / 1e6, 2) || ' ms a step',
            case
                when is_support
                    then
                        'waits, free of clocks: it waited '
                        || round(wait_ns / 1e6 / step_count, 1)
                        || ' ms a step for others, the median of its role '
                        || round(role_median_wait_ns / 1e6 / step_count, 1) || ' ms'
            end,
            case
                when is_ordered
                    then
                        'clocks: it came last by more than their error in '
                        || last_count || ' of ' || late_count || ' late steps (by '
                        || round(margin_ns / 1e6, 1) || ' ms, error '
                        || round(clock_error_ns / 1e6, 3) || ' ms)'
            end
        ] || coalesce(cause_evidence, []),
        lambda x: x is not null
    ) as evidence_for,
    list_filter(
        [
            case
                when is_contradicted
                    then
                        'clocks: another rank came surely later in ' || not_last_count
                        || ' of ' || late_count || ' late steps'
            end,
            case
                when is_rare
                    then 'only ' || affected_step_count || ' late steps'
            end,
            case
                when coalesce(step_confidence, 0) < 0.5
                    then 'the calls show no clear period: steps are not sure'
            end
        ],
        lambda x: x is not null
    ) as evidence_against,
    list_filter(
        [
            note,
            case
                when not is_support
                    then 'waits: too small to show the excess without the what-if'
            end,
            case
                when not is_ordered and not is_contradicted
                    then coalesce(
                        if(
                            coalesce(late_count, 0) = 0,
                            'clocks: abstain, no arrival of it in a late step is known',
                            null
                        ),
                        'clocks: abstain, it came ' || round(abs(margin_ns) / 1e6, 1)
                        || if(margin_ns < 0, ' ms before', ' ms after')
                        || ' the last other rank, with an error of '
                        || round(clock_error_ns / 1e6, 1) || ' ms',
                        'clocks: abstain, its host has no common time with the others'
                    )
            end
        ],
        lambda x: x is not null
    ) as not_checked,
    if(rank_name is null, 'step_budget', 'step_work') as evidence_view,
    next_step
from _straggler_accused
