"""The view ``finding``: one verdict for every finding and every subject.

A finding file says only what it found, or that it cannot decide.  Everything else
follows from the headers and from ``coverage``, in SQL that is generated here, so that
no author can turn missing evidence into an all-clear:

- a required stream that no capture of the subject's host observed: ``not_observed``,
  and whatever the file says is not used;
- ``found``: stands; where a required stream is partial, its confidence is one step
  lower;
- a row of the file's ``gap`` view for the subject: ``not_observed`` with its reason,
  for evidence that no capture of this format can hold;
- ``not_decidable``, or any other word of the file: ``not_decidable``;
- no row, a required stream partial: ``not_decidable``;
- no row, every required stream observed: ``clear``.

A stream of a host is taken as missing if every row of coverage for it is ``absent`` or
``silent`` or if there is none, as observed if every row is ``observed``, else as
partial: two captures of one host, one of them without the stream, prove nothing for the
whole time. A subject that is no single host (``host_id`` NULL, the job) is judged by
the rows of all hosts in the same way.

A subject gets one row, except where its file found several windows.  Of several rows
that say ``not_decidable`` one is kept, and none beside a found one.  A row of a file
whose subject the subject view does not know is kept and judged by its own host, since a
finding must not get lost for want of a fact.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from workbench.errors import ViewHeaderError
from workbench.store.finding_schema import COLUMNS, FILE_COLUMNS, LISTS, SUBJECT_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from workbench.store.views import View

FINDING = "finding"
COVERAGE = "coverage"
SUBJECT = "subject"
PSEUDO_STREAM = "gpu_kernel"
"""Stream that no capture of format 1 holds; a finding speaks of it through its gap."""

NOT_RECORDED = "not in any capture of this case"


def generate(views: Mapping[str, View]) -> str:
    """Return the text of the view file ``finding`` for these views."""
    files = [view for view in views.values() if view.layer == "finding"]
    if not files or COVERAGE not in views:
        return _header([]) + "\n" + _empty() + "\n"
    subjects = "\n\nunion all\n\n".join(_subject_rows(file, views) for file in files)
    said = "\n\nunion all\n\n".join(_said_rows(file) for file in files)
    gaps = "\n\nunion all\n\n".join(
        [_gap_rows(file) for file in files if file.header.gap] or [_NO_GAP]
    )
    body = _TEMPLATE.format(
        needs=_needs(files),
        subjects=textwrap.indent(subjects, "    "),
        said=textwrap.indent(said, "    "),
        gaps=textwrap.indent(gaps, "    "),
        not_recorded=NOT_RECORDED,
        select=_last_select(),
    )
    return _header(_reads(files, views)) + "\n" + body


def _reads(files: Iterable[View], views: Mapping[str, View]) -> list[str]:
    reads = {COVERAGE}
    for file in files:
        reads |= {file.name, _subject_view(file, views)}
        if file.header.gap:
            reads.add(file.header.gap)
    return sorted(reads)


def _header(reads: list[str]) -> str:
    columns = "\n".join(
        f"--   {each.name:<20} {each.type:<10} {each.unit or '':<3}  {each.meaning}"
        for each in COLUMNS
    )
    listed = textwrap.fill(
        ", ".join(reads),
        width=88,
        initial_indent="-- reads:  ",
        subsequent_indent="--         ",
    )
    return (
        "-- Verdict of every finding on every subject: generated, not written.\n"
        "--\n"
        "-- grain:  finding, subject_kind, subject_id, window_from_ns\n"
        f"{listed if reads else '-- reads:'}\n"
        "-- caveat: made from the headers of the finding files and coverage.\n"
        "--\n"
        f"-- columns:\n{columns}\n"
    )


def _empty() -> str:
    rows = ",\n".join(f"    null::{each.type} as {each.name}" for each in COLUMNS)
    return f"select\n{rows}\nwhere false"


def _needs(files: Iterable[View]) -> str:
    for file in files:
        if not file.header.requires:
            raise ViewHeaderError(
                "a finding must say which streams it requires", view=file.name, line=1
            )
    rows = [
        f"('{file.name}', '{stream}', {is_required})"
        for file in files
        for names, is_required in (
            (file.header.requires, "true"),
            (file.header.uses, "false"),
        )
        for stream in sorted(names)
    ]
    return ",\n        ".join(rows)


def _subject_view(file: View, views: Mapping[str, View]) -> str:
    """Return the view that lists a finding's subjects.

    A header names an entity view.  One that gives ``subject_kind`` and ``subject_id``
    itself is read as it is; of any other kind the view ``subject`` holds the rows.
    """
    named = file.header.subject or SUBJECT
    view = views.get(named)
    has_subjects = view is not None and any(
        column.name == "subject_id" for column in view.columns
    )
    return named if has_subjects else SUBJECT


def _subject_rows(file: View, views: Mapping[str, View]) -> str:
    view = _subject_view(file, views)
    where = (
        f"\nwhere subject_kind = '{file.header.subject}'"
        if view == SUBJECT and file.header.subject not in (None, SUBJECT)
        else ""
    )
    return (
        f"select\n    '{file.name}' as finding,\n    subject_kind,\n    subject_id,\n"
        f"    host_id,\n    rank\nfrom {view}{where}"
    )


def _said_rows(file: View) -> str:
    columns = ",\n    ".join(column.name for column in FILE_COLUMNS)
    return f"select\n    '{file.name}' as finding,\n    {columns}\nfrom {file.name}"


def _gap_rows(file: View) -> str:
    return (
        f"select\n    '{file.name}' as finding,\n    subject_kind,\n    subject_id,\n"
        f"    stream || ': ' || reason as reason\nfrom {file.header.gap}"
    )


def _last_select() -> str:
    """Return the select that words the verdicts, in the order of `COLUMNS`."""
    special = {
        "confidence": _CONFIDENCE,
        "not_checked": _NOT_CHECKED,
        "next_step": _NEXT_STEP,
    }
    lines: list[str] = []
    for column in COLUMNS:
        name = column.name
        if name in ("finding", "verdict", *SUBJECT_COLUMNS):
            lines.append(name)
        elif name in special:
            lines.append(f"{special[name]} as {name}")
        elif name in LISTS:
            lines.append(f"case when is_from_file then {name} else [] end as {name}")
        else:
            lines.append(f"case when is_from_file then {name} end as {name}")
    return "select\n    " + ",\n    ".join(lines) + "\nfrom worded\n"


_CONFIDENCE = """\
case
        when verdict <> 'found' then null
        when not is_incomplete then confidence
        when confidence = 'high' then 'medium'
        else 'low'
    end"""

_NOT_CHECKED = """\
list_sort(list_distinct(
        coalesce(not_checked, [])
        || lacking
        || case when verdict = 'not_observed' then gap_reasons else [] end
    ))"""

_NEXT_STEP = """\
case
        when is_from_file then next_step
        when is_incomplete
            then 'record ' || array_to_string(wanted_streams, ', ') || ' there'
    end"""

_NO_GAP = """\
select
    null::varchar as finding,
    null::varchar as subject_kind,
    null::varchar as subject_id,
    null::varchar as reason
where false"""

_TEMPLATE = """\
with need (finding, stream, is_required) as (
    values
        {needs}
),

-- what the files say
said as (
{said}
),

-- who gets a verdict: every subject, and whoever a file speaks of beside them
listed as (
{subjects}
),

asked as (
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

judged as (
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
