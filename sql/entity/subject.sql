-- Everything that a finding gives a verdict on.
--
-- grain:   subject_kind, subject_id
-- reads:   rank
--
-- columns:
--   subject_kind VARCHAR  rank
--   subject_id   VARCHAR  the rank, after its job where the case holds several
--   host_id      INTEGER  host it ran on
--   rank         INTEGER  global rank

select
    'rank' as subject_kind,
    case
        when min(job_id) over () = max(job_id) over () then rank::varchar
        else job_id || '/' || rank
    end as subject_id,
    host_id,
    rank
from rank
