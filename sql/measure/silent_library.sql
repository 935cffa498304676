-- Libraries that were probed and never called, with the programs to look at next.
--
-- Probes were attached without an error and nobody ran through them. That says nothing
-- of the calls: a program may hold a copy of the library of its own, linked statically.
-- Such a program maps no library of that kind; it is the next one to record.
--
-- grain:  host_id, path, program_path
-- reads:  stg_library, stg_mapping, stg_probe, stg_process
-- caveat: a program is the file that a process maps lowest
--
-- columns:
--   host_id       INTEGER          host
--   path          VARCHAR          the library
--   kind          VARCHAR          nccl, mpi, cudart, cuda or other
--   probe_count   BIGINT    count  probes attached in it
--   program_path  VARCHAR          program without such a library; unknown: none seen
--   process_names VARCHAR[]        processes that run it
--   next_step     VARCHAR          what to do

with silent as (
    select
        p.bundle_id,
        p.host_id,
        l.path,
        l.kind,
        count(*) as probe_count
    from stg_probe as p
    inner join stg_library as l
        on p.bundle_id = l.bundle_id and p.library_ref = l.library_ref
    where p.is_attached
    group by p.bundle_id, p.host_id, p.library_ref, l.path, l.kind
    having sum(p.hit_count) = 0
),

mapped as (
    select
        m.bundle_id,
        m.pid,
        arg_min(l.path, m.start_address) as program_path,
        list(distinct l.kind) as kinds
    from stg_mapping as m
    inner join stg_library as l
        on m.bundle_id = l.bundle_id and m.library_ref = l.library_ref
    group by m.bundle_id, m.pid
),

suspect as (
    select
        s.bundle_id,
        s.path,
        m.program_path,
        p.process_name
    from silent as s
    inner join mapped as m on s.bundle_id = m.bundle_id
    inner join stg_process as p on m.bundle_id = p.bundle_id and m.pid = p.pid
    where not list_contains(m.kinds, s.kind)
)

select
    s.host_id,
    s.path,
    s.kind,
    max(s.probe_count) as probe_count,
    coalesce(u.program_path, 'unknown') as program_path,
    coalesce(
        list_sort(list(distinct u.process_name) filter (u.process_name is not null)),
        []
    ) as process_names,
    case
        when u.program_path is null
            then 'record again while the program calls the library'
        else
            'record the copy that it holds: coldtrace-capture record --library '
            || u.program_path
    end as next_step
from silent as s
left join suspect as u on s.bundle_id = u.bundle_id and s.path = u.path
group by s.host_id, s.path, s.kind, u.program_path
