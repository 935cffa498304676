-- One communicator as one process knows it: from a bundle's numbers to the case's.
--
-- grain:   host_id, bundle_id, communicator_ref
-- reads:   stg_communicator, rank
-- caveat:  a communicator without a shared identity gets one of its own process and is
--          never matched with anybody's
--
-- columns:
--   communicator_id   VARCHAR  kind, shared identity and generation
--   host_id           INTEGER  host
--   communicator_ref  INTEGER  communicator in that bundle
--   bundle_id         INTEGER  bundle
--   pid               INTEGER  process
--   rank              INTEGER  global rank of the process, where known
--   job_id            VARCHAR  job of that rank
--   communicator_rank INTEGER  rank within the communicator
--   size              INTEGER  members
--   kind              VARCHAR  nccl or mpi
--   how               VARCHAR  how it was made or seen
--   is_base_known     BOOLEAN  recorded since it was made

select
    m.kind || ':' || coalesce(
        m.origin, 'unshared-' || m.host_id || '-' || m.pid || '-' || m.communicator_ref
    ) || ':' || coalesce(m.generation, 0) as communicator_id,
    m.host_id,
    m.communicator_ref,
    m.bundle_id,
    m.pid,
    r.rank,
    r.job_id,
    m.rank as communicator_rank,
    m.size,
    m.kind,
    m.how,
    m.is_base_known
from stg_communicator as m
left join rank as r on m.host_id = r.host_id and m.pid = r.pid
