-- Time of each host's ranks in each step by what two runs are compared by.
--
-- Each kind is another cut of the same time: time (step, own and wait), the classes of
-- the time budget, operations, and the wait within operations.
--
-- grain:  job_id, host_id, step, kind, part
-- reads:  step_work, step_budget, step_operation
-- caveat: classes and operations are those of the main thread of each rank
--
-- columns:
--   job_id      VARCHAR         job
--   host_id     INTEGER         host
--   step        BIGINT          number of the step, the same on every rank
--   kind        VARCHAR         time, class, operation or operation_wait
--   part        VARCHAR         what within it
--   rank_count  BIGINT   count  ranks of this host that show the step
--   duration_ns BIGINT   ns     time of all of them together

with whole as (
    select
        job_id,
        host_id,
        step,
        count(*) as rank_count,
        sum(step_ns)::bigint as step_ns,
        sum(own_ns)::bigint as own_ns,
        sum(wait_ns)::bigint as wait_ns
    from step_work
    group by job_id, host_id, step
),

part as (
    select
        job_id,
        host_id,
        step,
        'time' as kind,
        unnest(['step', 'own', 'wait']) as part,
        unnest([step_ns, own_ns, wait_ns]) as duration_ns
    from whole
    union all
    select
        job_id,
        host_id,
        step,
        'class' as kind,
        class as part,
        sum(duration_ns)::bigint as duration_ns
    from step_budget
    where is_main
    group by job_id, host_id, step, class
    union all
    select
        job_id,
        host_id,
        step,
        unnest(['operation', 'operation_wait']) as kind,
        operation as part,
        unnest([sum(duration_ns), sum(wait_ns)])::bigint as duration_ns
    from step_operation
    where is_main
    group by job_id, host_id, step, operation
)

select
    p.job_id,
    p.host_id,
    p.step,
    p.kind,
    p.part,
    w.rank_count,
    p.duration_ns
from part as p
inner join whole as w
    on p.job_id = w.job_id and p.host_id = w.host_id and p.step = w.step
where p.kind <> 'operation_wait' or p.duration_ns > 0
