-- Length of each span of a budgeted thread in each step, with what lies around.
--
-- Steps are cut where the thread that marks them enters or leaves a call, so there a
-- span lies in one step. Spans of other threads may reach over the edge and are cut.
--
-- grain:  host_id, thread_id, step, class, around
-- reads:  outer_span, wait_span, _step_cell, _thread_step
--
-- columns:
--   host_id     INTEGER      host
--   thread_id   INTEGER      thread on that host
--   step        BIGINT       number of the step
--   class       VARCHAR      class that gets the time
--   around      VARCHAR      class it is taken from; rest: from outside every span
--   duration_ns BIGINT   ns  length

with reach as (
    select distinct
        host_id,
        thread_id,
        cell_ns,
        from_ns,
        to_ns
    from _step_cell
),

-- every span begins with a part in its class; an absence ends with one in the run queue
span as (
    select
        host_id,
        thread_id,
        start_ns,
        end_ns as ready_ns,
        end_ns,
        class,
        'rest' as around,
        null as runq_class
    from outer_span
    union all
    select
        host_id,
        thread_id,
        start_ns,
        ready_ns,
        end_ns,
        class,
        coalesce(outer_class, 'rest') as around,
        runq_class
    from wait_span
    where end_ns > start_ns
),

placed as (
    select
        p.*,
        s.step,
        coalesce(p.end_ns <= s.end_ns, false) as is_whole
    from span as p
    inner join reach as r on p.host_id = r.host_id and p.thread_id = r.thread_id
    left join _step_cell as s
        on
            p.host_id = s.host_id
            and p.thread_id = s.thread_id
            and p.start_ns // r.cell_ns = s.cell
            and p.start_ns >= s.start_ns
            and p.start_ns < s.end_ns
    where p.end_ns > r.from_ns and p.start_ns < r.to_ns
),

cut as (
    select
        host_id,
        thread_id,
        step,
        class,
        around,
        runq_class,
        sum(ready_ns - start_ns) as class_ns,
        sum(end_ns - ready_ns) as runq_ns
    from placed
    where is_whole
    group by host_id, thread_id, step, class, around, runq_class
    union all
    select
        p.host_id,
        p.thread_id,
        s.step,
        p.class,
        p.around,
        p.runq_class,
        sum(
            least(greatest(p.ready_ns, s.start_ns), s.end_ns)
            - greatest(p.start_ns, s.start_ns)
        ) as class_ns,
        sum(
            least(p.end_ns, s.end_ns)
            - least(greatest(p.ready_ns, s.start_ns), s.end_ns)
        ) as runq_ns
    from placed as p
    inner join _thread_step as s
        on
            p.host_id = s.host_id
            and p.thread_id = s.thread_id
            and p.start_ns < s.end_ns
            and p.end_ns > s.start_ns
    where not p.is_whole
    group by p.host_id, p.thread_id, s.step, p.class, p.around, p.runq_class
),

part as (
    select
        host_id,
        thread_id,
        step,
        unnest([class, runq_class]) as class,
        around,
        unnest([class_ns, runq_ns]) as duration_ns
    from cut
)

select
    host_id,
    thread_id,
    step,
    class,
    around,
    sum(duration_ns)::bigint as duration_ns
from part
where class <> around and duration_ns > 0
group by host_id, thread_id, step, class, around
