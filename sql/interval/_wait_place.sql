-- Times off the CPU that begin within an outermost call or a gap after launches.
--
-- Kept apart from wait_span: few narrow columns sort and write several times faster.
--
-- grain:       host_id, thread_id, start_ns, is_totals_only
-- reads:       stg_off_cpu, outer_span, _step_thread
-- materialize: yes
--
-- columns:
--   host_id        INTEGER      host
--   thread_id      INTEGER      thread on that host
--   start_ns       BIGINT   ns  lost the CPU, host MONOTONIC
--   is_totals_only BOOLEAN      the row carries only skipped_ns
--   outer_class    VARCHAR      class of the outer_span around it

with away as (
    select
        o.host_id,
        o.thread_id,
        o.start_ns,
        o.is_totals_only
    from stg_off_cpu as o
    semi join _step_thread as t on o.host_id = t.host_id and o.thread_id = t.thread_id
    where o.is_totals_only or not o.is_open
)

select
    a.host_id,
    a.thread_id,
    a.start_ns,
    a.is_totals_only,
    s.class as outer_class
from away as a
asof inner join outer_span as s
    on
        a.host_id = s.host_id
        and a.thread_id = s.thread_id
        and a.start_ns >= s.start_ns
where a.start_ns < s.end_ns
