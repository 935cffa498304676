-- Length of each span of a budgeted thread in each step, with what lies around.
--
-- Steps are cut where the thread that marks them enters or leaves a call, so there a
-- span lies in one step. Spans of other threads may reach over the edge and are cut.
--
-- grain:  host_id, thread_id, step, class, around
-- reads:  outer_span, wait_span, _thread_step
--
-- columns:
--   host_id     INTEGER      host
--   thread_id   INTEGER      thread on that host
--   step        BIGINT       number of the step
--   class       VARCHAR      class that gets the time
--   around      VARCHAR      class it is taken from; rest: from outside every span
--   duration_ns BIGINT   ns  length

with reach as (
    select
        host_id,
        thread_id,
        min(start_ns) as from_ns,
        max(end_ns) as to_ns
    from _thread_step
    group by host_id, thread_id
),

-- a piece adds its length to one class and takes it from the one around it
piece as (
    select
        host_id,
        thread_id,
        start_ns,
        end_ns,
        class,
        'rest' as around
    from outer_span
    union all
    select
        host_id,
        thread_id,
        start_ns,
        ready_ns as end_ns,
        class,
        coalesce(outer_class, 'rest') as around
    from wait_span
    where ready_ns > start_ns and coalesce(outer_class, 'launch_gap') = 'launch_gap'
    union all
    select
        host_id,
        thread_id,
        ready_ns as start_ns,
        end_ns,
        runq_class as class,
        coalesce(outer_class, 'rest') as around
    from wait_span
    where end_ns > ready_ns
),

placed as (
    select
        p.*,
        s.step,
        coalesce(p.start_ns < s.end_ns and p.end_ns <= s.end_ns, false) as is_whole
    from piece as p
    inner join reach as r on p.host_id = r.host_id and p.thread_id = r.thread_id
    asof left join _thread_step as s
        on
            p.host_id = s.host_id
            and p.thread_id = s.thread_id
            and p.start_ns >= s.start_ns
    where p.end_ns > r.from_ns and p.start_ns < r.to_ns
),

cut as (
    select
        host_id,
        thread_id,
        step,
        class,
        around,
        sum(end_ns - start_ns) as duration_ns
    from placed
    where is_whole
    group by host_id, thread_id, step, class, around
    union all
    select
        p.host_id,
        p.thread_id,
        s.step,
        p.class,
        p.around,
        sum(least(p.end_ns, s.end_ns) - greatest(p.start_ns, s.start_ns)) as duration_ns
    from placed as p
    inner join _thread_step as s
        on
            p.host_id = s.host_id
            and p.thread_id = s.thread_id
            and p.start_ns < s.end_ns
            and p.end_ns > s.start_ns
    where not p.is_whole
    group by p.host_id, p.thread_id, s.step, p.class, p.around
)

select
    host_id,
    thread_id,
    step,
    class,
    around,
    sum(duration_ns)::bigint as duration_ns
from cut
group by host_id, thread_id, step, class, around
