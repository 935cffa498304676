-- What the clocks say about the order of arrival in a late rank's late steps.
--
-- In each late step the rendezvous counts to which the rank came latest, against the
-- last of the other members. The clocks support where it was surely last, contradict
-- where another was surely later by as much as half of the delay, and else abstain.
--
-- grain:   job_id, rank, window_kind, window_from_step
-- reads:   straggler_score, collective_arrival, model.step
--
-- columns:
--   job_id           VARCHAR         job
--   rank             INTEGER         global rank
--   window_kind      VARCHAR         run, or window (of 50 steps)
--   window_from_step BIGINT          first step
--   late_count       BIGINT   count  late steps with a rendezvous
--   last_count       BIGINT   count  of them, the rank was surely last
--   not_last_count   BIGINT   count  of them, another was surely later by much
--   margin_ns        BIGINT   ns     median time after the last of the others
--   clock_error_ns   BIGINT   ns     median half-width of the error of margin_ns

with late as (
    select
        job_id,
        rank,
        window_kind,
        window_from_step,
        magnitude_ns,
        unnest(affected_steps) as step
    from straggler_score
    where is_accused
),

late_rank as (
    select distinct
        job_id,
        rank
    from late
),

placed as (
    select
        a.job_id,
        a.rank,
        s.step,
        max(struct_pack(
            margin_ns := a.margin_ns,
            error_ns := a.margin_error_ns,
            is_surely_last := a.is_surely_last
        )) as latest
    from collective_arrival as a
    semi join late_rank as r on a.job_id = r.job_id and a.rank = r.rank
    asof inner join model.step as s
        on a.job_id = s.job_id and a.rank = s.rank and a.arrival_ns >= s.start_ns
    where a.arrival_ns < s.end_ns and a.margin_ns is not null
    group by a.job_id, a.rank, s.step
)

select
    l.job_id,
    l.rank,
    l.window_kind,
    l.window_from_step,
    count(p.step) as late_count,
    count(*) filter (p.latest.is_surely_last) as last_count,
    count(*) filter (
        p.latest.margin_ns < -p.latest.error_ns
        and p.latest.margin_ns < -0.5 * l.magnitude_ns
    ) as not_last_count,
    median(p.latest.margin_ns)::bigint as margin_ns,
    median(p.latest.error_ns)::bigint as clock_error_ns
from late as l
left join placed as p
    on l.job_id = p.job_id and l.rank = p.rank and l.step = p.step
group by l.job_id, l.rank, l.window_kind, l.window_from_step
