"""``coldtrace export``: a window, hosts or ranks of a case, for other tools.

``perfetto`` is one file, a trace.  ``parquet``, ``csv`` and ``arrow`` are a folder with
one file a view, and ``tables.json`` which says what they mean.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING

import workbench.analysis  # noqa: F401 -- registers the models, which the views read
from workbench.commands.exit_code import ExitCode, UsageError
from workbench.commands.output import narrate, progress
from workbench.commands.publish import new_file, new_folder
from workbench.exporters import spans
from workbench.exporters.perfetto import export_perfetto
from workbench.exporters.selection import Scope, Selection, resolve
from workbench.exporters.tables import FORMATS, INDEX, chosen_views, export_tables
from workbench.store.case import open_case
from workbench.store.own_views import open_library

if TYPE_CHECKING:
    from workbench.store.case import Case
    from workbench.store.views import Library

NAME = "export"
HELP = "write a window, hosts or ranks of a case for other tools"
EXAMPLES = (
    "coldtrace export late.duckdb perfetto -o late.pftrace --from 2 --to 4",
    "coldtrace export late.duckdb parquet -o tables/ --host hostb",
    "coldtrace export late.duckdb csv -o rank5/ --rank 5 --table step_work",
)

PERFETTO = "perfetto"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("case", metavar="CASE", type=Path, help="case to read")
    parser.add_argument(
        "format",
        choices=(PERFETTO, *FORMATS),
        help="perfetto is one file, the others a folder with one file a view",
    )
    parser.add_argument(
        "-o", "--output", metavar="PATH", type=Path, required=True, help="what to write"
    )
    window = "of what touches the window, in seconds since the case's origin"
    parser.add_argument(
        "--from", metavar="T", dest="from_s", type=_seconds, help=f"begin {window}"
    )
    parser.add_argument(
        "--to", metavar="T", dest="to_s", type=_seconds, help=f"end {window}"
    )
    parser.add_argument(
        "--host",
        metavar="H",
        action="append",
        default=[],
        help="host by name or id; may be repeated",
    )
    parser.add_argument(
        "--rank",
        metavar="R",
        action="append",
        default=[],
        type=int,
        help="rank, of every job; may be repeated",
    )
    parser.add_argument(
        "--table",
        metavar="VIEW",
        action="append",
        default=[],
        help="view to write; may be repeated (default: all that coldtrace views lists)",
    )
    parser.add_argument("--force", action="store_true", help="write PATH anew")


def _seconds(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"not a time: {text}")
    return number


def run(args: argparse.Namespace) -> int:
    """Write what was asked for, and say in one line what it is."""
    if args.format == PERFETTO and args.table:
        raise UsageError("--table is for parquet, csv and arrow")
    selection = Selection(
        from_s=args.from_s,
        to_s=args.to_s,
        hosts=tuple(args.host),
        ranks=tuple(args.rank),
    )
    with open_case(args.case) as case:
        library = open_library(case)
        scope = resolve(case, selection)
        if args.format == PERFETTO:
            what = _trace(case, scope, args.output, force=args.force)
        else:
            what = _tables(case, library, scope, args)
    narrate(f"wrote {args.output}: {what}")
    return ExitCode.OK


def _trace(case: Case, scope: Scope, path: Path, *, force: bool) -> str:
    with (
        new_file(path, force=force) as hidden,
        hidden.open("wb") as out,
        progress(spans.count(case, scope), "spans") as bar,
    ):
        count = export_perfetto(case, scope, out, progress=bar.update)
    return f"{count:,} spans"


def _tables(
    case: Case, library: Library, scope: Scope, args: argparse.Namespace
) -> str:
    views = chosen_views(library, args.table)

    with (
        new_folder(args.output, mark=INDEX, force=args.force) as hidden,
        progress(len(views), "views") as bar,
    ):
        rows = export_tables(
            case,
            scope,
            views,
            fmt=args.format,
            folder=hidden,
            progress=lambda: bar.update(1),
        )
    return f"{len(views)} {args.format} files, {rows:,} rows"
