-- One communicator with the members that this case holds.
--
-- grain:   communicator_id
-- reads:   communicator_member
--
-- columns:
--   communicator_id VARCHAR         kind, shared identity and generation
--   kind            VARCHAR         nccl or mpi
--   size            INTEGER         members it has; NULL where nobody recorded it
--   job_id          VARCHAR         job of its members
--   member_count    BIGINT   count  members whose process is in this case
--   host_count      BIGINT   count  hosts they ran on

select
    communicator_id,
    min(kind) as kind,
    max(size) as size,
    min(job_id) as job_id,
    count(distinct row(host_id, pid)) as member_count,
    count(distinct host_id) as host_count
from communicator_member
group by communicator_id
