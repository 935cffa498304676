-- Threads that make the collectives of a rank: those whose time is budgeted.
--
-- grain:  host_id, thread_id
-- reads:  collective_span
--
-- columns:
--   rank       INTEGER         global rank
--   job_id     VARCHAR         job
--   host_id    INTEGER         host
--   thread_id  INTEGER         thread on that host
--   call_count BIGINT   count  collectives it made
--   is_main    BOOLEAN         the thread of the rank that made most of them

with made as (
    select
        rank,
        job_id,
        host_id,
        thread_id,
        count(*) as call_count
    from collective_span
    where rank is not null and operation not like 'comm%'
    group by rank, job_id, host_id, thread_id
)

select
    rank,
    job_id,
    host_id,
    thread_id,
    call_count,
    row_number() over (
        partition by job_id, rank order by call_count desc, thread_id asc
    ) = 1 as is_main
from made
