-- One outermost call in which a rank meets others, with arrival and completion.
--
-- As recorded: numbers of calls are each process's own; see collective_span. A call
-- arrives when it is entered, or when the outermost group it is in ends. A
-- blocking call is complete when it returns. An enqueue-only call is complete when a
-- synchronisation that covers its stream returns: completion_ns is NULL where none is
-- shown to do so. Calls that make a communicator block; making an NCCL communicator is
-- a call on the new one, without a number.
--
-- grain:       host_id, thread_id, start_ns
-- reads:       _collective_call, rank, _stream_proof
-- materialize: yes
-- caveat:      a call in a group whose end was not recorded has no arrival
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
--   is_base_known     BOOLEAN      its number counts from the communicator's creation

with stream_proof as (
    select * from _stream_proof
    where not is_device_wide
),

device_proof as (
    select * from _stream_proof
    where is_device_wide
),

proved as (
    select
        c.*,
        least(
            struct_pack(
                end_ns := s.end_ns, start_ns := s.sync_start_ns, proof := s.proof
            ),
            struct_pack(
                end_ns := d.end_ns, start_ns := d.sync_start_ns, proof := d.proof
            )
        ) as sync
    from _collective_call as c
    asof left join stream_proof as s
        on
            c.host_id = s.host_id
            and c.pid = s.pid
            and c.stream_handle = s.stream_handle
            and c.issued_ns <= s.covers_until_ns
    asof left join device_proof as d
        on
            c.host_id = d.host_id
            and c.pid = d.pid
            and c.issued_ns <= d.covers_until_ns
    where c.operation not in ('comm_finalize', 'comm_destroy', 'comm_abort')
),

judged as (
    select
        *,
        coalesce(return_code, 0) <> 0 and (is_mpi or return_code <> 7) as is_failed,
        is_open or is_captured or coalesce(return_code, 0) <> 0 as is_unproved
    from proved
)

select
    c.host_id,
    c.thread_id,
    c.start_ns,
    r.rank,
    r.job_id,
    c.pid,
    c.communicator_id,
    if(c.operation like 'comm_init%', null, c.collective_seq) as collective_seq,
    c.operation,
    c.communicator_rank,
    c.communicator_size,
    c.peer_rank,
    c.element_count,
    c.data_type,
    c.group_seq,
    c.arrival_ns,
    c.issued_ns,
    case
        when c.is_unproved then null
        when c.is_enqueue_only then c.sync.end_ns
        else c.issued_ns
    end as completion_ns,
    case
        when c.is_unproved then null
        when c.is_enqueue_only then c.sync.proof
        when c.issued_ns is not null then 'return'
    end as completion_proof,
    if(c.is_enqueue_only and not c.is_unproved, c.sync.start_ns, null) as sync_start_ns,
    not c.is_enqueue_only as is_blocking,
    c.is_enqueue_only,
    c.is_captured,
    c.is_open,
    c.is_failed,
    c.is_base_known
from judged as c
left join rank as r on c.host_id = r.host_id and c.pid = r.pid
