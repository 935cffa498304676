-- One call of one member that can be matched with the same call of other members.
--
-- Calls meet by communicator, number and operation; a send meets the receive of the
-- same number between the same two ranks. Left out are calls of which a member cannot
-- be named, calls in graph capture, failed calls, and calls whose number does not count
-- from the creation of the communicator.
--
-- grain:  host_id, thread_id, start_ns
-- reads:  collective_span
--
-- columns:
--   host_id           INTEGER      host
--   thread_id         INTEGER      thread on that host
--   start_ns          BIGINT   ns  entry of the call, host MONOTONIC
--   communicator_id   VARCHAR      communicator
--   collective_seq    BIGINT       number of the call in it; 0: it makes it
--   operation         VARCHAR      operation; send_recv for both sides
--   pairing           VARCHAR      sender>receiver of a send_recv, else all
--   rank              INTEGER      global rank
--   job_id            VARCHAR      job
--   communicator_rank INTEGER      rank within the communicator
--   expected_count    INTEGER      members that take part; NULL where not known
--   arrival_ns        BIGINT   ns  the call was issued, host MONOTONIC
--   completion_ns     BIGINT   ns  proved complete, host MONOTONIC
--   stay_ns           BIGINT   ns  arrival to completion
--   is_enqueue_only   BOOLEAN      it only enqueues work on a GPU stream
--   is_open           BOOLEAN      it had not returned when recording stopped

select
    host_id,
    thread_id,
    start_ns,
    communicator_id,
    coalesce(collective_seq, 0) as collective_seq,
    if(operation in ('send', 'recv'), 'send_recv', operation) as operation,
    case operation
        when 'send' then communicator_rank || '>' || peer_rank
        when 'recv' then peer_rank || '>' || communicator_rank
        else 'all'
    end as pairing,
    rank,
    job_id,
    communicator_rank,
    if(operation in ('send', 'recv'), 2, communicator_size) as expected_count,
    arrival_ns,
    completion_ns,
    completion_ns - arrival_ns as stay_ns,
    is_enqueue_only,
    is_open
from collective_span
where
    rank is not null
    and communicator_id is not null
    and communicator_rank is not null
    and arrival_ns is not null
    and is_base_known
    and not is_captured
    and not is_failed
    and (operation not in ('send', 'recv') or peer_rank >= 0)
