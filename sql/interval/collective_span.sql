-- One outermost call in which a rank meets others, with arrival and completion.
--
-- Calls of recorders that came late, which count from different calls, carry the
-- number that model.late_attach proved; where none is proved is_base_known is false.
-- How a call arrives and completes: see _collective_span.
--
-- grain:   host_id, thread_id, start_ns
-- reads:   _collective_span, model.late_attach
-- caveat:  a call in a group whose end was not recorded has no arrival
--
-- columns:
--   host_id           INTEGER      host
--   thread_id         INTEGER      thread on that host
--   start_ns          BIGINT   ns  entry of the call, host MONOTONIC
--   rank              INTEGER      global rank, where known
--   job_id            VARCHAR      job of that rank
--   pid               INTEGER      process
--   communicator_id   VARCHAR      communicator; NULL where it is not known
--   collective_seq    BIGINT       number of the call in it; NULL where it makes it
--   operation         VARCHAR      vendor-neutral operation
--   communicator_rank INTEGER      rank within the communicator
--   communicator_size INTEGER      members of the communicator
--   peer_rank         INTEGER      root or peer, as rank within the communicator
--   element_count     BIGINT       elements the call moves
--   data_type         INTEGER      data type code of the library
--   group_seq         INTEGER      outermost group of the thread, 0: none
--   arrival_ns        BIGINT   ns  the call was issued, host MONOTONIC
--   issued_ns         BIGINT   ns  the issuing call returned, host MONOTONIC
--   completion_ns     BIGINT   ns  proved complete, host MONOTONIC
--   completion_proof  VARCHAR      return, or the operation that covers it
--   sync_start_ns     BIGINT   ns  entry of the covering synchronisation
--   is_blocking       BOOLEAN      its return means its part is done
--   is_enqueue_only   BOOLEAN      it only enqueues work on a GPU stream
--   is_captured       BOOLEAN      the process was capturing a graph
--   is_open           BOOLEAN      it had not returned when recording stopped
--   is_failed         BOOLEAN      it returned an error
--   is_base_known     BOOLEAN      its number means the same call on every member: it
--                                  counts from the communicator's creation, or its
--                                  shift is proved

select
    s.host_id,
    s.thread_id,
    s.start_ns,
    s.rank,
    s.job_id,
    s.pid,
    coalesce(a.matched_id, s.communicator_id) as communicator_id,
    s.collective_seq + coalesce(a.shift, 0) as collective_seq,
    s.operation,
    s.communicator_rank,
    s.communicator_size,
    s.peer_rank,
    s.element_count,
    s.data_type,
    s.group_seq,
    s.arrival_ns,
    s.issued_ns,
    s.completion_ns,
    s.completion_proof,
    s.sync_start_ns,
    s.is_blocking,
    s.is_enqueue_only,
    s.is_captured,
    s.is_open,
    s.is_failed,
    s.is_base_known or a.shift is not null as is_base_known
from _collective_span as s
left join model.late_attach as a
    on
        s.host_id = a.host_id
        and s.pid = a.pid
        and s.communicator_id = a.communicator_id
        and s.operation not in ('send', 'recv')
        and s.collective_seq is not null
        and a.shift is not null
