-- Steps of every thread whose time is budgeted, in host time.
--
-- grain:  host_id, thread_id, step
-- reads:  _step_thread, model.step
--
-- columns:
--   host_id   INTEGER      host
--   thread_id INTEGER      thread on that host
--   step      BIGINT       number of the step
--   rank      INTEGER      global rank
--   job_id    VARCHAR      job
--   is_main   BOOLEAN      the thread of the rank that makes most of its collectives
--   start_ns  BIGINT   ns  begin of the step, host MONOTONIC
--   end_ns    BIGINT   ns  end of the step, host MONOTONIC

select
    t.host_id,
    t.thread_id,
    s.step,
    t.rank,
    t.job_id,
    t.is_main,
    s.start_ns,
    s.end_ns
from _step_thread as t
inner join model.step as s on t.job_id = s.job_id and t.rank = s.rank
