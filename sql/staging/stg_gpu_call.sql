-- Calls into the GPU runtime and driver as recorded, one a row.
--
-- grain:   host_id, thread_id, start_ns
-- reads:   raw.gpu_call
--
-- columns:
--   host_id            INTEGER          host the call ran on
--   thread_id          INTEGER          thread on that host
--   start_ns           BIGINT    ns     entry of the call, host MONOTONIC
--   bundle_id          INTEGER          bundle the row came from
--   pid                INTEGER          process id
--   tid                INTEGER          thread id
--   operation          VARCHAR          vendor-neutral operation
--   stream_handle      BIGINT           GPU stream
--   object_handle      BIGINT           event, pointer, function or graph
--   copy_kind          SMALLINT         direction of a copy, CUDA's number
--   layer              SMALLINT         0 driver, 1 runtime
--   call_depth         SMALLINT         recorded calls around this one, 0: outermost
--   return_code        INTEGER          what the call returned
--   probe_id           SMALLINT         row of the probe facts of that bundle
--   caller_library_ref INTEGER          library the call came from
--   is_open            BOOLEAN          the call had not returned when recording
--                                       stopped
--   is_captured        BOOLEAN          the process was capturing a graph
--   size_bytes         BIGINT    bytes  bytes moved or allocated
--   duration_ns        BIGINT    ns     entry to return; NULL while open or by entry
--                                       alone

select
    host_id,
    thread_id,
    start_ns,
    bundle_id,
    pid,
    tid,
    operation,
    stream_handle,
    object_handle,
    copy_kind::smallint as copy_kind,
    layer::smallint as layer,
    depth::smallint as call_depth,
    return_code,
    probe_id,
    caller_library_ref,
    is_open,
    is_captured,
    size_bytes,
    duration_ns
from raw.gpu_call
