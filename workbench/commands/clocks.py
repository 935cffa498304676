"""``coldtrace clocks``: how each host's clock relates to the others, and how surely."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

import workbench.analysis  # noqa: F401 -- registers the models, which the views read
from workbench.commands.exit_code import ExitCode
from workbench.commands.output import FORMATS, PAGE_WIDTH, emit, plain
from workbench.store.case import open_case
from workbench.store.own_views import open_library

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from workbench.store.case import Case

NAME = "clocks"
HELP = "print each host's clock offset, drift and band, and how they are known"
EXAMPLES = (
    "coldtrace clocks late.duckdb",
    "coldtrace clocks late.duckdb --format json",
    'coldtrace query late.duckdb "from clock_last"',
)

SUMMARY = """
    with jump as (
        select
            host_id,
            coalesce(list(jump_ns order by from_ns) filter (kind = 'step'), [])
                as step_ns,
            coalesce(list(jump_ns order by from_ns) filter (kind = 'suspend'), [])
                as suspend_ns
        from model.clock_jump
        group by host_id
    ),
    late as (
        select
            host_id,
            list(distinct shift order by shift) filter (shift is not null) as shifts,
            list(distinct state order by state) filter (shift is null) as unmatched
        from model.late_attach
        group by host_id
    )
    select
        s.*,
        coalesce(j.step_ns, []) as step_ns,
        coalesce(j.suspend_ns, []) as suspend_ns,
        coalesce(l.shifts, []) as late_attach_shifts,
        coalesce(l.unmatched, []) as late_attach_unmatched
    from model.clock_summary as s
    left join jump as j on s.host_id = j.host_id
    left join late as l on s.host_id = l.host_id
    order by s.host_name, s.host_id, s.segment
"""
JUMPS = "select * from model.clock_jump order by from_ns"
LATE = """
    select host_id, state, shift, reason, count(*) as process_count
    from model.late_attach
    group by all
    order by all
"""
CONTRADICTIONS = "select * from model.clock_contradiction order by contradiction_id"

UNITS = ((1e9, "s", 6), (1e6, "ms", 3), (1e3, "us", 1))
"""Divisor, unit and digits of a length of time, the largest first."""

LABEL_WIDTH = 9


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("case", metavar="CASE", type=Path, help="case to read")
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default="table",
        help="how to print the rows (default: table)",
    )


def run(args: argparse.Namespace) -> int:
    """Print one row a host; as a table, one paragraph."""
    with open_case(args.case) as case:
        open_library(case)
        summary = case.frame(SUMMARY)
        lines = list(report(case)) if args.format == "table" else []
    if args.format == "table":
        sys.stdout.writelines(line + "\n" for line in lines)
    else:
        emit(summary, args.format)
    return ExitCode.OK


def report(case: Case) -> Iterator[str]:
    """Return the lines that tell a person about every clock of a case."""
    summary, jumps, late = (case.frame(sql) for sql in (SUMMARY, JUMPS, LATE))
    if summary.is_empty():
        yield "no hosts in this case"
        return
    for number, host in enumerate(summary.iter_rows(named=True)):
        if number:
            yield ""
        yield from _paragraph(host)
        is_host = pl.col("host_id") == host["host_id"]
        if host["segment"] == 0:
            for jump in jumps.filter(is_host).iter_rows(named=True):
                yield from _wrapped(jump["kind"], _jumped(jump))
            for attached in late.filter(is_host).iter_rows(named=True):
                yield from _wrapped("late", _attached(attached))
    yield from _groups(summary)
    for each in case.frame(CONTRADICTIONS).iter_rows(named=True):
        yield ""
        yield from _wrapped("against", _contradicted(each))


def _jumped(jump: dict[str, Any]) -> str:
    if jump["kind"] == "suspend":
        slept = length(jump["jump_ns"])
        return f"the host slept for {slept}; its clock is cut there"
    way = "forward" if jump["jump_ns"] > 0 else "back"
    by = length(abs(jump["jump_ns"]))
    return f"the wall clock was set {way} by {by}; no event is on it, nothing moves"


def _attached(late: dict[str, Any]) -> str:
    of = f"recorder came late, {late['process_count']} communicators of its processes"
    if late["shift"] is None:
        return f"{of} are not matched ({late['state']}): {late['reason']}"
    return f"{of} count {late['shift']} calls later ({late['state']}): {late['reason']}"


def _groups(summary: pl.DataFrame) -> Iterator[str]:
    """Return what says that not all times can be compared, where it is so."""
    names: dict[int, list[str]] = {}
    for host in summary.iter_rows(named=True):
        names.setdefault(host["clock_group_id"], []).append(_name(host))
    if len(names) > 1:
        listed = "; ".join(", ".join(each) for each in names.values())
        yield ""
        yield from _wrapped(
            "groups", f"times of these {len(names)} cannot be compared: {listed}"
        )


def _contradicted(each: dict[str, Any]) -> str:
    by = length(each["excess_ns"])
    first, *others = each["host_names"]
    if each["kind"] == "rendezvous":
        return (
            f"the rendezvous of {' and '.join(each['host_names'])} contradict one "
            f"another by {by}, whatever their clocks did"
        )
    other = f"those of {others[0]} and the rendezvous" if others else "one another"
    return (
        f"{first}'s statements about its wall clock were dropped: they contradict "
        f"{other} by {by}"
    )


def _name(host: dict[str, Any]) -> str:
    part = f", part {host['segment']}" if host["segment"] else ""
    return f"{host['host_name'] or host['host_id']}{part}"


def _paragraph(host: dict[str, Any]) -> Iterator[str]:
    yield plain(_name(host))
    if host["state"] in ("alone", "contradicted"):
        yield from _wrapped("state", f"{host['state']}: {host['reason']}")
        return
    if host["state"] == "reference":
        yield from _wrapped("state", "reference: cluster time is this host's own")
        yield from _wrapped("from", _sources(host))
        return
    places = ("start", "middle", "end")
    offsets = [length(host[f"offset_{place}_ns"], sign=True) for place in places]
    bands = [f"+-{length(host[f'error_{place}_ns'])}" for place in places]
    yield _columns("", ["at start", "in the middle", "at the end"])
    yield _columns("offset", offsets)
    yield _columns("band", bands)
    yield from _wrapped("drift", f"{drift(host)} of the offset")
    yield from _wrapped("from", _sources(host))
    reason = f": {host['reason']}" if host["reason"] else ""
    yield from _wrapped("state", f"{host['state']}{reason}")


def drift(host: dict[str, Any]) -> str:
    """Return the mean rate of a clock against the reference, with its error, in ppm.

    The offset lies in its band at both ends of the matched interval, so its mean change
    is off by at most the two half-widths over the length of the interval.
    """
    matched_ns = max(host["to_ns"] - host["from_ns"], 1)
    error = (host["error_start_ns"] + host["error_end_ns"]) / matched_ns
    return f"{host['rate'] * 1e6:+.1f} +-{error * 1e6:.1f} ppm"


def _sources(host: dict[str, Any]) -> str:
    last = host["last_ratio"]
    came = "" if last is None else f", last to arrive at {last:.0%} of them"
    wander = f"; wander {host['wander_ppb'] / 1e3:g} ppm allowed"
    of = f"; cluster time is {host['reference_name']}'s"
    if host["state"] == "reference":
        wander = of = ""
    what = host["method"] if host["state"] != "reference" else "rendezvous"
    counted = "packets" if what == "packets" else "rendezvous"
    how = "" if what == counted else f" ({what})"
    met = f"{host['constraint_count']:,} {counted} with other hosts"
    return f"{met}{how}{came}{wander}{of}"


def _columns(label: str, cells: list[str]) -> str:
    padded = "".join(f"{cell:>22}" for cell in cells)
    return f"  {label:<{LABEL_WIDTH}}{padded}".rstrip()


def _wrapped(label: str, text: str) -> list[str]:
    return textwrap.wrap(
        plain(text),
        PAGE_WIDTH,
        initial_indent=f"  {label:<{LABEL_WIDTH}}",
        subsequent_indent=" " * (LABEL_WIDTH + 2),
    )


def length(nanoseconds: int, *, sign: bool = False) -> str:
    """Return a length of time with the unit that suits it."""
    show = "+" if sign else ""
    for divisor, unit, digits in UNITS:
        if abs(nanoseconds) >= divisor:
            return f"{nanoseconds / divisor:{show},.{digits}f} {unit}"
    return f"{nanoseconds:{show}d} ns"
