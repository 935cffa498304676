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

The rows are kept in the case: they are few, everybody reads them, and binding the views
of all findings takes longer than any of their answers on a small case.

A subject gets one row, except where its file found several windows.  Of several rows
that say ``not_decidable`` one is kept, and none beside a found one.  A row of a file
whose subject the subject view does not know is kept and judged by its own host, since a
finding must not get lost for want of a fact.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from workbench.errors import ViewHeaderError
from workbench.store.finding_schema import (
    COLUMNS,
    FILE_COLUMNS,
    GAP_COLUMNS,
    LISTS,
    SUBJECT_COLUMNS,
)
from workbench.store.verdict_sql import TEMPLATE

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
        [_gap_rows(file, views) for file in files if file.header.gap] or [_NO_GAP]
    )
    body = TEMPLATE.format(
        needs=_needs(files),
        subjects=textwrap.indent(subjects, "    "),
        said=textwrap.indent(said, "    "),
        gaps=textwrap.indent(gaps, "        "),
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
        "-- materialize: yes\n"
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


def _gap_rows(file: View, views: Mapping[str, View]) -> str:
    gap = views.get(file.header.gap or "")
    if gap is None or tuple(column.name for column in gap.columns) != GAP_COLUMNS:
        raise ViewHeaderError(
            f"its gap must be a view with the columns {', '.join(GAP_COLUMNS)}",
            view=file.name,
            line=1,
        )
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
