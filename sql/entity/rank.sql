-- One rank of a job, with the role it plays in it.
--
-- A role is the set of operations and communicator sizes of a rank's calls, each at
-- least 2 % of them: ranks of one role do the same work and may be compared. Pipeline
-- stages differ in it; a rank that makes a rare call of its own does not.
--
-- grain:   job_id, rank
-- reads:   stg_rank, stg_collective, stg_communicator, stg_imported_operation,
--          stg_imported_file
-- caveat:  of several processes that claim one rank of a job, one with collective
--          calls is taken before others (a worker that it forks has its environment),
--          then the one that started last
--
-- columns:
--   rank        INTEGER  global rank
--   host_id     INTEGER  host it ran on
--   pid         INTEGER  its process
--   start_ticks BIGINT   start of the process since boot, in ticks
--   local_rank  INTEGER  rank on its host
--   world_size  INTEGER  ranks of the job
--   job_id      VARCHAR  job; 'unnamed' where nothing names it
--   source      VARCHAR  who named the rank
--   role        VARCHAR  operations and communicator sizes of its calls, or 'none';
--                        of an imported trace the pipeline stage, NULL if not known
--   rank_name   VARCHAR  name of it beside its number; NULL: it has none

with claim as (
    select
        *,
        coalesce(job_id, 'unnamed') as job_name
    from stg_rank
    where rank is not null
    qualify
        row_number() over (
            partition by host_id, pid order by start_ticks desc, bundle_id asc
        ) = 1
),

caller as (
    select distinct
        host_id,
        pid
    from stg_collective
),

holder as (
    select claim.*
    from claim
    left join caller
        on claim.host_id = caller.host_id and claim.pid = caller.pid
    qualify
        row_number() over (
            partition by claim.job_name, claim.rank
            order by
                caller.pid is not null desc,
                claim.start_ticks desc,
                claim.host_id asc,
                claim.pid asc
        ) = 1
),

call as (
    select
        c.host_id,
        c.pid,
        c.operation || coalesce('/' || m.size, '') as call_kind,
        count(*) as call_count
    from stg_collective as c
    left join stg_communicator as m
        on c.bundle_id = m.bundle_id and c.communicator_ref = m.communicator_ref
    where
        c.call_depth = 0
        and c.operation not like 'comm\_%' escape '\'
        and c.operation <> 'group_end'
        and coalesce(m.size, 2) > 1
    group by c.host_id, c.pid, call_kind
),

frequent as (
    select * from call
    qualify call_count >= 0.02 * sum(call_count) over (partition by host_id, pid)
),

signature as (
    select
        host_id,
        pid,
        string_agg(call_kind, ' ' order by call_kind) as role
    from frequent
    group by host_id, pid
)

select
    h.rank,
    h.host_id,
    h.pid,
    h.start_ticks,
    h.local_rank,
    h.world_size,
    h.job_name as job_id,
    h.source,
    coalesce(s.role, 'none') as role,
    null::varchar as rank_name
from holder as h
left join signature as s on h.host_id = s.host_id and h.pid = s.pid
union all
select distinct
    o.rank,
    o.import_id as host_id,
    null::integer as pid,
    null::bigint as start_ticks,
    null::integer as local_rank,
    null::integer as world_size,
    f.name as job_id,
    f.kind,
    'stage ' || o.stage as role,
    'dp' || o.dp_rank || '/stage' || o.stage as rank_name
from stg_imported_operation as o
inner join stg_imported_file as f on o.import_id = f.import_id
