"""``coldtrace load``: bundles into a case, which is made or added to."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Self

import polars as pl

from workbench.analysis import opening  # registers the models, which the load runs
from workbench.commands.exit_code import ExitCode, UsageError
from workbench.commands.output import FORMATS, emit, narrate, progress
from workbench.errors import CaseError
from workbench.store.case import Case, open_case
from workbench.store.load import LoadReport, find_bundles, load_bundles

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from types import TracebackType

    from tqdm import tqdm

    from workbench.store.problems import LoadProblem

NAME = "load"
HELP = "load bundles into a case"
EXAMPLES = (
    "coldtrace load late.duckdb hosta.bundle hostb.bundle",
    "coldtrace load late.duckdb bundles/",
    "coldtrace load late.duckdb bundles/ --format json > problems.json",
)

_SHOWN_PER_KIND = 5
"""Problems of one kind that are narrated one by one; all of them are in the case."""

SCHEMA = {
    "path": pl.String,
    "kind": pl.String,
    "member": pl.String,
    "message": pl.String,
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "case", metavar="CASE", type=Path, help="case to make or add to"
    )
    parser.add_argument(
        "bundles",
        metavar="BUNDLE",
        nargs="+",
        type=Path,
        help="bundle, or folder of *.bundle files",
    )
    parser.add_argument(
        "--format",
        choices=FORMATS,
        help="print what went wrong as rows, to standard output",
    )


def run(args: argparse.Namespace) -> int:
    """Load and say in one line what the case holds now."""
    report, summary = load_into(args.case, args.bundles)
    if args.format is None:
        narrate_problems(report.problems)
    else:
        emit(problem_frame(report.problems), args.format)
    if not report.is_any_read:
        narrate("no bundle could be read, nothing was loaded", kind="error")
        return ExitCode.UNREADABLE
    narrate(summary)
    return ExitCode.DAMAGED if report.is_damaged else ExitCode.OK


def load_into(path: Path, bundles: Sequence[Path]) -> tuple[LoadReport, str]:
    """Load bundles into the case at `path` and return what happened, and in a line.

    A new case appears under its name when all is loaded, and only if something was.
    """
    files = find_bundles(bundles)
    if not files:
        raise UsageError(
            f"no *.bundle file in {', '.join(map(str, bundles))}",
            hint="name bundles, or a folder that holds some",
        )
    is_new = not path.exists()
    case = Case.create(path) if is_new else open_case(path, read_only=False)
    with LoadBar() as bar:
        try:
            report = load_bundles(case, files, progress=bar)
            summary = f"wrote {path}: {_contents(case)}"
        except BaseException:
            case.discard()
            raise
    if is_new and not report.is_any_read:
        case.discard()
    else:
        case.close()
    return report, summary


def load_case(path: Path | str, bundles: Sequence[Path | str]) -> Case:
    """Load bundles into the case at `path` and return it, open for reading.

    For a script or a notebook: it shows its progress and says what went wrong.
    `bundles` are files, or folders that hold some; a case that is not there is made.

    Raises
    ------
    UsageError
        If no bundle is named.
    CaseError
        If none could be read.
    """
    report, summary = load_into(Path(path), [Path(bundle) for bundle in bundles])
    narrate_problems(report.problems)
    if not report.is_any_read:
        raise CaseError("no bundle could be read, nothing was loaded")
    narrate(summary)
    return opening.open_case(path)


class LoadBar:
    """A progress bar a bundle, then the names of the views that are built."""

    def __init__(self) -> None:
        self._label: str | None = None
        self._bar: tqdm[None] | None = None

    def __call__(self, what: str, done: int, total: int) -> None:
        """Show that `done` of `total` of `what` is done."""
        if self._bar is None or what != self._label:
            self.close()
            self._label, self._bar = what, progress(total, what)
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _contents(case: Case) -> str:
    """Return what a case holds: hosts, those without a common clock, the loss."""
    hosts = _number(case, "select count(distinct host_id) from raw.bundle")
    lost = _number(
        case,
        "select 100.0 * sum(lost_count) / greatest(1, sum(row_count + lost_count))"
        " from raw.bundle_stream",
    )
    parts = [f"{hosts:.0f} host{'' if hosts == 1 else 's'}"]
    if case.has_table("model", "clock"):
        unaligned = _number(
            case,
            "select count(distinct host_id) - max(host_count) from (select host_id,"
            " count(distinct host_id) over (partition by clock_group_id) as host_count"
            " from (select distinct host_id, clock_group_id from model.clock))",
        )
        parts.append(f"{unaligned:.0f} unaligned")
    return ", ".join([*parts, f"{lost:.2f} % events lost"])


def _number(case: Case, sql: str) -> float:
    value = case.connection.execute(sql).fetchall()[0][0]
    return 0.0 if value is None else float(value)


def narrate_problems(problems: Sequence[LoadProblem]) -> None:
    """Write problems as lines to standard error, a flood of one kind as its count."""
    counts = Counter(problem.kind for problem in problems)
    shown: Counter[str] = Counter()
    for problem in problems:
        shown[problem.kind] += 1
        if shown[problem.kind] <= _SHOWN_PER_KIND:
            where = "" if problem.path is None else f"{problem.path}: "
            kind = "error" if problem.is_damage else "note"
            narrate(f"{where}{problem.message}", kind=kind)
    for kind, count in counts.items():
        if count > _SHOWN_PER_KIND:
            narrate(
                f"{count - _SHOWN_PER_KIND} more of kind {kind}",
                kind="note",
            )


def problem_frame(problems: Sequence[LoadProblem]) -> pl.DataFrame:
    """Return problems as rows."""
    rows = [(p.path, p.kind, p.member, p.message) for p in problems]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")
