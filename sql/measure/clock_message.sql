-- Matched sends and receives of NCCL between two hosts: sent before received.
--
-- NCCL has no tags: the n-th send to a peer is the n-th receive from it.
--
-- grain:   communicator_id, source_rank, destination_rank, message_seq
-- reads:   clock_call
-- caveat:  messages of MPI are not here, for their tags are not recorded
--
-- columns:
--   communicator_id  VARCHAR      communicator
--   source_rank      INTEGER      sender, as communicator rank
--   destination_rank INTEGER      receiver, as communicator rank
--   message_seq      BIGINT       number of the message between the two
--   send_host_id     INTEGER      host of the sender
--   receive_host_id  INTEGER      host of the receiver
--   send_ns          BIGINT   ns  arrival of the send, MONOTONIC of its host
--   receive_ns       BIGINT   ns  completion of the receive, MONOTONIC of its host

select
    s.communicator_id,
    s.communicator_rank as source_rank,
    s.peer_rank as destination_rank,
    s.collective_seq as message_seq,
    min(s.host_id) as send_host_id,
    min(r.host_id) as receive_host_id,
    min(s.arrival_ns) as send_ns,
    max(r.completion_ns) as receive_ns
from clock_call as s
inner join clock_call as r
    on
        s.communicator_id = r.communicator_id
        and s.communicator_rank = r.peer_rank
        and s.peer_rank = r.communicator_rank
        and s.collective_seq = r.collective_seq
where
    s.operation = 'send'
    and r.operation = 'recv'
    and s.reason is null
    and r.reason is null
    and r.completion_ns is not null
    and s.host_id <> r.host_id
group by s.communicator_id, s.communicator_rank, s.peer_rank, s.collective_seq
having count(*) = 1
