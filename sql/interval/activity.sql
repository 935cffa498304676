-- One operation of one rank of an imported operation trace, on one time line.
--
-- Files may count each step from its own beginning, so steps are laid end to end; the
-- time between two steps of the file means nothing and is not kept. Recorded
-- collectives are in collective_span: their jobs follow no schedule that one replica
-- could stand for.
--
-- grain:   job_id, rank, step, place_id
-- reads:   stg_imported_operation, stg_imported_file
-- materialize: yes
--
-- columns:
--   job_id    VARCHAR      job: the file's name
--   host_id   INTEGER      the file, in place of a host: its import_id
--   rank      INTEGER      global rank
--   dp_rank   INTEGER      its place among the replicas
--   stage     INTEGER      its pipeline stage; NULL: unknown
--   step      BIGINT       number of the step
--   operation VARCHAR      operation, as the file names it
--   seq       BIGINT       number among the operations of its kind in the step
--   place_id  BIGINT       place in the schedule, the same in every replica and step
--   start_ns  BIGINT   ns  begin, clock of the trace
--   end_ns    BIGINT   ns  end

with reach as (
    select
        import_id,
        step,
        min(start_ns) as first_ns,
        max(start_ns + duration_ns) - min(start_ns) as length_ns
    from stg_imported_operation
    group by import_id, step
),

laid as (
    select
        *,
        (sum(length_ns) over (partition by import_id order by step))::bigint
        - length_ns - first_ns as shift_ns
    from reach
)

select
    f.name as job_id,
    o.import_id as host_id,
    o.rank,
    o.dp_rank,
    o.stage,
    o.step,
    o.operation,
    o.seq,
    dense_rank() over (
        partition by o.import_id order by o.stage, o.operation, o.seq
    ) as place_id,
    o.start_ns + l.shift_ns as start_ns,
    o.start_ns + l.shift_ns + o.duration_ns as end_ns
from stg_imported_operation as o
inner join stg_imported_file as f on o.import_id = f.import_id
inner join laid as l on o.import_id = l.import_id and o.step = l.step
