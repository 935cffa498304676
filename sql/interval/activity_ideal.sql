-- How long each operation of a step would take if no rank were late: two ideals.
--
-- The ideal of the paper is one length for all operations of a kind, over all ranks and
-- steps: it finds everything that is uneven, a long pipeline stage too. The ideal of
-- the role is the median of the role at the same place of the same step: it finds
-- ranks.
--
-- grain:   job_id, step, place_id
-- reads:   activity_length
-- source:  mean of computations and median of communications after "Understanding
--          Stragglers in Large Model Training", OSDI 2025
--
-- columns:
--   job_id    VARCHAR      job
--   step      BIGINT       number of the step
--   place_id  BIGINT       place in the schedule
--   operation VARCHAR      operation
--   role_ns   DOUBLE   ns  ideal of the role
--   paper_ns  DOUBLE   ns  ideal of the paper

with kind as (
    select
        job_id,
        operation,
        case
            when any_value(is_communication) or operation = 'layernorm-grads-all-reduce'
                then median(own_ns)
            else avg(own_ns)
        end as paper_ns
    from activity_length
    group by job_id, operation
)

select
    l.job_id,
    l.step,
    l.place_id,
    any_value(l.operation) as operation,
    median(l.own_ns) as role_ns,
    any_value(k.paper_ns) as paper_ns
from activity_length as l
inner join kind as k on l.job_id = k.job_id and l.operation = k.operation
group by l.job_id, l.step, l.place_id
