-- By class, how a late rank spent its late steps beyond its peers in the same.
--
-- Peers are the other members of its role on hosts whose off_cpu was recorded as its
-- own was; a class has as excess its time over all late steps less the median of
-- theirs. Waiting for others is what a late rank does less of, and no part of its own
-- excess.
--
-- grain:   job_id, rank, window_kind, window_from_step, class
-- reads:   straggler_score, step_budget, rank, coverage
--
-- columns:
--   job_id              VARCHAR         job
--   rank                INTEGER         global rank
--   window_kind         VARCHAR         run, or window (of 50 steps)
--   window_from_step    BIGINT          first step
--   class               VARCHAR         class of step_budget
--   duration_ns         BIGINT   ns     its time in the class over the late steps
--   peer_duration_ns    BIGINT   ns     median of that over its peers
--   excess_ns           BIGINT   ns     difference
--   affected_step_count BIGINT   count  late steps
--   share_ratio         DOUBLE   ratio  part of all positive excess; NULL: not positive

with watched as (
    select
        r.*,
        coalesce(c.state in ('observed', 'partial'), false) as is_watched
    from rank as r
    left join coverage as c on r.host_id = c.host_id and c.stream = 'off_cpu'
),

late as (
    select
        s.job_id,
        s.rank,
        s.window_kind,
        s.window_from_step,
        s.affected_step_count,
        r.role,
        r.is_watched,
        unnest(s.affected_steps) as step
    from straggler_score as s
    inner join watched as r on s.job_id = r.job_id and s.rank = r.rank
    where s.is_accused
),

spent as (
    select
        l.job_id,
        l.rank,
        l.window_kind,
        l.window_from_step,
        l.affected_step_count,
        m.rank as member,
        b.class,
        sum(b.duration_ns) as duration_ns
    from late as l
    inner join watched as m
        on
            l.job_id = m.job_id
            and l.role = m.role
            and l.is_watched = m.is_watched
    inner join step_budget as b
        on m.job_id = b.job_id and m.rank = b.rank and l.step = b.step and b.is_main
    group by all
),

m as (
    select distinct
        job_id,
        rank,
        window_kind,
        window_from_step,
        member
    from spent
),

every as (
    select
        c.*,
        m.member,
        coalesce(s.duration_ns, 0) as duration_ns
    from (
        select distinct
            job_id,
            rank,
            window_kind,
            window_from_step,
            affected_step_count,
            class
        from spent
    ) as c
    inner join m
        on
            c.job_id = m.job_id
            and c.rank = m.rank
            and c.window_kind = m.window_kind
            and c.window_from_step = m.window_from_step
    left join spent as s
        on
            c.job_id = s.job_id
            and c.rank = s.rank
            and c.window_kind = s.window_kind
            and c.window_from_step = s.window_from_step
            and c.class = s.class
            and m.member = s.member
),

compared as (
    select
        job_id,
        rank,
        window_kind,
        window_from_step,
        class,
        max(duration_ns) filter (member = rank)::bigint as duration_ns,
        median(duration_ns) filter (member <> rank)::bigint as peer_duration_ns,
        any_value(affected_step_count) as affected_step_count
    from every
    group by job_id, rank, window_kind, window_from_step, class
)

select
    job_id,
    rank,
    window_kind,
    window_from_step,
    class,
    duration_ns,
    peer_duration_ns,
    duration_ns - peer_duration_ns as excess_ns,
    affected_step_count,
    case
        when class in ('waiting_for_others', 'run_queue_in_wait') then null
        when duration_ns > peer_duration_ns
            then (duration_ns - peer_duration_ns) / sum(
                greatest(duration_ns - peer_duration_ns, 0)
            ) filter (class not in ('waiting_for_others', 'run_queue_in_wait')) over (
                partition by job_id, rank, window_kind, window_from_step
            )
    end as share_ratio
from compared
