-- Each accused rank with what the three measures and its time budget say.
--
-- Windows are left out where the whole run accuses the rank already.
--
-- grain:   job_id, rank, window_kind, window_from_step
-- reads:   straggler_score, straggler_order, straggler_cause, _rank_window,
--          _score_window, rank_summary, cause, job_presence, threshold
--
-- columns:
--   job_id              VARCHAR          job
--   rank                INTEGER          global rank
--   window_kind         VARCHAR          run, or window (of 50 steps)
--   window_from_step    BIGINT           first step
--   step_count          BIGINT    count  steps in the window
--   alone_ratio         DOUBLE           job with only it as recorded, over ideal
--   share_ratio         DOUBLE    ratio  part of the job's excess that it alone makes
--   slowdown_ratio      DOUBLE           job as recorded, over ideal
--   won_ns              BIGINT    ns     time won if it were like its role
--   own_ratio           DOUBLE           own work of the run, over its role's median
--   rank_name               VARCHAR          name of it beside its number; NULL: none
--   wait_ns             BIGINT    ns     it waited for others
--   role_median_wait_ns BIGINT    ns     median of that over its role
--   affected_step_count BIGINT    count  late steps
--   affected_steps      BIGINT[]         their numbers
--   period_steps        BIGINT           distance of late steps, if regular
--   onset_step          BIGINT           first late step, if it was not late before
--   growth_ns           BIGINT    ns     growth of the excess a step, if steady
--   magnitude_ns        BIGINT    ns     median excess of the late steps
--   is_support          BOOLEAN          its waits alone show half of the excess
--   host_id             INTEGER          host
--   subject_id          VARCHAR          name as a subject
--   from_ns             BIGINT    ns     begin of the window, cluster time
--   to_ns               BIGINT    ns     end of the window, cluster time
--   step_confidence     DOUBLE    ratio  least confidence that these are steps
--   cause               VARCHAR          code of the view cause
--   cause_evidence      VARCHAR[]        classes of its excess, in words
--   margin_ns           BIGINT    ns     median time after the last of the others
--   clock_error_ns      BIGINT    ns     error of that
--   last_count          BIGINT    count  late steps in which it was surely last
--   not_last_count      BIGINT    count  late steps in which another surely was
--   late_count          BIGINT    count  late steps with a rendezvous
--   is_ordered          BOOLEAN          the clocks support it
--   is_contradicted     BOOLEAN          the clocks contradict it
--   is_rare             BOOLEAN          very few late steps
--   next_step           VARCHAR          what to look at next
--   note                VARCHAR          ranks that are missing; NULL: none

with limit_of as (
    select
        max(value) filter (name = 'clock_agreement') as agreement,
        max(value) filter (name = 'few_steps') as few_steps
    from threshold
),

accused as (
    select
        s.*,
        w.host_id,
        w.subject_id,
        t.from_ns,
        t.to_ns,
        w.confidence as step_confidence,
        c.cause,
        c.evidence as cause_evidence,
        o.margin_ns,
        o.clock_error_ns,
        o.last_count,
        o.not_last_count,
        o.late_count,
        coalesce(o.last_count >= l.agreement * o.late_count, false)
        and o.late_count > 0 as is_ordered,
        coalesce(o.not_last_count >= l.agreement * o.late_count, false)
        and o.late_count > 0 as is_contradicted,
        s.affected_step_count < l.few_steps as is_rare,
        k.next_step,
        p.note,
        r.own_ratio,
        r.rank_name
    from straggler_score as s
    inner join _rank_window as w on s.job_id = w.job_id and s.rank = w.rank
    inner join rank_summary as r on s.job_id = r.job_id and s.rank = r.rank
    left join _score_window as t
        on
            s.job_id = t.job_id
            and s.rank = t.rank
            and s.window_kind = t.window_kind
            and s.window_from_step = t.window_from_step
    left join straggler_order as o
        on
            s.job_id = o.job_id
            and s.rank = o.rank
            and s.window_kind = o.window_kind
            and s.window_from_step = o.window_from_step
    left join straggler_cause as c
        on
            s.job_id = c.job_id
            and s.rank = c.rank
            and s.window_kind = c.window_kind
            and s.window_from_step = c.window_from_step
    left join cause as k on coalesce(c.cause, 'not_determined') = k.code
    left join job_presence as p on s.job_id = p.job_id
    cross join limit_of as l
    where s.is_accused
    qualify
        s.window_kind = 'run'
        or not bool_or(s.window_kind = 'run') over (partition by s.job_id, s.rank)
)

select
    job_id,
    rank,
    window_kind,
    window_from_step,
    step_count,
    alone_ratio,
    share_ratio,
    slowdown_ratio,
    won_ns,
    own_ratio,
    rank_name,
    wait_ns,
    role_median_wait_ns,
    affected_step_count,
    affected_steps,
    period_steps,
    onset_step,
    growth_ns,
    magnitude_ns,
    is_support,
    host_id,
    subject_id,
    from_ns,
    to_ns,
    step_confidence,
    cause,
    cause_evidence,
    margin_ns,
    clock_error_ns,
    last_count,
    not_last_count,
    late_count,
    is_ordered,
    is_contradicted,
    is_rare,
    next_step,
    note
from accused
