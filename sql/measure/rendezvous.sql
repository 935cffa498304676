-- One collective, or one send with its receive, over the members this case holds.
--
-- grain:  communicator_id, collective_seq, operation, pairing
-- reads:  _meeting
--
-- columns:
--   communicator_id VARCHAR         communicator
--   collective_seq  BIGINT          number of the call in it; 0: it makes it
--   operation       VARCHAR         operation; send_recv for both sides
--   pairing         VARCHAR         sender>receiver of a send_recv, else all
--   job_id          VARCHAR         job
--   member_count    BIGINT   count  members in this case that took part
--   expected_count  BIGINT   count  members that should; NULL where not known
--   host_count      BIGINT   count  hosts of the members in this case
--   open_count      BIGINT   count  members that had not returned
--   is_complete     BOOLEAN         all members are in this case
--   is_enqueue_only BOOLEAN         it only enqueues work on GPU streams
--   least_stay_ns   BIGINT   ns     stay of the member that stayed least
--   largest_stay_ns BIGINT   ns     stay of the member that stayed longest

select
    communicator_id,
    collective_seq,
    operation,
    pairing,
    min(job_id) as job_id,
    count(distinct communicator_rank) as member_count,
    max(expected_count)::bigint as expected_count,
    count(distinct host_id) as host_count,
    count(*) filter (is_open) as open_count,
    coalesce(
        count(distinct communicator_rank) = max(expected_count), false
    ) as is_complete,
    bool_or(is_enqueue_only) as is_enqueue_only,
    min(stay_ns) as least_stay_ns,
    max(stay_ns) as largest_stay_ns
from _meeting
group by communicator_id, collective_seq, operation, pairing
