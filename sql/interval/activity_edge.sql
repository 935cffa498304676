-- What has to end before an operation of a schedule may start.
--
-- Passes run one after another; a pass waits for what it receives, a send for its pass;
-- transfers of a kind run in turn; the reductions follow the last pass in their order.
--
-- grain:   job_id, before_id, after_id
-- reads:   _activity_place
-- source:  dependencies of "Understanding Stragglers in Large Model Training", OSDI
--          2025
--
-- columns:
--   job_id    VARCHAR  job
--   before_id BIGINT   place in the schedule that ends first
--   after_id  BIGINT   place that waits for it

with turn as (
    select
        a.job_id,
        a.place_id as before_id,
        b.place_id as after_id
    from _activity_place as a
    inner join _activity_place as b
        on a.job_id = b.job_id and a.stage = b.stage and a.kind = b.kind
    where
        (a.kind in ('pass', 'last') and b.nth = a.nth + 1)
        or (
            a.kind in ('send', 'receive')
            and a.direction = b.direction
            and b.seq = a.seq + 1
        )
),

-- a receive ends before its pass and is posted when the pass before has ended
passed as (
    select
        p.job_id,
        if(t.kind = 'receive' and t.seq = p.seq, t.place_id, p.place_id) as before_id,
        if(t.kind = 'receive' and t.seq = p.seq, p.place_id, t.place_id) as after_id
    from _activity_place as t
    inner join _activity_place as p
        on t.job_id = p.job_id and t.stage = p.stage and t.direction = p.direction
    where
        p.kind = 'pass'
        and (
            (t.kind in ('send', 'receive') and t.seq = p.seq)
            or (t.kind = 'receive' and t.seq = p.seq + 1)
        )
),

-- the first backward transfers start with the last forward pass but one
turned as (
    select
        p.job_id,
        p.place_id as before_id,
        t.place_id as after_id
    from _activity_place as f
    inner join _activity_place as p
        on f.job_id = p.job_id and f.stage = p.stage and p.nth = f.nth - 2
    inner join _activity_place as t on f.job_id = t.job_id and f.stage = t.stage
    where
        f.kind = 'pass'
        and f.direction = 'backward'
        and p.kind = 'pass'
        and t.kind in ('send', 'receive')
        and t.direction = 'backward'
        and t.seq = 0
    qualify f.nth = min(f.nth) over (partition by f.job_id, f.stage)
),

begun as (
    select
        g.job_id,
        g.place_id as before_id,
        p.place_id as after_id
    from _activity_place as g
    inner join _activity_place as p on g.job_id = p.job_id and g.stage = p.stage
    where g.operation = 'params-all-gather' and p.kind = 'pass' and p.nth = 1
),

ended as (
    select
        p.job_id,
        p.place_id as before_id,
        t.place_id as after_id
    from _activity_place as t
    inner join _activity_place as p on t.job_id = p.job_id and t.stage = p.stage
    where t.kind = 'last' and t.nth = 1 and p.kind = 'pass'
    qualify
        row_number() over (partition by t.job_id, t.stage order by p.end_ns desc) = 1
)

from turn
union
from passed
union
from turned
union
from begun
union
from ended
