-- Threads of the process of each rank.
--
-- grain:   host_id, thread_id
-- reads:   thread, rank
--
-- columns:
--   rank      INTEGER  global rank
--   host_id   INTEGER  host
--   thread_id INTEGER  thread on that host
--   job_id    VARCHAR  job

select
    r.rank,
    t.host_id,
    t.thread_id,
    r.job_id
from thread as t
inner join rank as r on t.host_id = r.host_id and t.pid = r.pid
