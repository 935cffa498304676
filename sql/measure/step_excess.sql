-- How much longer each rank's own work of a step took than its role's median.
--
-- grain:   job_id, rank, step
-- reads:   rank, step_work
--
-- columns:
--   job_id    VARCHAR      job
--   rank      INTEGER      global rank
--   step      BIGINT       number of the step, the same on every rank
--   own_ns    BIGINT   ns  time outside waiting for others
--   wait_ns   BIGINT   ns  waiting for others
--   step_ns   BIGINT   ns  length of the step
--   excess_ns BIGINT   ns  own time beyond the median of the role in this step

select
    w.job_id,
    w.rank,
    w.step,
    w.own_ns,
    w.wait_ns,
    w.step_ns,
    (
        w.own_ns - median(w.own_ns) over (partition by w.job_id, r.role, w.step)
    )::bigint as excess_ns
from step_work as w
inner join rank as r on w.job_id = r.job_id and w.rank = r.rank
