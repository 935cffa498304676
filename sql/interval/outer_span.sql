-- Outermost calls of the threads that make collectives, and gaps after launches.
--
-- These spans never overlap on one thread, and every off-CPU time lies within one of
-- them or outside all: the time budget is made by nesting.
--
-- grain:       host_id, thread_id, start_ns
-- reads:       stg_gpu_call, _collective_call, _step_thread, _launch_gap
-- exclusive:   yes
--
-- columns:
--   host_id     INTEGER      host
--   thread_id   INTEGER      thread on that host
--   start_ns    BIGINT   ns  entry, host MONOTONIC
--   class       VARCHAR      waiting_for_others, gpu_sync_wait, gpu_call,
--                            collective_call or launch_gap
--   operation   VARCHAR      operation of the call; launch for a gap after launches
--   end_ns      BIGINT   ns  return, host MONOTONIC
--   duration_ns BIGINT   ns  length

with call as (
    select
        c.host_id,
        c.thread_id,
        c.start_ns,
        if(c.is_enqueue_only, 'collective_call', 'waiting_for_others') as class,
        c.operation,
        c.start_ns + c.duration_ns as end_ns,
        c.duration_ns
    from _collective_call as c
    semi join _step_thread as t on c.host_id = t.host_id and c.thread_id = t.thread_id
    where c.duration_ns is not null
    union all
    select
        g.host_id,
        g.thread_id,
        g.start_ns,
        case
            when g.operation in ('stream_sync', 'device_sync', 'event_sync')
                then 'gpu_sync_wait'
            else 'gpu_call'
        end as class,
        g.operation,
        g.start_ns + g.duration_ns as end_ns,
        g.duration_ns
    from stg_gpu_call as g
    semi join _step_thread as t on g.host_id = t.host_id and g.thread_id = t.thread_id
    where g.call_depth = 0 and g.duration_ns is not null
    union all
    select
        host_id,
        thread_id,
        start_ns,
        'launch_gap' as class,
        'launch' as operation,
        end_ns,
        end_ns - start_ns as duration_ns
    from _launch_gap
)

select
    host_id,
    thread_id,
    start_ns,
    class,
    operation,
    end_ns,
    duration_ns
from call
where duration_ns > 0
