-- What each host is set up with: settings, libraries by their content, its system.
--
-- Settings of processes are those of the processes that are ranks; where they differ
-- within a host, all values are told. A library is what its file holds: two files of
-- one path and one version may differ, and what a package says of itself is not asked.
--
-- grain:  host_id, setting
-- reads:  host, rank, stg_config, stg_library, stg_probe
-- caveat: a library that was not probed has no hash and is told by its build id
--
-- columns:
--   host_id       INTEGER  host
--   host_name     VARCHAR  name of the host
--   topic         VARCHAR  system, cpu, memory, clock, gpu, library or environment
--   setting       VARCHAR  what is set; of a library its path
--   setting_value VARCHAR  what it is set to; of a library the hash of its file

with system as (
    select
        host_id,
        'system' as topic,
        unnest(['kernel_release', 'os_name', 'architecture', 'cpu_count']) as setting,
        unnest(
            [kernel_release, os_name, architecture, cpu_count::varchar]
        ) as setting_value
    from host
),

member as (
    select distinct
        host_id,
        pid
    from rank
),

configured as (
    select
        c.host_id,
        case
            when c.setting like 'env.%' then 'environment'
            when c.setting like 'pcie.%' or c.setting like '%_driver' then 'gpu'
            when c.setting in ('numa_nodes', 'numa_balancing', 'mems') then 'memory'
            when c.setting like '%hugepage%' then 'memory'
            when c.setting = 'clock_source' then 'clock'
            when c.setting = 'kernel_build' then 'system'
            else 'cpu'
        end as topic,
        c.setting,
        c.setting_value
    from stg_config as c
    left join member as m on c.host_id = m.host_id and c.pid = m.pid
    where c.scope = 'host' or m.pid is not null
),

probed as (
    select distinct
        bundle_id,
        library_ref
    from stg_probe
    where library_ref is not null
),

library as (
    select
        l.host_id,
        'library' as topic,
        l.path as setting,
        coalesce('sha256 ' || l.sha256, 'build id ' || l.build_id) as setting_value
    from stg_library as l
    left join probed as p on l.bundle_id = p.bundle_id and l.library_ref = p.library_ref
    where l.kind <> 'other' or p.library_ref is not null
),

known as (
    from system
    union all
    from configured
    union all
    from library
)

select
    k.host_id,
    h.host_name,
    k.topic,
    k.setting,
    string_agg(distinct k.setting_value, '; ' order by k.setting_value) as setting_value
from known as k
inner join host as h on k.host_id = h.host_id
where k.setting_value is not null
group by k.host_id, h.host_name, k.topic, k.setting
