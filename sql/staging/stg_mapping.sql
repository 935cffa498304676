-- Executable mappings of files in the memory of recorded processes.
--
-- grain:   bundle_id, pid, start_address, library_ref
-- reads:   raw.fact_mapping
--
-- columns:
--   bundle_id     INTEGER      bundle the row came from
--   host_id       INTEGER      host
--   pid           INTEGER      process
--   library_ref   INTEGER      file, as library in that bundle
--   start_address BIGINT       where it begins in the memory of the process
--   seen_ns       BIGINT   ns  first seen, host MONOTONIC

select
    bundle_id,
    host_id,
    pid,
    library_ref,
    start_address,
    seen_ns
from raw.fact_mapping
