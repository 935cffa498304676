-- The accusation rule on every rank and window: who alone makes the job slow.
--
-- Accused is who, alone as recorded, makes the job slower than the threshold, by at
-- least half of the job's whole excess, and waits less than its role's median. Of two
-- members of a role that differ, with no third, none can be accused; a rank without a
-- peer has nothing to be compared with. In a window it must be late more than now and
-- then: one hiccup of a machine is most of what 50 quick steps lose.
--
-- grain:   job_id, rank, window_kind, window_from_step
-- reads:   model.what_if, model.straggler_pattern, threshold
--
-- columns:
--   job_id              VARCHAR         job
--   rank                INTEGER         global rank
--   window_kind         VARCHAR         run, or window (of 50 steps)
--   window_from_step    BIGINT          first step
--   window_to_step      BIGINT          last step
--   step_count          BIGINT   count  steps in the window
--   role_member_count   BIGINT   count  ranks of its role
--   alone_ratio         DOUBLE          job with only it as recorded, over ideal
--   share_ratio         DOUBLE   ratio  part of the job's excess that it alone makes
--   slowdown_ratio      DOUBLE          job as recorded, over ideal
--   won_ns              BIGINT   ns     time won in the window if it were like its role
--   wait_ns             BIGINT   ns     it waited for others
--   role_median_wait_ns BIGINT   ns     median of that over its role
--   affected_step_count BIGINT   count  steps in which it was late
--   affected_steps      BIGINT[]        their numbers
--   period_steps        BIGINT          distance of late steps, if regular
--   onset_step          BIGINT          first late step, if it was not late before
--   growth_ns           BIGINT   ns     growth of the excess a step, if steady
--   magnitude_ns        BIGINT   ns     median excess of the late steps
--   is_accused          BOOLEAN         the rule holds
--   is_one_of_two       BOOLEAN         it differs from the only other member of its
--                                       role
--   is_support          BOOLEAN         its waits alone show half of the excess

with limit_of as (
    select
        max(value) filter (name = 'straggler_alone') as alone_limit,
        max(value) filter (name = 'straggler_share') as share_limit,
        max(value) filter (name = 'few_steps') as few_steps
    from threshold
),

scored as (
    select
        w.*,
        p.affected_step_count,
        p.affected_steps,
        p.period_steps,
        p.onset_step,
        p.growth_ns,
        p.magnitude_ns,
        w.alone_ratio >= l.alone_limit
        and w.share_ratio >= l.share_limit
        and w.wait_ns < w.role_median_wait_ns
        and coalesce(p.affected_step_count, 0)
        >= if(w.window_kind = 'run', 1, l.few_steps) as is_late,
        -- the median of two is their mean: each is off by half of what parts them
        2 * (w.alone_ratio - 1) >= l.alone_limit - 1
        and w.share_ratio >= l.share_limit as is_apart
    from model.what_if as w
    left join model.straggler_pattern as p
        on
            w.job_id = p.job_id
            and w.rank = p.rank
            and w.window_kind = p.window_kind
            and w.window_from_step = p.window_from_step
    cross join limit_of as l
)

select
    job_id,
    rank,
    window_kind,
    window_from_step,
    window_to_step,
    step_count,
    role_member_count,
    alone_ratio,
    share_ratio,
    slowdown_ratio,
    job_actual_ns - job_without_ns as won_ns,
    wait_ns,
    role_median_wait_ns,
    coalesce(affected_step_count, 0) as affected_step_count,
    affected_steps,
    period_steps,
    onset_step,
    growth_ns,
    magnitude_ns,
    coalesce(is_late and role_member_count > 2, false) as is_accused,
    role_member_count = 2
    and bool_or(coalesce(is_apart, false)) over (
        partition by job_id, window_kind, window_from_step, role
    ) as is_one_of_two,
    coalesce(
        role_median_wait_ns - wait_ns >= 0.5 * magnitude_ns * affected_step_count, false
    ) as is_support
from scored
