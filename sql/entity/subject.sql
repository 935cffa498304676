-- Everything that a finding gives a verdict on.
--
-- grain:   subject_kind, subject_id
-- reads:   rank, communicator
--
-- columns:
--   subject_kind VARCHAR  rank, job or communicator
--   subject_id   VARCHAR  which one; a rank after its job where the case holds several
--   host_id      INTEGER  host it ran on; NULL: it is on no single one
--   rank         INTEGER  global rank; NULL: it is none

select
    'rank' as subject_kind,
    if(min(job_id) over () = max(job_id) over (), '', job_id || '/')
    || coalesce(rank_name, rank::varchar) as subject_id,
    host_id,
    rank
from rank
union all
select distinct
    'job' as subject_kind,
    job_id as subject_id,
    null::integer as host_id,
    null::integer as rank
from rank
union all
select
    'communicator' as subject_kind,
    communicator_id as subject_id,
    null::integer as host_id,
    null::integer as rank
from communicator
where coalesce(size, member_count) > 1
