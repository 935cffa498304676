-- Own length of each operation, and what its rank waited in it for others.
--
-- The own length of a communication runs from the arrival of its last member to its
-- end; what came before is waiting. Free of clocks between hosts only as far as the
-- trace's times are.
--
-- grain:   job_id, rank, step, place_id
-- reads:   activity, activity_rendezvous
-- materialize: yes
-- caveat:  an end before the last arrival by up to 10 ms is kept as it is, a negative
--          length, for single-precision times are off by as much; beyond, it counts 0
--
-- columns:
--   job_id           VARCHAR      job
--   rank             INTEGER      global rank
--   dp_rank          INTEGER      its place among the replicas
--   stage            INTEGER      its pipeline stage
--   step             BIGINT       number of the step
--   place_id         BIGINT       place in the schedule
--   operation        VARCHAR      operation
--   is_communication BOOLEAN      others take part in it
--   own_ns           BIGINT   ns  length without waiting
--   wait_ns          BIGINT   ns  waiting for others, not below 0

with timed as (
    select
        a.*,
        r.is_communication,
        case
            when r.is_communication
                then
                    a.end_ns - max(a.start_ns) over (
                        partition by
                            a.job_id,
                            a.step,
                            r.rendezvous,
                            if(r.is_job_wide, null, a.dp_rank)
                    )
            else a.end_ns - a.start_ns
        end as seen_ns
    from activity as a
    inner join activity_rendezvous as r
        on a.job_id = r.job_id and a.place_id = r.place_id
),

own as (
    select
        *,
        if(is_communication and seen_ns <= -10000000, 0, seen_ns) as own_ns
    from timed
)

select
    job_id,
    rank,
    dp_rank,
    stage,
    step,
    place_id,
    operation,
    is_communication,
    own_ns,
    if(is_communication, greatest(end_ns - start_ns - own_ns, 0), 0) as wait_ns
from own
