-- What the synchronisations of a process prove about its GPU streams.
--
-- A row says: all that was enqueued on this stream before covers_until_ns was complete
-- at end_ns. A device-wide synchronisation speaks for every stream. A recorded event
-- speaks for the stream it was recorded on; a stream that was made to wait for an event
-- carries its own proofs back to that stream. A proof that another one beats, which
-- covers more and ends no later, is left out: the first row at or after a call is best.
--
-- grain:       host_id, pid, is_device_wide, stream_handle, covers_until_ns
-- reads:       _gpu_order
-- materialize: yes
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
        coalesce(source_handle, stream_handle) as stream_handle,
        covers_until_ns,
        if(operation like '%query', 'query', operation) as proof,
        start_ns as sync_start_ns,
        end_ns
    from _gpu_order
    where operation <> 'stream_wait'
),

best_direct as (
    select * from direct
    where not is_device_wide
    qualify
        end_ns < coalesce(min(end_ns) over (
            partition by host_id, pid, stream_handle
            order by covers_until_ns desc, end_ns asc
            rows between unbounded preceding and 1 preceding
        ), end_ns + 1)
),

carried as (
    select
        w.host_id,
        w.pid,
        false as is_device_wide,
        w.source_handle as stream_handle,
        w.covers_until_ns,
        d.proof,
        d.sync_start_ns,
        d.end_ns
    from _gpu_order as w
    asof inner join best_direct as d
        on
            w.host_id = d.host_id
            and w.pid = d.pid
            and w.stream_handle = d.stream_handle
            and w.end_ns <= d.covers_until_ns
    where w.operation = 'stream_wait'
),

every as (
    select * from direct
    union all
    select * from carried
)

select
    host_id,
    pid,
    is_device_wide,
    stream_handle,
    covers_until_ns,
    proof,
    sync_start_ns,
    end_ns
from every
qualify
    end_ns < coalesce(min(end_ns) over (
        partition by host_id, pid, is_device_wide, stream_handle
        order by covers_until_ns desc, end_ns asc
        rows between unbounded preceding and 1 preceding
    ), end_ns + 1)
