-- Each scored window of a rank in cluster time.
--
-- grain:   job_id, rank, window_kind, window_from_step
-- reads:   straggler_score, model.step, model.clock
--
-- columns:
--   job_id           VARCHAR      job
--   rank             INTEGER      global rank
--   window_kind      VARCHAR      run, or window (of 50 steps)
--   window_from_step BIGINT       first step
--   from_ns          BIGINT   ns  begin of the window, cluster time
--   to_ns            BIGINT   ns  end of the window, cluster time

with reach as (
    select
        w.job_id,
        w.rank,
        w.window_kind,
        w.window_from_step,
        min(s.host_id) as host_id,
        min(s.start_ns) as start_ns,
        max(s.end_ns) as end_ns
    from straggler_score as w
    inner join model.step as s
        on
            w.job_id = s.job_id
            and w.rank = s.rank
            and s.step between w.window_from_step and w.window_to_step
    where w.is_accused
    group by w.job_id, w.rank, w.window_kind, w.window_from_step
)

select
    r.job_id,
    r.rank,
    r.window_kind,
    r.window_from_step,
    r.start_ns + c.offset_ns + ((r.start_ns - c.from_ns) * c.rate)::bigint as from_ns,
    r.end_ns + d.offset_ns + ((r.end_ns - d.from_ns) * d.rate)::bigint as to_ns
from reach as r
asof left join model.clock as c on r.host_id = c.host_id and r.start_ns >= c.from_ns
asof left join model.clock as d on r.host_id = d.host_id and r.end_ns >= d.from_ns
