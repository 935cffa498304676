-- Each rank that spends more of its steps in a kind of class than its peers.
--
-- The threshold of a kind is the row of `threshold` that is called after it.
--
-- grain:   job_id, rank, kind
-- reads:   rank_class_excess, _rank_window, cause, threshold
--
-- columns:
--   job_id              VARCHAR           job
--   kind                VARCHAR           blocked or run_queue
--   top_class           VARCHAR           class with most of the excess
--   subject_id          VARCHAR           name as a subject
--   host_id             INTEGER           host
--   rank                INTEGER           global rank
--   from_ns             BIGINT     ns     begin of its steps, cluster time
--   to_ns               BIGINT     ns     end of its steps, cluster time
--   cause               VARCHAR           code of the view cause
--   magnitude_ns        BIGINT     ns     median excess of the affected steps
--   slowdown_ratio      DOUBLE            step time, over that of its peers
--   step_count          BIGINT     count  its steps
--   affected_step_count BIGINT     count  of them, with the excess
--   confidence          VARCHAR           high, medium or low
--   evidence_for        VARCHAR[]         what supports it
--   evidence_against    VARCHAR[]         what weakens it
--   next_step           VARCHAR           what to look at next

select
    e.job_id,
    e.kind,
    e.top_class,
    w.subject_id,
    e.host_id,
    e.rank,
    w.from_ns,
    w.to_ns,
    c.code as cause,
    e.magnitude_ns,
    1 + e.excess_ratio as slowdown_ratio,
    e.step_count,
    e.affected_step_count,
    case
        when e.peer_count < 2 then 'low'
        when e.affected_step_count < f.value then 'medium'
        else 'high'
    end as confidence,
    [
        'time budget: ' || e.top_class || ' in ' || e.affected_step_count || ' of '
        || e.step_count || ' steps, ' || round(e.magnitude_ns / 1e6, 1)
        || ' ms beyond its peers, ' || round(100 * e.excess_ratio, 1)
        || ' % of all its step time'
    ] as evidence_for,
    if(e.peer_count = 0, ['no other rank has its role to compare with'], [])
        as evidence_against,
    c.next_step
from rank_class_excess as e
inner join threshold as t on t.name = e.kind || '_step'
inner join threshold as f on f.name = 'few_steps'
inner join _rank_window as w on e.job_id = w.job_id and e.rank = w.rank
left join cause as c on e.top_class = c.class
where e.excess_ratio >= t.value
