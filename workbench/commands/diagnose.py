"""``coldtrace diagnose``: which rank held the others up, why, and how sure that is.

Given bundles or a folder it loads them first: into ``case.duckdb`` beside them, or in
the current directory where that folder is read-only.  A case there that holds exactly
these bundles and is younger than they are is used as it is; one that holds others is
left alone, and a case is made whose name carries a hash of what it was made from.

The exit code is 0 whatever was found, 1 with ``--fail-on found`` if something was, and
else 4 if the bundles were damaged.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import workbench.analysis  # noqa: F401 -- registers the models, which the views read
from workbench.bundle.reader import BundleReader
from workbench.commands import library_option
from workbench.commands.exit_code import ExitCode, UsageError
from workbench.commands.load import load_into, narrate_problems
from workbench.commands.output import FORMATS, emit, narrate
from workbench.commands.verdict_frames import Verdict
from workbench.commands.verdict_text import report
from workbench.errors import BundleError, CaseError
from workbench.store import step_marker
from workbench.store.case import Case, open_case
from workbench.store.load import find_bundles
from workbench.store.own_views import open_library
from workbench.store.problems import NOTES
from workbench.store.views import build_library

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

NAME = "diagnose"
HELP = "say which rank held the others up, and why; loads bundles first if it must"
EXAMPLES = (
    "coldtrace diagnose bundles/",
    "coldtrace diagnose hosta.bundle hostb.bundle --format json > verdict.json",
    "coldtrace diagnose late.duckdb --fail-on found",
)

CASE_NAME = "case.duckdb"
DUCKDB_MAGIC = b"DUCK"
MAGIC_OFFSET = 8
INSTANTS = ("window_from_ns", "window_to_ns")
DEFAULT_TOP = 5

FINDINGS = """
select * from finding
order by
    list_position(['found', 'not_decidable', 'not_observed', 'clear'], verdict),
    finding = 'finding_straggler' desc,
    finding,
    magnitude_ns desc nulls last,
    subject_kind,
    rank,
    subject_id
"""

QUERIES = {
    "findings": FINDINGS,
    "ranks": "select * from rank_summary order by job_id, rank",
    "hosts": "select host_id, host_name from host order by host_name, host_id",
    "victims": """
        select v.job_id, v.rank, v.victim_rank, v.wait_ns, s.subject_id
        from straggler_victim as v
        left join subject as s
            on v.victim_host_id = s.host_id and v.victim_rank = s.rank
        order by v.wait_ns desc, v.victim_rank
    """,
    "causes": "select code, meaning from cause",
    "shares": "select rank, cause, share_ratio from straggler_cause",
    "clocks": "select * from model.clock_summary order by state = 'reference' desc,"
    " host_name, host_id, segment",
    "coverage": """
        select c.host_id, c.stream, c.state, c.reason
        from coverage as c
        where
            c.state <> 'observed'
            and (
                c.stream <> 'gpu_kernel'
                or exists (
                    select 1 from coverage as g
                    where g.stream = 'gpu_call' and g.state in ('observed', 'partial')
                )
            )
        order by c.stream, c.host_id
    """,
    "presence": "select job_id, note from job_presence order by job_id",
    "jobs": "select * from model.what_if_job order by job_id",
    "variances": """
        select * from work_variance
        where operation = 'forward-compute' and between_ratio is not null
        order by job_id, largest_ratio desc
    """,
    "problems": "select kind, path, message from load_problem order by problem_number",
}
"""What the text is made of, by the field of :class:`Verdict`."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "inputs",
        metavar="CASE|BUNDLE|FOLDER",
        nargs="+",
        type=Path,
        help="a case; or bundles, or a folder of *.bundle files",
    )
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default="table",
        help="table is the verdict to read, the others give the rows of "
        "finding (default: table)",
    )
    parser.add_argument(
        "--top",
        metavar="N",
        type=_count,
        default=DEFAULT_TOP,
        help=f"show at most N findings whole (default: {DEFAULT_TOP})",
    )
    parser.add_argument(
        "--step-marker",
        metavar="OPERATION[:COMMUNICATOR]",
        help="the call that ends a step, kept in the case; none: seek steps again",
    )
    library_option.add(parser)
    parser.add_argument(
        "--fail-on",
        choices=("found",),
        help="exit with 1 if something is found",
    )


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {number}")
    return number


def run(args: argparse.Namespace) -> int:
    """Load if needed, then print the verdict."""
    path = args.inputs[0] if _is_case(args.inputs) else case_for(args.inputs)
    if args.step_marker is not None:
        _mark(path, args.step_marker)
    findings, is_damaged = print_verdict(
        path, fmt=args.format, top=args.top, library=args.library
    )
    if args.fail_on == "found" and "found" in findings["verdict"]:
        return ExitCode.GATE_FAILED
    return ExitCode.DAMAGED if is_damaged and not _is_case(args.inputs) else ExitCode.OK


def _mark(path: Path, marker: str) -> None:
    """Store the call that ends a step, and build again what stands on it."""
    with open_case(path, read_only=False) as case:
        step_marker.choose(case, marker)
        build_library(case)


def print_verdict(
    path: Path, *, fmt: str, top: int, library: Sequence[Path] = ()
) -> tuple[pl.DataFrame, bool]:
    """Print the verdict; return the findings, and whether a bundle was damaged."""
    with open_case(path) as case:
        open_library(case, library)
        verdict = gather(case)
        if fmt == "table":
            sys.stdout.writelines(line + "\n" for line in report(verdict, top=top))
        else:
            emit(
                verdict.findings,
                fmt,
                origin_ns=case.origin_ns,
                instants=INSTANTS,
            )
    is_damaged = any(kind not in NOTES for kind in verdict.problems["kind"])
    return verdict.findings, is_damaged


def gather(case: Case) -> Verdict:
    """Return everything the verdict says, read out of the case."""
    frames = {name: case.frame(sql) for name, sql in QUERIES.items()}
    return Verdict(case_path=str(case.path), **frames)


def _is_case(inputs: Sequence[Path]) -> bool:
    """Return whether the input is a case: one file that DuckDB wrote."""
    if len(inputs) != 1 or not inputs[0].is_file():
        return False
    with inputs[0].open("rb") as file:
        head = file.read(MAGIC_OFFSET + len(DUCKDB_MAGIC))
    return head[MAGIC_OFFSET:] == DUCKDB_MAGIC


def case_for(inputs: Sequence[Path]) -> Path:
    """Return a case that holds exactly these bundles, made if there is none.

    Raises
    ------
    UsageError
        If there is no bundle among the inputs.
    """
    for path in inputs:
        if not path.exists():
            raise UsageError(f"{path} does not exist")
    files = find_bundles(inputs)
    if not files:
        raise UsageError(
            f"no *.bundle file in {', '.join(map(str, inputs))}",
            hint="name bundles, or a folder that holds some",
        )
    folder = _folder(inputs[0] if inputs[0].is_dir() else files[0].parent)
    contents = {_identity(path) for path in files}
    for path in (folder / CASE_NAME, folder / f"case-{_hash(files, contents)}.duckdb"):
        if not path.exists():
            return _load(path, files)
        if _holds(path, files, contents):
            narrate(f"using {path}, which holds these bundles")
            return _current(path)
    raise CaseError(
        f"{path} is in the way", hint="remove it, or load with: coldtrace load CASE"
    )


def _load(path: Path, files: Sequence[Path]) -> Path:
    loaded, summary = load_into(path, files)
    narrate_problems(loaded.problems)
    if not loaded.is_any_read:
        raise BundleError(
            "no bundle could be read, nothing was loaded",
            hint="check them with: coldtrace verify BUNDLE...",
        )
    narrate(summary)
    return path


def _current(path: Path) -> Path:
    """Return a case of ours after building what another version left stale in it."""
    try:
        with open_case(path) as case:
            open_library(case)
    except CaseError:
        with open_case(path, read_only=False) as case:
            build_library(case)
    return path


def _folder(beside: Path) -> Path:
    """Return where to put a case: beside the bundles, or here if that is read-only."""
    return beside if os.access(beside, os.W_OK) else Path()


def _identity(path: Path) -> str:
    """Return what names the content of a bundle; of an unreadable file, its place."""
    try:
        with BundleReader.open(path) as reader:
            return reader.sums_sha256 or f"unnamed {path.resolve()}"
    except (BundleError, ExceptionGroup):
        return f"unreadable {path.resolve()}"


def _hash(files: Sequence[Path], contents: set[str]) -> str:
    """Return a short name of these bundles in the state in which they are."""
    states = sorted(f"{p.stat().st_size} {p.stat().st_mtime_ns}" for p in files)
    return hashlib.sha256("\n".join([*sorted(contents), *states]).encode()).hexdigest()[
        :8
    ]


def _holds(path: Path, files: Sequence[Path], contents: set[str]) -> bool:
    """Return whether a case was made from exactly these bundles as they are now."""
    made_ns = path.stat().st_mtime_ns
    if any(file.stat().st_mtime_ns > made_ns for file in files):
        return False
    try:
        with open_case(path) as case:
            rows = case.connection.execute(
                "select content_sha256 from raw.bundle"
            ).fetchall()
    except CaseError:
        return False
    readable = {name for name in contents if not name.startswith("unreadable ")}
    return {name for (name,) in rows} == readable
