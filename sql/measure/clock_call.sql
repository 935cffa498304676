-- Each collective call, and why it says nothing about clocks where it does not.
--
-- First step of the clock model's reasoning. Calls with reason NULL go on to
-- clock_bound and clock_message.
--
-- grain:   host_id, thread_id, start_ns
-- reads:   collective_span, communicator, clock_rule
--
-- columns:
--   host_id           INTEGER      host
--   thread_id         INTEGER      thread on that host
--   start_ns          BIGINT   ns  entry of the call, host MONOTONIC
--   rank              INTEGER      global rank
--   communicator_id   VARCHAR      communicator of the rendezvous
--   collective_seq    BIGINT       number of the call; 0 for making a communicator that
--                                  has no number
--   operation         VARCHAR      operation
--   communicator_rank INTEGER      rank within the communicator
--   communicator_size INTEGER      members of the communicator
--   peer_rank         INTEGER      root or peer, as communicator rank
--   is_blocking       BOOLEAN      the call returns when it is complete
--   reason            VARCHAR      why the call proves nothing; NULL: it may
--   arrival_ns        BIGINT   ns  when others could begin to count on it
--   completion_ns     BIGINT   ns  when it was surely complete; NULL: not proved

with call as (
    select
        s.*,
        m.kind as communicator_kind,
        s.operation in ('send', 'recv') as is_message,
        s.operation in ('comm_init', 'comm_split', 'comm_dup') as is_making
    from collective_span as s
    left join communicator as m on s.communicator_id = m.communicator_id
),

known as (
    select distinct operation
    from clock_rule
)

select
    c.host_id,
    c.thread_id,
    c.start_ns,
    c.rank,
    c.communicator_id,
    coalesce(c.collective_seq, 0)::bigint as collective_seq,
    c.operation,
    c.communicator_rank,
    c.communicator_size,
    c.peer_rank,
    coalesce(c.is_blocking, false) as is_blocking,
    case
        when c.communicator_id is null
            then 'the communicator is not known'
        when c.is_message and not coalesce(c.is_enqueue_only, false)
            then 'tags of MPI messages are not recorded'
        when k.operation is null and not c.is_message
            then 'the operation makes nobody wait for all, or its counts are not known'
        when c.operation = 'comm_init' and c.communicator_kind <> 'nccl'
            then 'this library does not wait for all members here'
        when c.is_captured
            then 'the call was captured into a graph and did not run'
        when c.is_failed
            then 'the call failed'
        when c.collective_seq is null and c.operation <> 'comm_init'
            then 'the call has no number'
        when c.collective_seq is not null and not coalesce(c.is_base_known, false)
            then 'calls are not numbered from the start of the communicator'
        when
            not c.is_making
            and c.operation <> 'barrier'
            and coalesce(c.element_count, 0) = 0
            then 'it moves nothing, or nobody knows how much'
    end as reason,
    c.arrival_ns,
    case when not c.is_open then c.completion_ns end as completion_ns
from call as c
left join known as k on c.operation = k.operation
