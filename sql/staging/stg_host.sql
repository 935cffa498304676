-- Hosts as their bundles describe them.
--
-- grain:   bundle_id
-- reads:   raw.fact_host
--
-- columns:
--   bundle_id        INTEGER          bundle the row came from
--   host_id          INTEGER          host
--   host_name        VARCHAR          name of the host
--   boot_id          VARCHAR          identity of this boot
--   machine_id       VARCHAR          identity of the installation
--   architecture     VARCHAR          instruction set
--   kernel_release   VARCHAR          kernel
--   os_name          VARCHAR          operating system
--   cpu_count        INTEGER          CPUs online
--   ticks_per_second INTEGER          unit of start_ticks

select
    bundle_id,
    host_id,
    host_name,
    boot_id,
    machine_id,
    architecture,
    kernel_release,
    os_name,
    cpu_count,
    ticks_per_second::integer as ticks_per_second
from raw.fact_host
