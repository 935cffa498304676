-- One host of the case: a machine in one boot.
--
-- Every host with a bundle is here, also where its own facts could not be read, and
-- those whose packets were imported, with their name and the time they cover. An
-- imported operation trace stands here as one host, for it has one clock.
--
-- grain:   host_id
-- reads:   stg_bundle, stg_host, stg_imported_packet, stg_imported_file,
--          stg_imported_operation
--
-- columns:
--   host_id        INTEGER      host
--   host_name      VARCHAR      name of the host, as recorded
--   boot_id        VARCHAR      identity of the boot
--   machine_id     VARCHAR      identity of the installation
--   architecture   VARCHAR      instruction set
--   kernel_release VARCHAR      kernel
--   os_name        VARCHAR      operating system
--   cpu_count      INTEGER      CPUs
--   bundle_count   BIGINT       bundles of it in this case; 0: it was imported
--   start_ns       BIGINT   ns  first recording began, clock of the host
--   stop_ns        BIGINT   ns  last recording ended, clock of the host

with described as (
    select
        host_id,
        max(architecture) as architecture,
        max(kernel_release) as kernel_release,
        max(os_name) as os_name,
        max(cpu_count) as cpu_count
    from stg_host
    group by host_id
),

imported_step as (
    select
        import_id,
        max(start_ns + duration_ns) - min(start_ns) as length_ns
    from stg_imported_operation
    group by import_id, step
),

imported as (
    select
        host_id,
        max(host_name) as host_name,
        min(time_ns) as start_ns,
        max(time_ns) as stop_ns
    from stg_imported_packet
    group by host_id
    union all
    select
        f.import_id as host_id,
        f.name as host_name,
        0 as start_ns,
        sum(o.length_ns)::bigint as stop_ns
    from stg_imported_file as f
    inner join imported_step as o on f.import_id = o.import_id
    group by f.import_id, f.name
)

select
    b.host_id,
    max(b.host_name) as host_name,
    max(b.boot_id) as boot_id,
    max(b.machine_id) as machine_id,
    any_value(d.architecture) as architecture,
    any_value(d.kernel_release) as kernel_release,
    any_value(d.os_name) as os_name,
    any_value(d.cpu_count) as cpu_count,
    count(*) as bundle_count,
    min(b.start_ns) as start_ns,
    max(b.stop_ns) as stop_ns
from stg_bundle as b
left join described as d on b.host_id = d.host_id
group by b.host_id
union all
select
    host_id,
    host_name,
    null as boot_id,
    null as machine_id,
    null as architecture,
    null as kernel_release,
    null as os_name,
    null as cpu_count,
    0 as bundle_count,
    start_ns,
    stop_ns
from imported
