-- Operations of imported traces, in nanoseconds of the trace's own clock.
--
-- grain:   import_id, rank, step, operation, seq
-- reads:   raw.imported_operation
-- caveat:  files give seconds in single precision: a microsecond is lost after minutes
--
-- columns:
--   import_id   INTEGER      file the row came from
--   rank        INTEGER      global rank of the worker
--   dp_rank     INTEGER      its place among the replicas
--   stage       INTEGER      its pipeline stage; NULL: the file does not say
--   step        BIGINT       number of the step
--   operation   VARCHAR      operation, as the file names it
--   seq         BIGINT       number among the operations of its kind in the step
--   start_ns    BIGINT   ns  begin, clock of the trace
--   duration_ns BIGINT   ns  length

select
    import_id,
    rank,
    dp_rank,
    stage,
    step,
    operation,
    seq,
    round(start_s * 1e9)::bigint as start_ns,
    round(duration_s * 1e9)::bigint as duration_ns
from raw.imported_operation
