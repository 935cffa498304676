"""Any SQL on an open case, its rows as a frame, whatever their types and names are."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl

from workbench.errors import QueryError, ViewError
from workbench.store import sql_tree
from workbench.store.catalogue import quote
from workbench.store.materialize import keep

if TYPE_CHECKING:
    from collections.abc import Mapping

    from workbench.store.case import Case
    from workbench.store.views import Library

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


def ask(
    case: Case, library: Library, sql: str, params: Mapping[str, Any] | None = None
) -> pl.DataFrame:
    """Return the rows of a query, with the kept views it reads held for it.

    Parameters
    ----------
    case
        Case to ask.
    library
        Its views, as `open_library` gave them.
    sql
        One statement of any kind that a case open for reading allows.
    params
        Values of its ``$name`` parameters.

    Raises
    ------
    QueryError
        If DuckDB refuses the query.
    """
    try:
        tree = sql_tree.parse(case.connection, sql, view="query")
        keep(library, tree.reads(library.macros, library.views))
    except ViewError:
        pass  # describe, show and the like are no selects, and DuckDB knows them
    try:
        relation = case.connection.sql(sql, params=params or None)
        return pl.DataFrame() if relation is None else frame_of(relation)
    except duckdb.Error as error:
        first, *rest = str(error).splitlines()
        hint = next((line for line in rest if line.startswith("Did you mean")), None)
        raise QueryError(first, hint=hint) from error


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
