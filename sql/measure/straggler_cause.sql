-- The cause of each late rank: the class that makes up most of its excess.
--
-- A cause is named where one class explains at least half of the excess; else it is
-- unexplained. Where off_cpu was not recorded on its host, what the thread did outside
-- calls is not known, and the cause is not determined.
--
-- grain:   job_id, rank, window_kind, window_from_step
-- reads:   straggler_budget, rank, coverage, cause, threshold
--
-- columns:
--   job_id           VARCHAR         job
--   rank             INTEGER         global rank
--   window_kind      VARCHAR         run, or window (of 50 steps)
--   window_from_step BIGINT          first step
--   cause            VARCHAR         code of the view cause
--   class            VARCHAR         class with the largest excess
--   excess_ns        BIGINT   ns     its excess in a late step, on average
--   share_ratio      DOUBLE   ratio  part of the rank's excess
--   evidence         VARCHAR[]       classes with at least 5 % of the excess, in words

with limit_of as (
    select value as cause_share from threshold
    where name = 'cause_share'
),

top as (
    select
        job_id,
        rank,
        window_kind,
        window_from_step,
        arg_max(class, share_ratio) as class,
        arg_max(excess_ns / affected_step_count, share_ratio)::bigint as excess_ns,
        max(share_ratio) as share_ratio,
        list(
            class || ': ' || round(excess_ns / affected_step_count / 1e6, 1)
            || ' ms a late step beyond its peers, ' || round(100 * share_ratio)::bigint
            || ' % of its excess'
            order by share_ratio desc
        ) filter (share_ratio >= 0.05) as evidence
    from straggler_budget
    group by job_id, rank, window_kind, window_from_step
)

select
    t.job_id,
    t.rank,
    t.window_kind,
    t.window_from_step,
    case
        when c.state in ('absent', 'silent') then 'not_determined'
        when t.share_ratio >= l.cause_share then coalesce(k.code, 'unexplained')
        else 'unexplained'
    end as cause,
    t.class,
    t.excess_ns,
    t.share_ratio,
    case
        when c.state in ('absent', 'silent') then []
        else coalesce(t.evidence, [])
    end as evidence
from top as t
inner join rank as r on t.job_id = r.job_id and t.rank = r.rank
left join coverage as c on r.host_id = c.host_id and c.stream = 'off_cpu'
left join cause as k on t.class = k.class
cross join limit_of as l
