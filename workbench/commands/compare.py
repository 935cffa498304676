"""``coldtrace compare``: whether a job got slower, by how much, where, and how surely.

Two runs, or two groups of hosts of one run.  With three runs a side or more the
interval comes from the runs; else from blocks of steps, and what makes one run differ
from the next for no reason is not in it: the threshold must cover that.

The exit code is 1 if the gate fails, which is if the lower bound of the change lies
above the threshold; with ``--strict`` also if there are too few steps for any bound.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.analysis.comparison import outcome
from workbench.analysis.comparison.sides import Run, read_run
from workbench.analysis.opening import open_case
from workbench.commands.compare_text import headline, report
from workbench.commands.exit_code import ExitCode, UsageError
from workbench.commands.output import FORMATS, emit, narrate
from workbench.commands.publish import new_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from workbench.analysis.comparison.outcome import Comparison

NAME = "compare"
HELP = "say whether a job got slower between runs, or between hosts, and where"
EXAMPLES = (
    "coldtrace compare lastweek.duckdb today.duckdb",
    "coldtrace compare --base monday/ --case a.duckdb b.duckdb c.duckdb",
    "coldtrace compare late.duckdb --group hosta,hostb --against hostc",
)

PERCENT = 100


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "cases",
        metavar="BASE CASE",
        nargs="*",
        type=Path,
        help="the case to compare with, and the one that is compared",
    )
    for name, meaning in (("base", "runs to compare with"), ("case", "runs compared")):
        parser.add_argument(
            f"--{name}",
            metavar="CASE",
            nargs="+",
            type=Path,
            help=f"{meaning}: cases, or folders of *.duckdb files",
        )
    parser.add_argument(
        "--group", metavar="HOSTS", help="hosts of one case, a comma between them"
    )
    parser.add_argument(
        "--against", metavar="HOSTS", help="hosts of that case to compare them with"
    )
    parser.add_argument(
        "--threshold",
        metavar="PERCENT",
        type=_percent,
        default=outcome.DEFAULT_THRESHOLD,
        help="slowdown from which the gate fails "
        f"(default: {outcome.DEFAULT_THRESHOLD * PERCENT:g})",
    )
    parser.add_argument(
        "--strict",
        action="store_true",
        help="fail the gate as well where there are too few steps to tell",
    )
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default="table",
        help="table is the verdict to read, the others give a row a part "
        "(default: table)",
    )
    parser.add_argument(
        "--report", metavar="HTML", type=Path, help="write a report as one page, too"
    )
    parser.add_argument("--force", action="store_true", help="write HTML anew")


def _write_report(path: Path, comparison: Comparison, *, force: bool) -> None:
    # Drawing is imported here: a comparison without a report does not wait for it.
    from workbench.commands.compare_report import build  # noqa: PLC0415
    from workbench.report import page  # noqa: PLC0415

    with new_file(path, force=force) as hidden:
        hidden.write_text(page.render(build(comparison)), encoding="utf-8")
    narrate(f"wrote {path}")


def _percent(text: str) -> float:
    value = float(text.removesuffix("%"))
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"must be 0 or more, not {text}")
    return value / PERCENT


def run(args: argparse.Namespace) -> int:
    """Compare, print, and fail where the gate does."""
    is_of_groups = args.group is not None or args.against is not None
    base, case = _groups(args) if is_of_groups else _runs(args)
    _say_what_is_left_out((*base, *case))
    comparison = outcome.compare(
        base, case, threshold=args.threshold, is_of_groups=is_of_groups
    )
    if args.report is not None:
        _write_report(args.report, comparison, force=args.force)
    if args.format == "table":
        sys.stdout.writelines(line + "\n" for line in report(comparison))
    else:
        narrate(headline(comparison))
        emit(outcome.frame_of(comparison), args.format)
    return _code(comparison, is_strict=args.strict)


def _code(comparison: Comparison, *, is_strict: bool) -> ExitCode:
    failing = {outcome.FAILED, *([outcome.NOT_DECIDABLE] if is_strict else [])}
    return ExitCode.GATE_FAILED if comparison.gate in failing else ExitCode.OK


def _groups(args: argparse.Namespace) -> tuple[list[Run], list[Run]]:
    """Return the two groups of hosts of one case."""
    if args.base or args.case or len(args.cases) != 1:
        raise UsageError("groups of hosts are compared within one case")
    if args.group is None or args.against is None:
        raise UsageError(
            "both groups of hosts are needed",
            hint="coldtrace compare CASE --group HOSTS --against HOSTS",
        )
    group, against = _names(args.group), _names(args.against)
    both = sorted(set(group) & set(against))
    if both:
        raise UsageError(f"{both[0]} is in both groups")
    with open_case(args.cases[0]) as case:
        return [read_run(case, hosts=against)], [read_run(case, hosts=group)]


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise UsageError("a group of hosts needs at least one name")
    return names


def _runs(args: argparse.Namespace) -> tuple[list[Run], list[Run]]:
    """Return the runs of both sides, from two cases or from many."""
    if args.base or args.case:
        if args.cases or not (args.base and args.case):
            raise UsageError(
                "both sides are needed",
                hint="coldtrace compare --base CASE... --case CASE...",
            )
        base, case = list(_files(args.base)), list(_files(args.case))
    else:
        if len(args.cases) != 2:  # noqa: PLR2004 -- two sides
            raise UsageError(
                f"two cases are compared, not {len(args.cases)}",
                hint="coldtrace compare BASE CASE, or --base CASE... --case CASE...",
            )
        base, case = (list(_files([path])) for path in args.cases)
    return [_read(path) for path in base], [_read(path) for path in case]


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        found = sorted(path.glob("*.duckdb"))
        if not found:
            raise UsageError(
                f"no *.duckdb file in {path}",
                hint="load bundles first: coldtrace load CASE BUNDLE...",
            )
        yield from found


def _read(path: Path) -> Run:
    with open_case(path) as case:
        return read_run(case)


def _say_what_is_left_out(runs: Sequence[Run]) -> None:
    for each in runs:
        if each.other_jobs:
            narrate(
                f"{each.name}: job {each.job_id} is compared, and not "
                f"{', '.join(each.other_jobs)}",
                kind="note",
            )
        if each.left_out_count:
            narrate(
                f"{each.name}: {each.left_out_count} steps that not every rank shows "
                "are left out",
                kind="note",
            )
