"""The report as text of 80 columns, and as one JSON object.

Names of processes and files are hostile text: no control character of theirs acts.
"""

from __future__ import annotations

import itertools
import json
import os
import textwrap
from typing import TYPE_CHECKING

from capture import installation
from capture.doctor.row import OK
from capture.show import plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from capture.doctor.examination import Report
    from capture.doctor.row import Row

_WIDTH = 80
_INDENT = 10


def as_json(report: Report) -> str:
    """Return the report for a program."""
    system = os.uname()
    whole = {
        "created_by": installation.created_by(),
        "host": {
            "host_name": system.nodename,
            "architecture": system.machine,
            "kernel_release": system.release,
        },
        "verdict": report.verdict.as_json(),
        "rows": [row.as_json() for row in report.rows],
        "capability_sets": [found.as_json() for found in report.sets],
    }
    return json.dumps(whole, indent=1, allow_nan=False) + "\n"


def as_text(report: Report) -> str:
    """Return the report for a reader."""
    system = os.uname()
    lines = [f"{plain(system.nodename)}, {system.machine}, Linux {system.release}", ""]
    for family, rows in itertools.groupby(report.rows, key=lambda row: row.family):
        lines.append(family)
        for row in rows:
            lines += _row_lines(row)
        lines.append("")
    lines.append("capabilities that are enough for")
    for found in report.sets:
        lines.append(f"  {found.enough_for}:")
        lines += _wrapped(", ".join(found.capabilities), 4)
    lines += ["", f"verdict: {report.verdict.sentence}"]
    for name, reason in report.verdict.reasons.items():
        state = report.verdict.states[name]
        lines += _wrapped(f"{name} ({state}): {plain(reason)}", 2)
    return "\n".join(lines) + "\n"


def _row_lines(row: Row) -> Iterator[str]:
    """Yield a row; what is fine takes its sentence alone."""
    who = row.capability if row.pid is None else f"{row.capability} of {row.pid}"
    text = f"{who}: {plain(row.sentence)}"
    head = f"  {row.state:<{_INDENT - 2}}"
    yield from textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=head,
        subsequent_indent=" " * _INDENT,
        break_on_hyphens=False,
    )
    if row.state != OK:
        yield from _wrapped(f"for: {plain(row.needed_for)}", _INDENT)
        if row.advice:
            yield from _wrapped(f"do: {plain(row.advice)}", _INDENT)


def _wrapped(text: str, indent: int) -> list[str]:
    pad = " " * indent
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=pad,
        subsequent_indent=pad + "  ",
        break_on_hyphens=False,
    )
