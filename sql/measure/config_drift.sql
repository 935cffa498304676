-- Settings and libraries in which hosts differ, and the findings that it touches.
--
-- An observation, not a finding: that two hosts differ shows no cause, and nothing that
-- was recorded could speak against it. It says where to look first if one of the
-- findings it touches is there. A host that tells nothing of a setting is told as such.
--
-- grain:  setting, setting_value
-- reads:  host, host_setting
-- caveat: ids of PCIe slots are compared as they are: hosts of another build differ
--
-- columns:
--   topic         VARCHAR           what kind of setting: system, cpu, memory, clock,
--                                   gpu, library or environment
--   setting       VARCHAR           what is set; of a library its path
--   setting_value VARCHAR           one of the values; not told: the host says nothing
--   host_count    BIGINT     count  hosts that have it
--   host_names    VARCHAR[]         which
--   meaning       VARCHAR           what it is that differs, in words
--   touches       VARCHAR[]         findings that it may have to do with

with touched (topic, touches) as (
    values
    ('system', ['finding_straggler', 'finding_run_queue']),
    ('cpu', ['finding_straggler', 'finding_run_queue']),
    ('memory', ['finding_straggler']),
    ('clock', ['finding_straggler']),
    ('gpu', ['finding_straggler']),
    ('library', ['finding_straggler']),
    ('environment', ['finding_straggler'])
),

known as (
    select distinct
        topic,
        setting
    from host_setting
),

told as (
    select
        s.topic,
        s.setting,
        h.host_name,
        coalesce(v.setting_value, 'not told') as setting_value
    from known as s
    cross join host as h
    left join host_setting as v on s.setting = v.setting and h.host_id = v.host_id
),

counted as (
    select
        topic,
        setting,
        setting_value,
        count(*) as host_count,
        list_sort(list(host_name)) as host_names
    from told
    group by topic, setting, setting_value
)

select
    c.topic,
    c.setting,
    c.setting_value,
    c.host_count,
    c.host_names,
    case
        when c.topic <> 'library' then c.topic || ' setting'
        when bool_or(c.setting_value = 'not told') over same
            then 'not loaded on every host'
        else 'same path, different file'
    end as meaning,
    t.touches
from counted as c
inner join touched as t on c.topic = t.topic
window same as (partition by c.setting)
qualify count(*) over same > 1
