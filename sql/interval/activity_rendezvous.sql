-- Which operations of a schedule meet: sends with receives, and all in reductions.
--
-- One replica and one step stand for all: every replica runs the same schedule. An
-- operation that meets nobody is a rendezvous of its own.
--
-- grain:   job_id, place_id
-- reads:   activity
--
-- columns:
--   job_id           VARCHAR  job
--   place_id         BIGINT   place in the schedule
--   stage            INTEGER  pipeline stage
--   operation        VARCHAR  operation
--   seq              BIGINT   number among the operations of its kind in the step
--   rendezvous       VARCHAR  name of the meeting; the same for all who take part
--   is_communication BOOLEAN  others take part
--   is_job_wide      BOOLEAN  all replicas take part; else one replica alone

with place as (
    select distinct
        job_id,
        place_id,
        stage,
        operation,
        seq
    from activity
    where stage is not null
),

met as (
    select
        *,
        case
            when operation in ('forward-send', 'forward-recv')
                then
                    'forward ' || seq || '/'
                    || stage + (operation = 'forward-send')::integer
            when operation in ('backward-send', 'backward-recv')
                then
                    'backward ' || seq || '/'
                    || stage - (operation = 'backward-send')::integer
            when operation in ('params-all-gather', 'grads-reduce-scatter')
                then operation || ' ' || seq || '/' || stage
            when operation in ('embedding-grads-all-reduce', 'optimizer-clip-main-grad')
                then operation
        end as meeting
    from place
)

select
    job_id,
    place_id,
    stage,
    operation,
    seq,
    coalesce(meeting, 'alone ' || place_id) as rendezvous,
    meeting is not null as is_communication,
    operation in (
        'params-all-gather', 'grads-reduce-scatter', 'optimizer-clip-main-grad'
    ) as is_job_wide
from met
