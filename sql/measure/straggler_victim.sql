-- Who waits for each accused rank, in its late steps.
--
-- A victim is a rank that waits, in the middle of the late steps, for at least half of
-- the delay.
--
-- grain:   job_id, rank, window_kind, window_from_step, victim_rank
-- reads:   _straggler_accused, step_work
--
-- columns:
--   job_id           VARCHAR      job
--   rank             INTEGER      accused rank
--   window_kind      VARCHAR      run, or window (of 50 steps)
--   window_from_step BIGINT       first step
--   victim_rank      INTEGER      rank that waits
--   victim_host_id   INTEGER      its host
--   wait_ns          BIGINT   ns  median wait in the late steps

with late as (
    select
        job_id,
        rank,
        window_kind,
        window_from_step,
        magnitude_ns,
        unnest(affected_steps) as step
    from _straggler_accused
)

select
    l.job_id,
    l.rank,
    l.window_kind,
    l.window_from_step,
    w.rank as victim_rank,
    w.host_id as victim_host_id,
    median(w.wait_ns)::bigint as wait_ns
from late as l
inner join step_work as w
    on l.job_id = w.job_id and l.step = w.step and l.rank <> w.rank
group by
    l.job_id, l.rank, l.window_kind, l.window_from_step, w.rank, w.host_id
having median(w.wait_ns) >= 0.5 * max(l.magnitude_ns)
