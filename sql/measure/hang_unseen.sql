-- Members that stuck calls wait for and of which the case holds no bundle.
--
-- They may have come to the call or not: nobody here can tell.
--
-- grain:   subject_kind, subject_id
-- reads:   hang_wait
-- caveat:  named by their rank within the communicator, for nothing else is known
--
-- columns:
--   subject_kind VARCHAR  rank
--   subject_id   VARCHAR  rank within the communicator, and the communicator
--   host_id      INTEGER  NULL: not known
--   rank         INTEGER  NULL: not known
--   stream       VARCHAR  stream that would be needed
--   reason       VARCHAR  why it cannot be seen

select
    'rank' as subject_kind,
    'member ' || awaited_communicator_rank || ' of ' || communicator_id as subject_id,
    null::integer as host_id,
    null::integer as rank,
    'collective' as stream,
    'in no bundle of this case, and ' || count(distinct rank)
    || ' ranks wait in ' || min(operation) || ' ' || min(collective_seq)
    || ', to which it may have come or not' as reason
from hang_wait
where awaited_rank is null
group by awaited_communicator_rank, communicator_id
