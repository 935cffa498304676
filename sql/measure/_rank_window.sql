-- Whole span of each rank's steps in cluster time, and who it is as a subject.
--
-- grain:   job_id, rank
-- reads:   subject, rank, model.step, model.clock
--
-- columns:
--   job_id       VARCHAR      job
--   rank         INTEGER      global rank
--   host_id      INTEGER      host
--   subject_id   VARCHAR      name as a subject
--   step_count   BIGINT       its steps
--   confidence   DOUBLE       least confidence that these are steps
--   from_ns      BIGINT   ns  begin of the first step, cluster time
--   to_ns        BIGINT   ns  end of the last, cluster time

with reach as (
    select
        job_id,
        rank,
        host_id,
        count(*) as step_count,
        min(confidence) as confidence,
        min(start_ns) as start_ns,
        max(end_ns) as end_ns
    from model.step
    group by job_id, rank, host_id
)

select
    r.job_id,
    r.rank,
    r.host_id,
    s.subject_id,
    coalesce(e.step_count, 0) as step_count,
    e.confidence,
    e.start_ns + c.offset_ns + ((e.start_ns - c.from_ns) * c.rate)::bigint as from_ns,
    e.end_ns + d.offset_ns + ((e.end_ns - d.from_ns) * d.rate)::bigint as to_ns
from rank as r
inner join subject as s
    on r.host_id = s.host_id and r.rank = s.rank and s.subject_kind = 'rank'
left join reach as e on r.job_id = e.job_id and r.rank = e.rank
asof left join model.clock as c on e.host_id = c.host_id and e.start_ns >= c.from_ns
asof left join model.clock as d on e.host_id = d.host_id and e.end_ns >= d.from_ns
