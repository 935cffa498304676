-- Calls that order GPU streams: synchronise, query, record and wait for events.
--
-- Only outermost calls of processes that enqueue collectives, only successful ones, and
-- of those on a stream only streams that carry collectives or wait for an event. A call
-- that speaks through an event has the stream on which the event was recorded last.
--
-- grain:   host_id, thread_id, start_ns
-- reads:   stg_gpu_call, stg_collective
-- caveat:  a process with several devices is taken to synchronise all of them; the
--          implicit ordering of the legacy default stream proves nothing here
--
-- columns:
--   host_id         INTEGER      host
--   thread_id       INTEGER      thread on that host
--   start_ns        BIGINT   ns  entry, host MONOTONIC
--   pid             INTEGER      process
--   operation       VARCHAR      vendor-neutral operation
--   stream_handle   BIGINT       GPU stream it speaks for or is called on
--   source_handle   BIGINT       GPU stream of the event; NULL where there is no event
--   covers_until_ns BIGINT   ns  what was enqueued on that stream before is covered
--   end_ns          BIGINT   ns  return, host MONOTONIC

with issuer as (
    select distinct
        host_id,
        pid
    from stg_collective
    where stream_handle is not null
),

call as (
    select
        g.host_id,
        g.thread_id,
        g.start_ns,
        g.pid,
        g.operation,
        coalesce(g.stream_handle, 0) as stream_handle,
        g.object_handle,
        g.start_ns + g.duration_ns as end_ns
    from stg_gpu_call as g
    semi join issuer as i on g.host_id = i.host_id and g.pid = i.pid
    where
        g.operation in (
            'stream_sync', 'device_sync', 'event_sync', 'event_query', 'stream_query',
            'event_record', 'stream_wait'
        )
        and g.call_depth = 0
        and g.duration_ns is not null
        and coalesce(g.return_code, 0) = 0
        and not g.is_captured
),

carrier as (
    select
        host_id,
        pid,
        stream_handle
    from stg_collective
    where stream_handle is not null
    union
    select
        host_id,
        pid,
        stream_handle
    from call
    where operation = 'stream_wait'
),

recorded as (
    select * from call
    where operation = 'event_record'
)

select
    c.host_id,
    c.thread_id,
    c.start_ns,
    c.pid,
    c.operation,
    c.stream_handle,
    null::bigint as source_handle,
    c.start_ns as covers_until_ns,
    c.end_ns
from call as c
semi join carrier as s
    on c.host_id = s.host_id and c.pid = s.pid and c.stream_handle = s.stream_handle
where c.operation in ('stream_sync', 'stream_query')
union all
select
    host_id,
    thread_id,
    start_ns,
    pid,
    operation,
    0 as stream_handle,
    null::bigint as source_handle,
    start_ns as covers_until_ns,
    end_ns
from call
where operation = 'device_sync'
union all
select
    c.host_id,
    c.thread_id,
    c.start_ns,
    c.pid,
    c.operation,
    c.stream_handle,
    r.stream_handle as source_handle,
    r.start_ns as covers_until_ns,
    c.end_ns
from call as c
asof inner join recorded as r
    on
        c.host_id = r.host_id
        and c.pid = r.pid
        and c.object_handle = r.object_handle
        and c.start_ns >= r.start_ns
where c.operation in ('event_sync', 'event_query', 'stream_wait')
