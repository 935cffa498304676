-- Each place of a schedule with its kind and its turn: one replica's first step.
--
-- grain:   job_id, place_id
-- reads:   activity
--
-- columns:
--   job_id    VARCHAR      job
--   stage     INTEGER      pipeline stage
--   place_id  BIGINT       place in the schedule
--   kind      VARCHAR      pass, send, receive, last (after all passes), or other
--   operation VARCHAR      operation
--   direction VARCHAR      forward or backward, of passes and transfers
--   seq       BIGINT       number among the operations of its kind in the step
--   nth       BIGINT       turn among those of its kind on its stage
--   end_ns    BIGINT   ns  end, clock of the trace

with place as (
    select
        *,
        split_part(operation, '-', 1) as direction,
        list_position(
            [
                'gc', 'layernorm-grads-all-reduce', 'embedding-grads-all-reduce',
                'grads-reduce-scatter', 'optimizer-clip-main-grad', 'optimizer'
            ],
            operation
        ) as last_turn
    from activity
    where stage is not null
    qualify
        step = min(step) over (partition by job_id)
        and dp_rank = min(dp_rank) over (partition by job_id)
),

named as (
    select
        *,
        case
            when operation in ('forward-compute', 'backward-compute') then 'pass'
            when operation in ('forward-send', 'backward-send') then 'send'
            when operation in ('forward-recv', 'backward-recv') then 'receive'
            when last_turn is not null then 'last'
            else 'other'
        end as kind
    from place
)

select
    job_id,
    stage,
    place_id,
    kind,
    operation,
    direction,
    seq,
    row_number() over (
        partition by job_id, stage, kind
        order by last_turn, if(kind = 'last', 0, start_ns), seq, operation
    ) as nth,
    end_ns
from named
