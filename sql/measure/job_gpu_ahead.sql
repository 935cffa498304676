-- Jobs some of whose ranks run ahead of their GPUs, for findings about whole jobs.
--
-- grain:   subject_kind, subject_id
-- reads:   gpu_ahead, rank
--
-- columns:
--   subject_kind VARCHAR  job
--   subject_id   VARCHAR  its job
--   host_id      INTEGER  NULL: a job is on no single host
--   rank         INTEGER  NULL: it is no rank
--   stream       VARCHAR  stream that would be needed
--   reason       VARCHAR  why it cannot be seen

select
    'job' as subject_kind,
    r.job_id as subject_id,
    null::integer as host_id,
    null::integer as rank,
    any_value(g.stream) as stream,
    count(*) || ' ranks run ahead of their GPUs: ' || min(g.reason) as reason
from gpu_ahead as g
inner join rank as r on g.host_id = r.host_id and g.rank = r.rank
group by r.job_id
