"""The select of the view ``finding``, with places for what the headers say.

The rules are those of the module ``verdict``, one a common table expression.
"""

from __future__ import annotations

TEMPLATE = """\
with need (finding, stream, is_required) as (
    values
        {needs}
),

-- what the files say
said as materialized (
{said}
),

-- who gets a verdict: every subject, and whoever a file speaks of beside them
listed as (
{subjects}
),

asked as materialized (
    select
        finding,
        subject_kind,
        subject_id,
        any_value(host_id) as host_id,
        any_value(rank) as rank
    from (
        select finding, subject_kind, subject_id, host_id, rank from listed
        union all
        select s.finding, s.subject_kind, s.subject_id, s.host_id, s.rank
        from said as s
        anti join listed as l
            on
                s.finding = l.finding
                and s.subject_kind = l.subject_kind
                and s.subject_id = l.subject_id
    )
    group by finding, subject_kind, subject_id
),

-- evidence that no capture of this format can hold
gap as (
    select
        finding,
        subject_kind,
        subject_id,
        list(distinct reason order by reason) as gap_reasons
    from (
{gaps}
    )
    group by finding, subject_kind, subject_id
),

-- state of each stream on each host, and (host NULL) on all of them together
seen as (
    select
        host_id,
        stream,
        case
            when bool_and(state in ('absent', 'silent')) then 'missing'
            when bool_and(state = 'observed') then 'observed'
            else 'partial'
        end as state,
        string_agg(distinct reason, '; ' order by reason) filter (
            state <> 'observed' and reason is not null
        ) as reason
    from coverage
    group by grouping sets ((host_id, stream), (stream))
),

-- each subject's evidence, stream by stream; no row of coverage is no evidence
evidence as (
    select
        a.finding,
        a.subject_kind,
        a.subject_id,
        n.stream,
        n.is_required,
        coalesce(s.state, 'missing') as state,
        coalesce(
            s.reason,
            n.stream || ': ' || coalesce(nullif(s.state, 'missing'), '{not_recorded}')
        ) as reason
    from asked as a
    inner join need as n on a.finding = n.finding
    left join seen as s
        on a.host_id is not distinct from s.host_id and n.stream = s.stream
),

judged as materialized (
    select
        finding,
        subject_kind,
        subject_id,
        bool_or(is_required and state = 'missing') as is_missing,
        bool_or(is_required and state <> 'observed') as is_incomplete,
        coalesce(list(stream order by stream) filter (
            is_required and state <> 'observed'
        ), []) as wanted_streams,
        coalesce(list(reason order by stream) filter (
            state <> 'observed'
        ), []) as lacking
    from evidence
    group by finding, subject_kind, subject_id
),

-- a found row beats one that could not decide, of which one is enough
ranked as (
    select
        *,
        verdict is not distinct from 'found' as is_found,
        bool_or(verdict is not distinct from 'found') over subject as has_found,
        row_number() over (subject order by window_from_ns) as row_in_subject
    from said
    window subject as (partition by finding, subject_kind, subject_id)
),

answer as (
    select r.*
    from ranked as r
    anti join judged as j
        on
            r.finding = j.finding
            and r.subject_kind = j.subject_kind
            and r.subject_id = j.subject_id
            and j.is_missing
    where r.is_found or (not r.has_found and r.row_in_subject = 1)
),

decided as (
    select
        a.finding,
        case
            when j.is_missing then 'not_observed'
            when f.is_found then 'found'
            when g.finding is not null then 'not_observed'
            when f.finding is not null or j.is_incomplete then 'not_decidable'
            else 'clear'
        end as verdict,
        a.subject_kind,
        a.subject_id,
        a.host_id,
        a.rank,
        f.* exclude (
            finding, verdict, subject_kind, subject_id, host_id, rank
        ),
        j.is_missing,
        j.is_incomplete,
        j.wanted_streams,
        j.lacking,
        coalesce(g.gap_reasons, []) as gap_reasons,
        f.finding is not null as is_said
    from asked as a
    inner join judged as j
        on
            a.finding = j.finding
            and a.subject_kind = j.subject_kind
            and a.subject_id = j.subject_id
    left join gap as g
        on
            a.finding = g.finding
            and a.subject_kind = g.subject_kind
            and a.subject_id = g.subject_id
    left join answer as f
        on
            a.finding = f.finding
            and a.subject_kind = f.subject_kind
            and a.subject_id = f.subject_id
),

worded as (
    select
        *,
        is_said and verdict in ('found', 'not_decidable') as is_from_file
    from decided
)

{select}"""
