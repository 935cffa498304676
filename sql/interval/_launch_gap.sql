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

window_of as (
    select
        host_id,
        thread_id,
        coalesce(lag(start_ns) over calls, 0) as from_ns,
        start_ns as end_ns
    from call
    window
        calls as (partition by host_id, thread_id order by start_ns)
)

select
    w.host_id,
    w.thread_id,
    l.start_ns,
    w.end_ns
from window_of as w
asof inner join launch as l
    on
        w.host_id = l.host_id
        and w.thread_id = l.thread_id
        and w.from_ns <= l.start_ns
where l.start_ns < w.end_ns
