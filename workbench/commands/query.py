"""``coldtrace query``: any SQL on a case, which is open read-only."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import polars as pl

import workbench.analysis  # noqa: F401 -- registers the models, which the views read
from workbench.commands.exit_code import ExitCode, UsageError
from workbench.commands.output import FORMATS, emit
from workbench.errors import ViewError
from workbench.store import sql_tree
from workbench.store.case import open_case
from workbench.store.materialize import keep
from workbench.store.views import Library, open_library

if TYPE_CHECKING:
    import argparse

    from workbench.store.case import Case

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
        library = open_library(case)
        frame = ask(case, library, sql)
    emit(frame, args.format)
    return ExitCode.OK


def ask(case: Case, library: Library, sql: str) -> pl.DataFrame:
    """Return the rows of a query, with the kept views it reads held for it.

    Raises
    ------
    UsageError
        If DuckDB refuses the query.
    """
    try:
        tree = sql_tree.parse(case.connection, sql, view="query")
        keep(library, tree.reads(library.macros, library.views))
    except ViewError:
        pass  # describe, show and the like are no selects, and DuckDB knows them
    try:
        relation = case.connection.sql(sql)
        return pl.DataFrame() if relation is None else pl.DataFrame(relation)
    except duckdb.Error as error:
        first, *rest = str(error).splitlines()
        hint = next((line for line in rest if line.startswith("Did you mean")), None)
        raise UsageError(first, hint=hint) from error


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
