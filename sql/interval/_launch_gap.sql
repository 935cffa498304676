-- Time from a kernel launch recorded by entry alone to the next recorded call.
--
-- The launch may block and nobody saw it return: what follows it is neither surely in
-- the launch nor surely computing.
--
-- grain:       host_id, thread_id, start_ns
-- reads:       stg_gpu_call, stg_collective, _step_thread
-- materialize: yes
--
-- columns:
--   host_id   INTEGER      host
--   thread_id INTEGER      thread on that host
--   start_ns  BIGINT   ns  entry of the first launch since the last call, host
--                          MONOTONIC
--   end_ns    BIGINT   ns  entry of the next call that was recorded whole

with launch as (
    select
        g.host_id,
        g.thread_id,
        g.start_ns
    from stg_gpu_call as g
    semi join _step_thread as t on g.host_id = t.host_id and g.thread_id = t.thread_id
    where
        g.call_depth = 0 and not g.is_open and g.duration_ns is null
),

call as (
    select
        g.host_id,
        g.thread_id,
        g.start_ns
    from stg_gpu_call as g
    semi join _step_thread as t on g.host_id = t.host_id and g.thread_id = t.thread_id
    where g.call_depth = 0 and g.duration_ns is not null
    union all
    select
        c.host_id,
        c.thread_id,
        c.start_ns
    from stg_collective as c
    semi join _step_thread as t on c.host_id = t.host_id and c.thread_id = t.thread_id
    where c.call_depth = 0 and c.duration_ns is not null
),

followed as (
    select
        l.host_id,
        l.thread_id,
        l.start_ns,
        c.start_ns as end_ns
    from launch as l
    asof inner join call as c
        on
            l.host_id = c.host_id
            and l.thread_id = c.thread_id
            and l.start_ns <= c.start_ns
)

select
    host_id,
    thread_id,
    min(start_ns) as start_ns,
    end_ns
from followed
group by host_id, thread_id, end_ns
