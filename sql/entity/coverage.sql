-- What each host's bundles can and cannot say about each known stream.
--
-- observed: all asked probes were attached, at most 1 % of the records were lost and
-- nothing was left out to save time.
-- partial: less than that. silent: probes in libraries that nobody ran through, which
-- does not prove absence, for the code may be linked statically. absent: not recorded.
--
-- grain:   host_id, stream
-- reads:   stg_bundle, stg_bundle_stream, stg_budget_step, stg_loss,
--          _imported_coverage
--
-- columns:
--   host_id    INTEGER         host
--   stream     VARCHAR         stream
--   from_ns    BIGINT   ns     recorded from, host MONOTONIC
--   to_ns      BIGINT   ns     recorded until, host MONOTONIC
--   state      VARCHAR         observed, partial, silent or absent
--   reason     VARCHAR         why it is not observed; columns that are missing
--   lost_ratio DOUBLE   ratio  records lost, of all that should be there

with known (stream, never) as (
    values
    ('collective', null),
    ('gpu_call', null),
    ('off_cpu', null),
    ('gpu_kernel', 'GPU-side times are not recorded by this capture')
),

loss as (
    select
        bundle_id,
        stream,
        sum(lost_count) as lost_count,
        nullif(count(distinct cpu), 0) as cpu_count,
        (max(last_ns) - min(first_ns)) / 1e9 as seconds
    from stg_loss
    group by bundle_id, stream
),

thinned as (
    select
        t.bundle_id,
        t.stream,
        string_agg(
            'to save time, ' || t.effect || ' from '
            || round((t.time_ns - b.start_ns) / 1e9, 1) || ' s on',
            '; '
            order by t.time_ns
        ) as thinning
    from stg_budget_step as t
    inner join stg_bundle as b on t.bundle_id = b.bundle_id
    where t.stream is not null
    group by t.bundle_id, t.stream
),

pair as (
    select
        b.bundle_id,
        b.host_id,
        k.stream,
        k.never,
        s.stream is null or s.absent_reason is not null as is_missing,
        s.absent_reason,
        s.kind,
        s.asked_probe_count as asked,
        s.attached_probe_count as attached,
        s.hit_count,
        s.from_ns,
        s.to_ns,
        coalesce(s.is_damaged, false) as is_damaged,
        s.row_count - s.loaded_row_count as unread_count,
        list_sort(s.missing_columns) as missing,
        t.thinning,
        l.seconds,
        l.cpu_count || if(l.cpu_count = 1, ' CPU', ' CPUs') as cpus,
        greatest(s.lost_count, coalesce(l.lost_count, 0)) as lost,
        lost / nullif(s.row_count + lost, 0)::double as lost_ratio
    from stg_bundle as b
    cross join known as k
    left join stg_bundle_stream as s
        on b.bundle_id = s.bundle_id and k.stream = s.stream
    left join loss as l on b.bundle_id = l.bundle_id and k.stream = l.stream
    left join thinned as t on b.bundle_id = t.bundle_id and k.stream = t.stream
),

judged as (
    select
        *,
        case
            when is_missing then coalesce(never, absent_reason, 'not recorded')
            when asked > 0 and attached = 0
                then 'none of its ' || asked || ' probes could be attached'
            when kind = 'uprobe' and asked = 0
                then 'no recorded process maps a library of it'
            when kind = 'uprobe' and coalesce(hit_count, 0) = 0
                then 'no call passed a probe; it may be linked statically'
            when is_damaged
                then 'damaged: ' || unread_count || ' rows could not be read'
            when attached < asked
                then attached || ' of its ' || asked || ' probes were attached'
            when lost_ratio > 0.01
                then
                    round(100 * lost_ratio, 1) || ' % of it was lost' || coalesce(
                        ', on ' || cpus || ' within '
                        || round(seconds, 1) || ' s',
                        ''
                    )
            else thinning
        end as fault,
        case
            when is_missing or (asked > 0 and attached = 0) then 'absent'
            when kind = 'uprobe' and coalesce(hit_count, 0) = 0 then 'silent'
            when is_damaged or attached < asked or lost_ratio > 0.01 then 'partial'
            when thinning is not null then 'partial'
            else 'observed'
        end as bundle_state
    from pair
)

select
    host_id,
    stream,
    min(from_ns) as from_ns,
    max(to_ns) as to_ns,
    if(min(bundle_state) = max(bundle_state), min(bundle_state), 'partial') as state,
    coalesce(
        stream || ': ' || string_agg(distinct fault, '; ' order by fault),
        stream || ': without its columns '
        || array_to_string(
            list_sort(list_distinct(flatten(list(missing) filter (len(missing) > 0)))),
            ', '
        )
    ) as reason,
    coalesce(max(lost_ratio), 0) as lost_ratio
from judged
group by host_id, stream
union all
from _imported_coverage
