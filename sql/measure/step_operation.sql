-- Calls of each rank in each step by operation, and the waiting within them.
--
-- A blocking call waits for as long as it stays longer than the member that stays
-- least. What an enqueue-only call waits for shows in the synchronisation after it.
--
-- grain:  host_id, thread_id, step, operation
-- reads:  outer_span, _meeting, _step_cell, _thread_step
-- caveat: outermost calls alone: what a call makes inside itself counts as its time
--
-- columns:
--   host_id     INTEGER         host
--   thread_id   INTEGER         thread on that host
--   step        BIGINT          number of the step, the same on every rank
--   operation   VARCHAR         operation of the call; launch: a gap after launches
--   rank        INTEGER         global rank
--   job_id      VARCHAR         job
--   is_main     BOOLEAN         the thread that makes most of the rank's collectives
--   call_count  BIGINT   count  calls that began in the step
--   duration_ns BIGINT   ns     time in them
--   wait_ns     BIGINT   ns     part of it in which other members were waited for

with cell_length as (
    select distinct
        host_id,
        thread_id,
        cell_ns
    from _step_cell
),

met as (
    select
        host_id,
        thread_id,
        start_ns,
        stay_ns - min(stay_ns) over meeting as wait_ns
    from _meeting
    where not is_enqueue_only
    window
        meeting as (partition by communicator_id, collective_seq, operation, pairing)
),

made as (
    select
        p.host_id,
        p.thread_id,
        s.step,
        p.operation,
        count(*) as call_count,
        sum(p.duration_ns)::bigint as duration_ns,
        sum(least(coalesce(m.wait_ns, 0), p.duration_ns))::bigint as wait_ns
    from outer_span as p
    inner join cell_length as c on p.host_id = c.host_id and p.thread_id = c.thread_id
    inner join _step_cell as s
        on
            p.host_id = s.host_id
            and p.thread_id = s.thread_id
            and p.start_ns // c.cell_ns = s.cell
            and p.start_ns >= s.start_ns
            and p.start_ns < s.end_ns
    left join met as m
        on
            p.host_id = m.host_id
            and p.thread_id = m.thread_id
            and p.start_ns = m.start_ns
    group by p.host_id, p.thread_id, s.step, p.operation
)

select
    m.host_id,
    m.thread_id,
    m.step,
    m.operation,
    t.rank,
    t.job_id,
    t.is_main,
    m.call_count,
    m.duration_ns,
    m.wait_ns
from made as m
inner join _thread_step as t
    on m.host_id = t.host_id and m.thread_id = t.thread_id and m.step = t.step
