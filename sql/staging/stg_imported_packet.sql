-- TCP packets of imported files, one row a packet seen by a host.
--
-- grain:   import_id, host_id, time_ns, direction, packet_seq
-- reads:   raw.imported_packet
--
-- columns:
--   import_id    INTEGER      file the row came from
--   host_id      INTEGER      host that saw it: a hash of its name
--   host_name    VARCHAR      its name in the file
--   time_ns      BIGINT   ns  when, clock of that host
--   direction    VARCHAR      out or in
--   packet_seq   VARCHAR      sequence number, as the file writes it
--   packet_ack   VARCHAR      acknowledged number
--   packet_flags VARCHAR      flags

select
    import_id,
    host_id,
    host_name,
    time_ns,
    direction,
    packet_seq,
    packet_ack,
    packet_flags
from raw.imported_packet
