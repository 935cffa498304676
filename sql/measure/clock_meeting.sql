-- How often every two hosts met, and over what time.
--
-- grain:   host_id, other_host_id
-- reads:   clock_bound
--
-- columns:
--   host_id       INTEGER         host that completed
--   other_host_id INTEGER         host that arrived
--   law_count     BIGINT   count  rendezvous that say: other arrived before host
--                                 completed
--   first_ns      BIGINT   ns     first of these completions, MONOTONIC of host
--   last_ns       BIGINT   ns     last of them

select
    c.host_id,
    a.host_id as other_host_id,
    count(*) as law_count,
    min(c.completion_ns) as first_ns,
    max(c.completion_ns) as last_ns
from clock_bound as c
inner join clock_bound as a
    on
        c.communicator_id = a.communicator_id
        and c.collective_seq = a.collective_seq
        and c.operation = a.operation
        and c.part = a.part
        and c.host_id <> a.host_id
where c.completion_ns is not null and a.arrival_ns is not null
group by c.host_id, a.host_id
