"""Views, kept rows and models made current in a case, and nothing made twice.

Every node of the library has a stamp: the hash of its file, of the macros, of the
stamps of all it reads, and, at the bottom, of the set of loaded bundles and files; a
model's stamp holds the source of its package instead of a file.  The stamps of what a
case holds stand in ``mat.stamp``; only what differs is made again.  Nothing else
decides: no clock, no version number, no flag.

In a case that is open read-only a stale view becomes a temporary one.  A stale *model*
cannot: its tables live in the schema ``model``, which the temporary catalogue cannot
have.  Answering from its old rows would be wrong evidence, so that is an error with the
way out.  Kept rows are then not built until somebody asks for the view (`keep`), since
a query on one view must not pay for all.
"""

from __future__ import annotations

import hashlib
import inspect
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from workbench.errors import CaseError, ViewError
from workbench.store.catalogue import describe, quote
from workbench.store.raw_schema import CHOICE_TABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from workbench.store.case import Case
    from workbench.store.models import ModelSpec
    from workbench.store.views import Library, View

STAMP_TABLE = """
create schema if not exists mat;
create schema if not exists model;
create table if not exists mat.stamp (
    name varchar primary key,
    stamp varchar not null,
    row_count bigint,
    seconds double
)
"""

MODEL_NODE = "model:"
ERROR_LINE = re.compile(r"LINE (\d+):")


def build(
    library: Library, case: Case | None, progress: Callable[[str], None] | None = None
) -> None:
    """Make every view, kept table and model of a writable case current."""
    connection = library.connection
    connection.execute(STAMP_TABLE)
    for text in library.macros.values():
        connection.execute(text)
    current = stored_stamps(connection)
    wanted = stamps(library)
    _drop_unknown(library, current)
    _create_model_tables(library, current, wanted)
    for node in library.order:
        if current.get(node) == wanted[node]:
            continue
        if progress:
            progress(node.removeprefix(MODEL_NODE))
        _make(library, case, node, wanted[node])


def _make(library: Library, case: Case | None, node: str, stamp: str) -> None:
    """Make one node and write its stamp; a view in one transaction, for its speed.

    The old stamp goes first and by itself: a model that fails leaves none behind.
    """
    connection = library.connection
    connection.execute("delete from mat.stamp where name = ?", [node])
    begin = time.perf_counter()
    if node.startswith(MODEL_NODE):
        _run_model(library, case, library.models[node.removeprefix(MODEL_NODE)])
        _write_stamp(connection, node, stamp, None, begin)
        return
    connection.begin()
    try:
        view = library.views[node]
        count = None if view.layer == "model" else _create_view(library, view)
        _write_stamp(connection, node, stamp, count, begin)
        connection.commit()
    except BaseException:
        connection.rollback()
        raise


def _write_stamp(
    connection: duckdb.DuckDBPyConnection,
    node: str,
    stamp: str,
    row_count: int | None,
    begin: float,
) -> None:
    seconds = time.perf_counter() - begin
    connection.execute(
        "insert into mat.stamp values (?, ?, ?, ?)", [node, stamp, row_count, seconds]
    )


def _create_view(library: Library, view: View) -> int | None:
    """Create a view, keep its rows if it says so, and return their count."""
    connection = library.connection
    name = quote(view.name)
    row_count = None
    source = view.body
    connection.execute(f"drop table if exists mat.{name}")
    if view.header.materialize:
        _execute(library, view, f"create table mat.{name} as\n", view.body)
        count = connection.execute(f"from mat.{name} select count(*)").fetchall()
        row_count = int(count[0][0])
        source = f"from mat.{name}"
    _execute(library, view, f"create or replace view {name} as\n", source)
    describe(library.connection, view, f"main.{name}")
    return row_count


def _run_model(library: Library, case: Case | None, spec: ModelSpec) -> None:
    if case is None:
        raise CaseError(f"the model {spec.name} needs a case, not a bare connection")
    for table in spec.writes:
        _create_model_table(library, f"model.{table.removeprefix('model.')}")
    spec.run(case)


def _create_model_tables(
    library: Library, current: dict[str, str], wanted: dict[str, str]
) -> None:
    """Create the empty table of every header, so that all views bind.

    A table whose model is current keeps its rows, even if its own stamp was lost in an
    interrupted build.
    """
    for key, view in library.views.items():
        if view.layer != "model":
            continue
        writer = next(iter(library.feeds(key)), key)
        if current.get(writer) != wanted[writer]:
            _create_model_table(library, key)


def _create_model_table(library: Library, key: str) -> None:
    view = library.views.get(key)
    if view is None:
        raise ViewError(f"no file sql/model/{key.removeprefix('model.')}.sql", view=key)
    columns = ", ".join(f"{quote(each.name)} {each.type}" for each in view.columns)
    table = f"model.{quote(view.name)}"
    library.connection.execute(f"create or replace table {table} ({columns})")
    describe(library.connection, view, table)


def _drop_unknown(library: Library, current: dict[str, str]) -> None:
    """Drop what an older library left in the case and this one does not know."""
    for node in current.keys() - set(library.order):
        if node.startswith(MODEL_NODE):
            continue  # a model that is only not registered here may come back
        library.connection.execute("delete from mat.stamp where name = ?", [node])
        if node.startswith("model."):
            table = quote(node.removeprefix("model."))
            library.connection.execute(f"drop table if exists model.{table}")
            continue
        library.connection.execute(f"drop view if exists main.{quote(node)}")
        library.connection.execute(f"drop table if exists mat.{quote(node)}")


def overlay(library: Library) -> list[str]:
    """Create a temporary view for each that the case lacks or holds stale.

    Returns
    -------
    list of str
        Names of the temporary views, in order of creation.

    Raises
    ------
    CaseError
        If rows of a model are stale.
    """
    stale = stale_nodes(library)
    models = [node for node in stale if node.startswith((MODEL_NODE, "model."))]
    if models:
        names = ", ".join(sorted({re.sub("^model[:.]", "", each) for each in models}))
        raise CaseError(
            f"the case holds rows of another version of the models: {names}",
            hint="load it again: coldtrace load CASE BUNDLE...",
        )
    if stale:
        for text in library.macros.values():
            library.connection.execute(
                text.replace("create or replace macro", "create or replace temp macro")
            )
    for node in stale:
        create_temporary(library, library.views[node])
    return stale


def create_temporary(library: Library, view: View) -> None:
    """Create one view for this session; those that it reads must be there."""
    name = quote(view.name)
    _execute(library, view, f"create or replace temp view {name} as\n", view.body)
    describe(library.connection, view, f"temp.main.{name}")


def drop_temporary(connection: duckdb.DuckDBPyConnection, name: str) -> None:
    """Drop a view of this session, so that the case's own answers again, if any."""
    connection.execute(f"drop view if exists temp.main.{quote(name)}")


def keep(library: Library, names: Iterable[str]) -> list[str]:
    """Hold the rows of stale kept views that these views stand on, for this session.

    Returns
    -------
    list of str
        Names of the views whose rows are now held in temporary tables.
    """
    stale = set(stale_nodes(library))
    held: list[str] = []
    for node in library.closure(names):
        if node not in stale or not library.views[node].header.materialize:
            continue
        view = library.views[node]
        table = quote(f"mat_{node}")
        if _is_table(library.connection, f"mat_{node}"):
            continue
        _execute(library, view, f"create temp table {table} as\n", view.body)
        library.connection.execute(
            f"create or replace temp view {quote(node)} as from {table}"
        )
        held.append(node)
    return held


def _is_table(connection: duckdb.DuckDBPyConnection, name: str) -> bool:
    found = connection.execute(
        "select 1 from duckdb_tables() where temporary and table_name = ?", [name]
    ).fetchall()
    return bool(found)


def stale_nodes(library: Library) -> list[str]:
    """Return what the case lacks or holds from other files or bundles, in order."""
    current = stored_stamps(library.connection)
    wanted = stamps(library)
    return [node for node in library.order if current.get(node) != wanted[node]]


def stored_stamps(connection: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """Return the stamps of what a case holds; none if it was never built."""
    try:
        rows = connection.execute("select name, stamp from mat.stamp").fetchall()
    except duckdb.CatalogException:
        return {}
    return dict(rows)


def stamps(library: Library) -> dict[str, str]:
    """Return the stamp of every node as it would be if it were made now.

    A model's table whose model is not registered in this process is taken as it is:
    nobody here could make it again.
    """
    generation = _generation(library.connection)
    raw = {
        f"raw.{table}": _digest(_choice(library.connection, table))
        for table in CHOICE_TABLES
    }
    stored = stored_stamps(library.connection)
    macros = "".join(library.macros.values())
    made: dict[str, str] = {}
    for node in library.order:
        if node.startswith("model.") and node in stored and not library.feeds(node):
            made[node] = stored[node]
            continue
        parts = [macros, _own_text(library, node)]
        parts += [
            f"{name} {made.get(name) or raw.get(name, generation)}"
            for name in sorted(library.reads(node))
        ]
        parts += [made[name] for name in library.feeds(node)]
        made[node] = _digest("\0".join(parts))
    return made


def _own_text(library: Library, node: str) -> str:
    if not node.startswith(MODEL_NODE):
        return library.views[node].text
    spec = library.models[node.removeprefix(MODEL_NODE)]
    tables = [f"model.{table.removeprefix('model.')}" for table in sorted(spec.writes)]
    headers = [library.views[key].text for key in tables if key in library.views]
    return "\0".join([spec.name, _source_of(spec), *headers])


def _source_of(spec: ModelSpec) -> str:
    """Return the source of every module beside a model's: any may be part of it."""
    file = inspect.getsourcefile(inspect.unwrap(spec.run))
    if file is None:
        return ""
    modules = sorted(Path(file).parent.glob("*.py"))
    return "".join(path.read_text(encoding="utf-8") for path in modules)


def _generation(connection: duckdb.DuckDBPyConnection) -> str:
    """Return a hash of the set of loaded bundles and files, whatever their order."""
    bundles = _contents(connection, "select content_sha256 from raw.bundle")
    files = _contents(
        connection, "select kind || ' ' || content_sha256 from raw.imported_file"
    )
    return _digest("\0".join([*bundles, *files]))


def _contents(connection: duckdb.DuckDBPyConnection, sql: str) -> list[str]:
    """Return the names of contents, sorted; none where there is no such table."""
    try:
        rows = connection.execute(sql).fetchall()
    except duckdb.CatalogException:
        return []
    return sorted(row[0] for row in rows)


def _choice(connection: duckdb.DuckDBPyConnection, table: str) -> str:
    """Return what a user chose for the case, as text."""
    rows = _contents(connection, f"select t::varchar from raw.{table} as t")
    return "\0".join(rows)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _execute(library: Library, view: View, head: str, body: str) -> None:
    try:
        library.connection.execute(head + body)
    except duckdb.Error as error:
        raise ViewError(
            _first_line(error), view=view.name, line=_file_line(view, error)
        ) from error


def _first_line(error: duckdb.Error) -> str:
    return str(error).splitlines()[0].strip()


def _file_line(view: View, error: duckdb.Error) -> int | None:
    """Return the line of the file that an error of the select speaks of."""
    found = ERROR_LINE.search(str(error))
    if not found:
        return None
    before = view.text.partition(view.body)[0].count("\n")
    return before + int(found[1]) - 1
