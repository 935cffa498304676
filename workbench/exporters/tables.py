"""Views as files: Parquet, CSV or Arrow IPC, one file a view, and what they mean.

Rows go from DuckDB to the file as a stream of Arrow batches, in the order of the view's
grain, so that the same case gives the same bytes.  ``tables.json`` beside them says of
each file what its view and its columns mean, their units, and how it was narrowed; a
Parquet file carries the same in its own metadata under the key ``coldtrace``, the two
other formats have no place for it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import polars as pl

import workbench
from workbench.errors import QueryError
from workbench.exporters.csv_text import guarded, restored
from workbench.exporters.selection import SECOND, Scope, narrow_view
from workbench.store.catalogue import key_of, public_views, quote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from workbench.store.case import Case
    from workbench.store.header import Column
    from workbench.store.views import Library, View

    Progress = Callable[[], object]

FORMATS = ("parquet", "csv", "arrow")
INDEX = "tables.json"
"""File that describes the others."""

TIMES = (
    "columns whose meaning says 'host MONOTONIC' count on that host's own clock; "
    "ts_ns and *_ts_ns are cluster time, true to within the error beside them"
)
CSV_RULES = (
    "empty: NULL; quoted empty: an empty text; a text that begins with = + - @ or ' "
    "has an apostrophe before it; control characters and the backslash are \\xNN or "
    "\\uNNNN; lists are JSON"
)


def export_tables(
    case: Case,
    scope: Scope,
    views: Sequence[View],
    *,
    fmt: str,
    folder: Path,
    progress: Progress,
) -> int:
    """Write views as files into `folder` and return the number of rows.

    Parameters
    ----------
    case
        Open case.
    scope
        What of it.
    views
        Views to write.
    fmt
        One of `FORMATS`.
    folder
        Empty folder to write into.
    progress
        Called when a view is written.
    """
    tables: list[dict[str, Any]] = []
    for view in views:
        tables.append(_write(case, scope, view, fmt=fmt, folder=folder))
        progress()
    index = {**description(scope), "tables": tables}
    if fmt == "csv":
        index["text"] = CSV_RULES
    text = json.dumps(index, indent=1, ensure_ascii=True)
    (folder / INDEX).write_text(text + "\n", encoding="utf-8")
    return sum(table["row_count"] for table in tables)


def chosen_views(library: Library, names: Sequence[str]) -> list[View]:
    """Return the views of these names, or all that are no internals.

    Raises
    ------
    QueryError
        If there is none of that name.
    """
    if not names:
        return public_views(library)
    missing = [name for name in names if name not in library.views]
    if missing:
        raise QueryError(
            f"no view is called {missing[0]}", hint="coldtrace views lists them"
        )
    return [library.views[name] for name in dict.fromkeys(names)]


def description(scope: Scope) -> dict[str, Any]:
    """Return what is true of every file of one export."""
    ends = {"from_s": scope.from_ns, "to_s": scope.to_ns}
    window = {
        name: None if at is None else (at - scope.origin_ns) / SECOND
        for name, at in ends.items()
    }
    return {
        "made_by": f"coldtrace {workbench.__version__}",
        "origin_ns": str(scope.origin_ns),
        "window": window,
        "host_ids": scope.host_ids,
        "ranks": scope.ranks,
        "times": TIMES,
    }


def _write(
    case: Case, scope: Scope, view: View, *, fmt: str, folder: Path
) -> dict[str, Any]:
    """Write one view and return its entry of the index."""
    narrowed = narrow_view(scope, key_of(view), view.columns)
    file = folder / f"{key_of(view)}.{fmt}"
    order = ", ".join(quote(name) for name in view.grain)
    sql = f"{narrowed.sql} order by {order}" if order else narrowed.sql
    entry: dict[str, Any] = {
        "file": file.name,
        "view": key_of(view),
        "purpose": view.header.purpose,
        "notes": view.header.notes,
        "caveat": view.header.caveat,
        "grain": view.grain,
        "narrowed_by": narrowed.by,
        "columns": [_column(column) for column in view.columns],
    }
    relation = case.connection.sql(sql)
    rows = pl.scan_arrow_c_stream(relation)
    if fmt == "parquet":
        told = json.dumps({**description(scope), **entry}, ensure_ascii=True)
        rows.sink_parquet(file, metadata={"coldtrace": told})
    elif fmt == "csv":
        rows.with_columns(_cells(view.columns)).sink_csv(file)
    else:
        rows.sink_ipc(file, compression="zstd")
    return {**entry, "row_count": row_count(file, fmt)}


def _column(column: Column) -> dict[str, str | None]:
    return {
        "name": column.name,
        "type": column.type,
        "unit": column.unit,
        "meaning": column.meaning,
    }


def _cells(columns: Iterable[Column]) -> list[pl.Expr]:
    """Return the expressions of the columns that CSV does not hold as they are."""
    lists = [column.name for column in columns if column.type.endswith("[]")]
    texts = [column.name for column in columns if column.type == "VARCHAR"]
    return [*map(_json_cell, lists), *map(guarded, texts)]


def _json_cell(name: str) -> pl.Expr:
    return pl.col(name).map_elements(
        lambda values: json.dumps(list(values), ensure_ascii=True),
        return_dtype=pl.String,
    )


POLARS_TYPES: dict[str, pl.DataType] = {
    "BIGINT": pl.Int64(),
    "INTEGER": pl.Int32(),
    "SMALLINT": pl.Int16(),
    "UTINYINT": pl.UInt8(),
    "DOUBLE": pl.Float64(),
    "VARCHAR": pl.String(),
    "BOOLEAN": pl.Boolean(),
}


def read_csv(file: Path, columns: Sequence[dict[str, Any]]) -> pl.DataFrame:
    """Return the rows of a CSV file of ours, by the columns of its index entry."""
    types = {column["name"]: column["type"] for column in columns}
    lists = {name: type_[:-2] for name, type_ in types.items() if type_.endswith("[]")}
    schema = {
        name: pl.String() if name in lists else POLARS_TYPES[type_]
        for name, type_ in types.items()
    }
    texts = [name for name, type_ in types.items() if type_ == "VARCHAR"]
    decoded = [
        pl.col(name).str.json_decode(pl.List(POLARS_TYPES[type_]))
        for name, type_ in lists.items()
    ]
    frame = pl.read_csv(file, schema=schema)
    return frame.with_columns(*map(restored, texts), *decoded)


def row_count(file: Path, fmt: str) -> int:
    """Return how many rows a file holds, by reading it."""
    scans = {"parquet": pl.scan_parquet, "csv": pl.scan_csv, "arrow": pl.scan_ipc}
    return scans[fmt](file).select(pl.len()).collect().item()
