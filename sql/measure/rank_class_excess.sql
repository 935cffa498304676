-- How much longer than its peers each rank waited for a CPU, or was blocked.
--
-- Read from the time budget of its main thread: run_queue, and blocked, which is read,
-- disk, file, timed_sleep, lock, network and stopped together. Waiting inside
-- collectives and GPU synchronisations is in neither, nor is giving the CPU away. Peers
-- are the other members of its role.
--
-- grain:   job_id, rank, kind
-- reads:   _thread_step, step_budget, rank, threshold
--
-- columns:
--   job_id              VARCHAR         job
--   rank                INTEGER         global rank
--   host_id             INTEGER         host
--   kind                VARCHAR         run_queue or blocked
--   peer_count          BIGINT   count  other members of its role
--   step_count          BIGINT   count  its steps
--   affected_step_count BIGINT   count  steps with an excess beyond the threshold
--   step_ns             BIGINT   ns     mean length of its steps
--   excess_ns           BIGINT   ns     mean excess of a step
--   magnitude_ns        BIGINT   ns     median excess of the affected steps
--   excess_ratio        DOUBLE          excess_ns of step_ns
--   top_class           VARCHAR         class with most time in the affected steps
--   top_share_ratio     DOUBLE   ratio  part of the time in the affected steps
--   late_steps          BIGINT[]        first affected steps, at most eight

with member as (
    select
        s.job_id,
        s.rank,
        s.host_id,
        r.role,
        s.step,
        s.end_ns - s.start_ns as step_ns,
        count(*) over (partition by s.job_id, r.role, s.step) - 1 as peer_count
    from _thread_step as s
    inner join rank as r on s.job_id = r.job_id and s.rank = r.rank
    where s.is_main
),

spent as (
    select
        job_id,
        rank,
        step,
        class,
        if(class = 'run_queue', 'run_queue', 'blocked') as kind,
        duration_ns
    from step_budget
    where
        is_main
        and class in (
            'run_queue',
            'read',
            'disk',
            'file',
            'timed_sleep',
            'lock',
            'network',
            'stopped'
        )
),

k as (select unnest(['run_queue', 'blocked']) as kind),

summed as (
    select
        m.job_id,
        m.rank,
        m.host_id,
        m.role,
        m.step,
        m.step_ns,
        m.peer_count,
        k.kind,
        coalesce(sum(s.duration_ns), 0) as duration_ns,
        arg_max(s.class, s.duration_ns) as top_class,
        max(s.duration_ns) as top_ns
    from member as m
    cross join k
    left join spent as s
        on
            m.job_id = s.job_id
            and m.rank = s.rank
            and m.step = s.step
            and k.kind = s.kind
    group by all
),

compared as (
    select
        *,
        greatest(duration_ns - coalesce(median(duration_ns) over peers, 0), 0)
            as excess_ns
    from summed
    window
        peers as (
            partition by job_id, role, step, kind order by rank
            rows between unbounded preceding and unbounded following
            exclude current row
        )
),

marked as (
    select
        c.*,
        c.excess_ns >= t.value * avg(c.step_ns) over (
            partition by c.job_id, c.rank, c.kind
        ) as is_affected
    from compared as c
    inner join threshold as t on t.name = c.kind || '_step'
)

select
    job_id,
    rank,
    host_id,
    kind,
    max(peer_count) as peer_count,
    count(*) as step_count,
    count(*) filter (is_affected) as affected_step_count,
    avg(step_ns)::bigint as step_ns,
    avg(excess_ns)::bigint as excess_ns,
    median(excess_ns) filter (is_affected)::bigint as magnitude_ns,
    sum(excess_ns) / sum(step_ns)::double as excess_ratio,
    arg_max(top_class, top_ns) filter (is_affected) as top_class,
    sum(top_ns) filter (is_affected) / sum(duration_ns) filter (is_affected)
        as top_share_ratio,
    list_sort(list(step) filter (is_affected))[1:8] as late_steps
from marked
group by job_id, rank, host_id, kind
