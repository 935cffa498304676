-- Calls into communication libraries as recorded, one a row.
--
-- grain:   host_id, thread_id, start_ns
-- reads:   raw.collective
--
-- columns:
--   host_id            INTEGER          host the call ran on
--   thread_id          INTEGER          thread on that host
--   start_ns           BIGINT    ns     entry of the call, host MONOTONIC
--   bundle_id          INTEGER          bundle the row came from
--   pid                INTEGER          process id
--   tid                INTEGER          thread id
--   operation          VARCHAR          vendor-neutral operation
--   communicator_ref   INTEGER          row of the communicator facts of that bundle
--   child_ref          INTEGER          communicator that this call made
--   collective_seq     BIGINT           number of the call within its communicator
--   peer_rank          INTEGER          root or peer, as communicator rank
--   group_seq          INTEGER          outermost group it is in, of its thread; 0:
--                                       none
--   group_depth        SMALLINT         groups open around the call
--   call_depth         SMALLINT         recorded calls around this one, 0: outermost
--   stream_handle      BIGINT           GPU stream the call is enqueued on
--   data_type          INTEGER          data type code of the library
--   return_code        INTEGER          what the call returned
--   probe_id           SMALLINT         row of the probe facts of that bundle
--   caller_library_ref INTEGER          library the call came from
--   is_open            BOOLEAN          the call had not returned when recording
--                                       stopped
--   is_captured        BOOLEAN          the process was capturing a graph
--   is_base_known      BOOLEAN          counting began when the communicator was made
--   element_count      BIGINT           elements the call moves
--   duration_ns        BIGINT    ns     entry to return; NULL while open

select
    host_id,
    thread_id,
    start_ns,
    bundle_id,
    pid,
    tid,
    operation,
    communicator_ref,
    child_ref,
    collective_seq,
    peer_rank,
    group_seq,
    group_depth,
    depth::smallint as call_depth,
    stream_handle,
    data_type,
    return_code,
    probe_id,
    caller_library_ref,
    is_open,
    is_captured,
    is_base_known,
    element_count,
    duration_ns
from raw.collective
