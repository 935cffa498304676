-- TCP packets that one host sent and another received: sent before received.
--
-- A packet is told by both numbers and its flags. One that either side saw twice, sent
-- again or heard of by itself, is left out: nobody knows which sending was received.
--
-- grain:   import_id, packet_seq, packet_ack, packet_flags
-- reads:   stg_imported_packet
--
-- columns:
--   import_id       INTEGER      file it came from
--   packet_seq      VARCHAR      sequence number
--   packet_ack      VARCHAR      acknowledged number
--   packet_flags    VARCHAR      flags
--   send_host_id    INTEGER      host that sent it
--   receive_host_id INTEGER      host that received it
--   send_ns         BIGINT   ns  sent, clock of its host
--   receive_ns      BIGINT   ns  received, clock of its host

select
    import_id,
    packet_seq,
    packet_ack,
    packet_flags,
    min(host_id) filter (where direction = 'out') as send_host_id,
    min(host_id) filter (where direction = 'in') as receive_host_id,
    min(time_ns) filter (where direction = 'out') as send_ns,
    min(time_ns) filter (where direction = 'in') as receive_ns
from stg_imported_packet
group by import_id, packet_seq, packet_ack, packet_flags
having
    count(*) filter (where direction = 'out') = 1
    and count(*) filter (where direction = 'in') = 1
    and min(host_id) filter (where direction = 'out')
    <> min(host_id) filter (where direction = 'in')
