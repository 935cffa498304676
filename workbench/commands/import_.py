"""``coldtrace import``: files of other tools into a case, which is made or added to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import workbench.analysis  # noqa: F401 -- registers the models, which the build runs
from workbench.commands.exit_code import ExitCode, UsageError
from workbench.commands.load import LoadBar
from workbench.commands.output import narrate
from workbench.importers import MODULES, importer
from workbench.store.case import Case, open_case
from workbench.store.imports import ImportReport, import_files
from workbench.store.views import build_library

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

NAME = "import"
HELP = "import files of other tools into a case"
EXAMPLES = (
    "coldtrace import ops.duckdb straggler-ops trace-AR.parquet",
    "coldtrace import tcp.duckdb tcp-pairs tcp_events.csv",
    'coldtrace query ops.duckdb "from stg_imported_file"',
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    kinds = "; ".join(f"{kind}: {importer(kind).HELP}" for kind in MODULES)
    parser.add_argument(
        "case", metavar="CASE", type=Path, help="case to make or add to"
    )
    parser.add_argument(
        "kind", metavar="KIND", choices=tuple(MODULES), help=f"what they are. {kinds}"
    )
    parser.add_argument(
        "files", metavar="FILE", nargs="+", type=Path, help="file of that kind"
    )


def run(args: argparse.Namespace) -> int:
    """Import all files or none, build the views, and say it in one line."""
    report = import_into(args.case, args.kind, args.files)
    for path in report.known:
        narrate(f"{path}: imported before, nothing to add", kind="note")
    narrate(f"wrote {args.case}: {report.row_count:,} rows imported")
    return ExitCode.OK


def import_into(path: Path, kind: str, files: Sequence[Path]) -> ImportReport:
    """Import files into the case at `path` and return what happened.

    A new case appears under its name when all is imported.

    Raises
    ------
    UsageError
        If a file does not exist.
    """
    for file in files:
        if not file.is_file():
            raise UsageError(f"{file} is not a file")
    case = open_case(path, read_only=False) if path.exists() else Case.create(path)
    with case, LoadBar() as bar:
        report = import_files(case, importer(kind), files, bar)
        build_library(case, lambda view: bar(f"view {view}", 0, 0))
    return report
