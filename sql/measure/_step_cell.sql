-- Steps of budgeted threads, once for every cell of time that they touch.
--
-- A span finds its step by a hash join on the cell of its start: an asof join would
-- sort every span. A cell is as long as the median step of the thread.
--
-- grain:  host_id, thread_id, step, cell
-- reads:  _thread_step
--
-- columns:
--   host_id   INTEGER      host
--   thread_id INTEGER      thread on that host
--   step      BIGINT       number of the step
--   cell      BIGINT       number of the cell: start_ns // cell_ns
--   start_ns  BIGINT   ns  begin of the step, host MONOTONIC
--   end_ns    BIGINT   ns  end of the step, host MONOTONIC
--   cell_ns   BIGINT   ns  length of a cell of this thread
--   from_ns   BIGINT   ns  begin of the first step of this thread
--   to_ns     BIGINT   ns  end of the last step of this thread

with reach as (
    select
        host_id,
        thread_id,
        min(start_ns) as from_ns,
        max(end_ns) as to_ns,
        greatest(median(end_ns - start_ns)::bigint, 1) as cell_ns
    from _thread_step
    group by host_id, thread_id
)

select
    s.host_id,
    s.thread_id,
    s.step,
    unnest(range(s.start_ns // r.cell_ns, (s.end_ns - 1) // r.cell_ns + 1)) as cell,
    s.start_ns,
    s.end_ns,
    r.cell_ns,
    r.from_ns,
    r.to_ns
from _thread_step as s
inner join reach as r on s.host_id = r.host_id and s.thread_id = r.thread_id
