-- What the synchronisations of a process prove about its GPU streams.
--
-- A row says: all that was enqueued on this stream before covers_until_ns was complete
-- at end_ns. A device-wide synchronisation speaks for every stream. A recorded event
-- speaks for the stream it was recorded on; a stream that was made to wait for an event
-- carries its own proofs back to that stream. end_ns is the earliest end among this and
-- all later proofs of the stream, so the first row at or after a call is the best there
-- is.
--
-- grain:       host_id, pid, is_device_wide, stream_handle, covers_until_ns
-- reads:       _gpu_sync
-- materialize: yes
-- caveat:      a process with several devices is taken to synchronise all of them; the
--              implicit ordering of the legacy default stream proves nothing here
--
-- columns:
--   host_id         INTEGER      host
--   pid             INTEGER      process
--   is_device_wide  BOOLEAN      the proof speaks for every stream of the process
--   stream_handle   BIGINT       GPU stream; 0 where it is device-wide
--   covers_until_ns BIGINT   ns  what was enqueued before it is covered, host MONOTONIC
--   proof           VARCHAR      stream_sync, device_sync, event_sync or query
--   sync_start_ns   BIGINT   ns  entry of the call that proves it, host MONOTONIC
--   end_ns          BIGINT   ns  return of the call that proves it, host MONOTONIC

with direct as (
    select
        host_id,
        pid,
        operation = 'device_sync' as is_device_wide,
        if(operation = 'device_sync', 0, stream_handle) as stream_handle,
        start_ns as covers_until_ns,
        struct_pack(
            end_ns := end_ns,
            sync_start_ns := start_ns,
            proof := if(operation = 'stream_query', 'query', operation)
        ) as best
    from _gpu_sync
    where operation in ('stream_sync', 'device_sync', 'stream_query')
    union all
    select
        host_id,
        pid,
        false as is_device_wide,
        event_stream_handle as stream_handle,
        recorded_ns as covers_until_ns,
        struct_pack(
            end_ns := end_ns,
            sync_start_ns := start_ns,
            proof := if(operation = 'event_query', 'query', operation)
        ) as best
    from _gpu_sync
    where operation in ('event_sync', 'event_query') and recorded_ns is not null
),

best_direct as (
    select
        host_id,
        pid,
        stream_handle,
        covers_until_ns,
        min(best) over (
            partition by host_id, pid, stream_handle
            order by covers_until_ns desc
            range unbounded preceding
        ) as best
    from direct
    where not is_device_wide
),

carried as (
    select
        w.host_id,
        w.pid,
        false as is_device_wide,
        w.event_stream_handle as stream_handle,
        w.recorded_ns as covers_until_ns,
        d.best
    from _gpu_sync as w
    asof inner join best_direct as d
        on
            w.host_id = d.host_id
            and w.pid = d.pid
            and w.stream_handle = d.stream_handle
            and w.end_ns <= d.covers_until_ns
    where w.operation = 'stream_wait' and w.recorded_ns is not null
),

every as (
    select * from direct
    union all
    select * from carried
),

gathered as (
    select
        host_id,
        pid,
        is_device_wide,
        stream_handle,
        covers_until_ns,
        min(best) as best
    from every
    group by host_id, pid, is_device_wide, stream_handle, covers_until_ns
),

suffix as (
    select
        * exclude (best),
        min(best) over (
            partition by host_id, pid, is_device_wide, stream_handle
            order by covers_until_ns desc
            rows unbounded preceding
        ) as best
    from gathered
)

select
    suffix.host_id,
    suffix.pid,
    suffix.is_device_wide,
    suffix.stream_handle,
    suffix.covers_until_ns,
    best.proof,
    best.sync_start_ns,
    best.end_ns
from suffix
