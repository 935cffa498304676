-- One outermost call into a communication library, with communicator and group.
--
-- Whether a call blocks follows from the kind of its communicator, and from its probe
-- where the communicator is not known.
--
-- grain:  host_id, thread_id, start_ns
-- reads:  stg_collective, stg_probe, communicator_member
--
-- columns:
--   host_id           INTEGER      host
--   thread_id         INTEGER      thread on that host
--   start_ns          BIGINT   ns  entry of the call, host MONOTONIC
--   pid               INTEGER      process
--   operation         VARCHAR      vendor-neutral operation
--   communicator_id   VARCHAR      communicator; the new one where it makes one of NCCL
--   communicator_rank INTEGER      rank within the communicator
--   communicator_size INTEGER      members of the communicator
--   collective_seq    BIGINT       number of the call in it
--   peer_rank         INTEGER      root or peer, as rank within the communicator
--   element_count     BIGINT       elements the call moves
--   data_type         INTEGER      data type code of the library
--   group_seq         INTEGER      outermost group of the thread, 0: none
--   stream_handle     BIGINT       GPU stream
--   return_code       INTEGER      what it, and the end of its group, returned
--   arrival_ns        BIGINT   ns  the call was issued, host MONOTONIC
--   issued_ns         BIGINT   ns  the issuing call returned, host MONOTONIC
--   duration_ns       BIGINT   ns  entry to return of the call itself
--   is_mpi            BOOLEAN      a call of MPI
--   is_enqueue_only   BOOLEAN      it only enqueues work on a GPU stream
--   is_captured       BOOLEAN      the process was capturing a graph
--   is_open           BOOLEAN      it had not returned when recording stopped
--   is_base_known     BOOLEAN      its number counts from the communicator's creation

with group_end as (
    select
        host_id,
        thread_id,
        group_seq,
        min(start_ns) as arrival_ns,
        max(start_ns + duration_ns) as issued_ns,
        max(return_code) as return_code
    from stg_collective
    where operation = 'group_end' and group_seq > 0
    group by host_id, thread_id, group_seq
),

met as (
    select
        c.*,
        m.communicator_id,
        m.communicator_rank,
        m.size as communicator_size,
        coalesce(m.kind, p.vendor, '') = 'mpi' as is_mpi
    from stg_collective as c
    left join stg_probe as p
        on c.bundle_id = p.bundle_id and c.probe_id = p.probe_id
    left join communicator_member as m
        on
            c.bundle_id = m.bundle_id
            and m.communicator_ref = if(
                c.operation in ('comm_init', 'comm_init_all'),
                c.child_ref,
                c.communicator_ref
            )
    where c.call_depth = 0 and c.operation <> 'group_end'
)

select
    c.host_id,
    c.thread_id,
    c.start_ns,
    c.pid,
    c.operation,
    c.communicator_id,
    c.communicator_rank,
    c.communicator_size,
    c.collective_seq,
    c.peer_rank,
    c.element_count,
    c.data_type,
    c.group_seq,
    c.stream_handle,
    greatest(c.return_code, g.return_code) as return_code,
    if(c.group_seq > 0, g.arrival_ns, c.start_ns) as arrival_ns,
    if(c.group_seq > 0, g.issued_ns, c.start_ns + c.duration_ns) as issued_ns,
    c.duration_ns,
    c.is_mpi,
    not c.is_mpi and c.operation not like 'comm%' as is_enqueue_only,
    c.is_captured,
    c.is_open,
    c.is_base_known
from met as c
left join group_end as g
    on
        c.host_id = g.host_id
        and c.thread_id = g.thread_id
        and c.group_seq = g.group_seq
        and c.group_seq > 0
