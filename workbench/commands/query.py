"""``coldtrace query``: any SQL on a case, which is open read-only."""

from __future__ import annotations

import itertools
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
from workbench.store.catalogue import quote
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


TEXT_TYPES = (
    "BIGNUM",
    "BIT",
    "INTERVAL",
    "TIME WITH TIME ZONE",
    "TIMESTAMP_NS",
    "UHUGEINT",
    "UNION",
    "VARIANT",
)
"""Types of DuckDB that a frame cannot hold as they are."""


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
        return pl.DataFrame() if relation is None else frame_of(relation)
    except duckdb.Error as error:
        first, *rest = str(error).splitlines()
        hint = next((line for line in rest if line.startswith("Did you mean")), None)
        raise UsageError(first, hint=hint) from error


def frame_of(relation: duckdb.DuckDBPyRelation) -> pl.DataFrame:
    """Return the rows of any relation, whatever its types and names.

    A frame has no form for some of DuckDB's types, or a wrong one (a large UHUGEINT
    arrives as -1, a time without its zone), so these come as text.  Columns of the same
    name get a number.
    """
    columns: list[str] = []
    names: list[str] = []
    for at, (name, kind) in enumerate(
        zip(relation.columns, relation.types, strict=True), start=1
    ):
        free = _free_name(name, names)
        names.append(free)
        cast = "::varchar" if any(word in str(kind) for word in TEXT_TYPES) else ""
        columns.append(f"#{at}{cast} as {quote(free)}")
    return pl.DataFrame(relation.project(", ".join(columns)))


def _free_name(name: str, taken: list[str]) -> str:
    """Return a name as it is, or with the first number that makes it another."""
    numbered = (f"{name}_{number}" for number in itertools.count(1))
    return next(each for each in itertools.chain([name], numbered) if each not in taken)


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
