-- When each member came to each rendezvous, in cluster time.
--
-- grain:   host_id, thread_id, start_ns
-- reads:   _meeting, model.clock
--
-- columns:
--   communicator_id VARCHAR      communicator
--   collective_seq  BIGINT       number of the call in it; 0: it makes it
--   operation       VARCHAR      operation; send_recv for both sides
--   pairing         VARCHAR      sender>receiver of a send_recv, else all
--   host_id         INTEGER      host
--   thread_id       INTEGER      thread on that host
--   start_ns        BIGINT   ns  entry of the call, host MONOTONIC
--   rank            INTEGER      global rank
--   job_id          VARCHAR      job
--   clock_group_id  INTEGER      hosts whose times may be compared
--   arrival_ns      BIGINT   ns  arrival, host MONOTONIC
--   wait_ns         BIGINT   ns  arrival to completion; NULL: not proved
--   ts_ns           BIGINT   ns  arrival, cluster time

select
    m.communicator_id,
    m.collective_seq,
    m.operation,
    m.pairing,
    m.host_id,
    m.thread_id,
    m.start_ns,
    m.rank,
    m.job_id,
    c.clock_group_id,
    m.arrival_ns,
    m.stay_ns as wait_ns,
    m.arrival_ns + c.offset_ns + ((m.arrival_ns - c.from_ns) * c.rate)::bigint
        as ts_ns
from _meeting as m
asof inner join model.clock as c
    on m.host_id = c.host_id and m.arrival_ns >= c.from_ns
