"""``coldtrace clocks``: how each host's clock relates to the others, and how surely."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import workbench.analysis  # noqa: F401 -- registers the models, which the views read
from workbench.commands.exit_code import ExitCode
from workbench.commands.output import FORMATS, PAGE_WIDTH, emit, plain
from workbench.store.case import open_case
from workbench.store.own_views import open_library

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    import polars as pl

NAME = "clocks"
HELP = "print each host's clock offset, drift and band, and how they are known"
EXAMPLES = (
    "coldtrace clocks late.duckdb",
    "coldtrace clocks late.duckdb --format json",
    'coldtrace query late.duckdb "from clock_last"',
)

SUMMARY = "select * from model.clock_summary order by host_name, host_id, segment"
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
        contradictions = case.frame(CONTRADICTIONS)
    if args.format == "table":
        sys.stdout.writelines(line + "\n" for line in report(summary, contradictions))
    else:
        emit(summary, args.format)
    return ExitCode.OK


def report(summary: pl.DataFrame, contradictions: pl.DataFrame) -> Iterator[str]:
    """Return the lines that tell a person about every clock."""
    if summary.is_empty():
        yield "no hosts in this case"
        return
    for number, host in enumerate(summary.iter_rows(named=True)):
        if number:
            yield ""
        yield from _paragraph(host)
    for each in contradictions.iter_rows(named=True):
        yield ""
        yield from _wrapped(
            "against",
            f"the rendezvous of {' and '.join(each['host_names'])} contradict one "
            f"another by {length(each['excess_ns'])}, whatever their clocks did",
        )


def _paragraph(host: dict[str, Any]) -> Iterator[str]:
    part = f", part {host['segment']}" if host["segment"] else ""
    yield plain(f"{host['host_name'] or host['host_id']}{part}")
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
    return f"{host['constraint_count']:,} rendezvous with other hosts{came}{wander}{of}"


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
