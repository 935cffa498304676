"""``coldtrace query``: any SQL on a case, which is open read-only."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import workbench.analysis  # noqa: F401 -- registers the models, which the views read
from workbench.commands import library_option
from workbench.commands.exit_code import ExitCode, UsageError
from workbench.commands.output import FORMATS, emit
from workbench.store.ask import ask
from workbench.store.case import open_case
from workbench.store.own_views import open_library

if TYPE_CHECKING:
    import argparse

NAME = "query"
HELP = "run SQL on a case and print the rows"
EXAMPLES = (
    "coldtrace query late.duckdb \"from finding where verdict = 'found'\"",
    "coldtrace query late.duckdb -f skew.sql --format csv > skew.csv",
    'echo "from host" | coldtrace query late.duckdb - --format json',
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("case", metavar="CASE", type=Path, help="case to ask")
    parser.add_argument(
        "sql", metavar="SQL", nargs="?", help="a query; - reads it from standard input"
    )
    parser.add_argument(
        "-f", "--file", metavar="FILE", type=Path, help="file that holds the query"
    )
    library_option.add(parser)
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default="table",
        help="how to print the rows (default: table)",
    )


def run(args: argparse.Namespace) -> int:
    """Run the query and print its rows."""
    sql = _sql(args)
    with open_case(args.case) as case:
        frame = ask(case, open_library(case, args.library), sql)
    emit(frame, args.format)
    return ExitCode.OK


def _sql(args: argparse.Namespace) -> str:
    if (args.sql is None) == (args.file is None):
        raise UsageError(
            "a query is needed, either as SQL or by -f FILE",
            hint='coldtrace query CASE "from finding"',
        )
    if args.file is not None:
        text = args.file.read_text(encoding="utf-8")
    else:
        text = sys.stdin.read() if args.sql == "-" else args.sql
    if not text.strip().strip(";"):
        raise UsageError("the query is empty")
    return text
