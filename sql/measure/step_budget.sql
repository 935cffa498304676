-- Time of each rank's step by what its thread was doing: exclusive and exhaustive.
--
-- Spans of one thread nest (step, call, off the CPU), so a class has its length less
-- that of what lies inside it, and the classes add up to the step. What is left outside
-- every recorded span is on_cpu where off_cpu was observed whole, else unexplained.
-- Short absences outside calls are off_cpu_short, at most what is left.
--
-- grain:       host_id, thread_id, step, class
-- reads:       _budget_part, _step_cell, _thread_step, wait_span, coverage
-- materialize: yes
-- caveat:      a wait that another thread of the process ended is not followed into it
--
-- columns:
--   host_id     INTEGER      host
--   thread_id   INTEGER      thread on that host
--   step        BIGINT       number of the step
--   class       VARCHAR      what the thread was doing
--   rank        INTEGER      global rank
--   job_id      VARCHAR      job
--   is_main     BOOLEAN      the thread of the rank that makes most of its collectives
--   duration_ns BIGINT   ns  time of the step in this class

with cell_length as (
    select distinct
        host_id,
        thread_id,
        cell_ns
    from _step_cell
),

short as (
    select
        w.host_id,
        w.thread_id,
        s.step,
        sum(w.skipped_ns) as skipped_ns
    from wait_span as w
    inner join cell_length as c on w.host_id = c.host_id and w.thread_id = c.thread_id
    inner join _step_cell as s
        on
            w.host_id = s.host_id
            and w.thread_id = s.thread_id
            and w.start_ns // c.cell_ns = s.cell
            and w.start_ns >= s.start_ns
            and w.start_ns < s.end_ns
    where
        w.skipped_ns > 0
        and coalesce(w.outer_class, 'launch_gap') = 'launch_gap'
    group by w.host_id, w.thread_id, s.step
),

-- in one pass: what a class gets, the class around it gives
moved as (
    select
        host_id,
        thread_id,
        step,
        unnest([class, around]) as class,
        unnest([duration_ns, -duration_ns]) as duration_ns
    from _budget_part
),

inside as (
    select
        host_id,
        thread_id,
        step,
        class,
        greatest(sum(duration_ns), 0) as duration_ns
    from moved
    where class <> 'rest'
    group by host_id, thread_id, step, class
),

taken as (
    select
        host_id,
        thread_id,
        step,
        sum(duration_ns) as duration_ns
    from inside
    group by host_id, thread_id, step
),

outside as (
    select
        s.host_id,
        s.thread_id,
        s.step,
        greatest(s.end_ns - s.start_ns - coalesce(t.duration_ns, 0), 0) as rest_ns,
        least(coalesce(h.skipped_ns, 0), rest_ns) as short_ns,
        if(c.state = 'observed', 'on_cpu', 'unexplained') as rest_class
    from _thread_step as s
    left join taken as t
        on s.host_id = t.host_id and s.thread_id = t.thread_id and s.step = t.step
    left join short as h
        on s.host_id = h.host_id and s.thread_id = h.thread_id and s.step = h.step
    left join coverage as c on s.host_id = c.host_id and c.stream = 'off_cpu'
),

every as (
    select * from inside
    union all
    select
        host_id,
        thread_id,
        step,
        'off_cpu_short' as class,
        short_ns as duration_ns
    from outside
    union all
    select
        host_id,
        thread_id,
        step,
        rest_class as class,
        rest_ns - short_ns as duration_ns
    from outside
)

select
    e.host_id,
    e.thread_id,
    e.step,
    e.class,
    any_value(s.rank) as rank,
    any_value(s.job_id) as job_id,
    any_value(s.is_main) as is_main,
    sum(e.duration_ns)::bigint as duration_ns
from every as e
inner join _thread_step as s
    on e.host_id = s.host_id and e.thread_id = s.thread_id and e.step = s.step
where e.duration_ns > 0
group by e.host_id, e.thread_id, e.step, e.class
