-- Shared libraries that were probed or called from.
--
-- grain:   bundle_id, library_ref
-- reads:   raw.fact_library
--
-- columns:
--   bundle_id   INTEGER          bundle the row came from
--   host_id     INTEGER          host
--   library_ref INTEGER          library in that bundle
--   kind        VARCHAR          nccl, mpi, cudart, cuda or other
--   path        VARCHAR          where it was mapped from
--   build_id    VARCHAR          GNU build id
--   sha256      VARCHAR          hash of the file

select
    bundle_id,
    host_id,
    library_ref,
    kind,
    path,
    build_id,
    sha256
from raw.fact_library
