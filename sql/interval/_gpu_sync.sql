-- One synchronisation, query or wait, with the recorded event that it speaks of.
--
-- grain:   host_id, thread_id, start_ns
-- reads:   stg_gpu_call
--
-- columns:
--   host_id             INTEGER      host
--   thread_id           INTEGER      thread that called
--   start_ns            BIGINT   ns  entry of the call, host MONOTONIC
--   pid                 INTEGER      process
--   operation           VARCHAR      vendor-neutral operation
--   stream_handle       BIGINT       GPU stream of the call; 0 where it names none
--   event_stream_handle BIGINT       stream its event was last recorded on; NULL: none
--   end_ns              BIGINT   ns  return of the call, host MONOTONIC
--   recorded_ns         BIGINT   ns  entry of that recording; NULL: none

with call as (
    select
        host_id,
        thread_id,
        pid,
        operation,
        start_ns,
        start_ns + coalesce(duration_ns, 0) as end_ns,
        coalesce(stream_handle, 0) as stream_handle,
        object_handle
    from stg_gpu_call
    where
        operation in (
            'stream_sync', 'device_sync', 'event_sync', 'event_query', 'stream_query',
            'event_record', 'stream_wait'
        )
        and coalesce(return_code, 0) = 0
        and not is_open
        and not is_captured
),

recorded as (
    select
        host_id,
        pid,
        object_handle,
        start_ns,
        stream_handle
    from call
    where operation = 'event_record'
)

select
    c.host_id,
    c.thread_id,
    c.start_ns,
    c.pid,
    c.operation,
    c.stream_handle,
    r.stream_handle as event_stream_handle,
    c.end_ns,
    r.start_ns as recorded_ns
from call as c
asof left join recorded as r
    on
        c.host_id = r.host_id
        and c.pid = r.pid
        and c.object_handle = r.object_handle
        and c.start_ns >= r.start_ns
where c.operation <> 'event_record'
