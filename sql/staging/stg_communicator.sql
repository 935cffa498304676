-- Communicators as each process knows them.
--
-- grain:   bundle_id, communicator_ref
-- reads:   raw.fact_communicator
--
-- columns:
--   bundle_id        INTEGER          bundle the row came from
--   host_id          INTEGER          host
--   communicator_ref INTEGER          communicator in that bundle
--   pid              INTEGER          process id
--   kind             VARCHAR          nccl or mpi
--   origin           VARCHAR          identity shared by all members; NULL: unknown
--   generation       INTEGER          use of that identity, from 0
--   parent_ref       INTEGER          communicator it was made from
--   size             INTEGER          members
--   rank             INTEGER          rank within it
--   how              VARCHAR          how it was made or seen
--   is_base_known    BOOLEAN          recorded since it was made
--   first_ns         BIGINT    ns     first seen, host MONOTONIC

select
    bundle_id,
    host_id,
    communicator_ref,
    pid,
    kind,
    origin,
    generation::integer as generation,
    parent_ref,
    size,
    rank,
    how,
    is_base_known,
    first_ns
from raw.fact_communicator
