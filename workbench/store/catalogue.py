"""What the library says about itself: comments in the database, and a page a view.

All of it comes from the headers, so there is one place to write and none to forget.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import duckdb

from workbench.errors import ViewError, ViewHeaderError
from workbench.store.finding_schema import FILE_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workbench.store.views import Library, View

READING_ORDER = (
    "staging",
    "entity",
    "interval",
    "measure",
    "finding",
    "model",
    "answer",
)


def quote(name: str) -> str:
    """Return a name as an SQL identifier."""
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def literal(text: str) -> str:
    """Return a text as an SQL string."""
    escaped = text.replace("'", "''")
    return f"'{escaped}'"


def describe(connection: duckdb.DuckDBPyConnection, view: View, relation: str) -> None:
    """Write a view's header into the database, as comments on it and its columns.

    Raises
    ------
    ViewHeaderError
        If the view does not give a column that its header declares.
    """
    kind = "table" if view.layer == "model" else "view"
    statements = [f"comment on {kind} {relation} is {literal(view.header.purpose)}"]
    statements += [
        f"comment on column {relation}.{quote(each.name)} is {literal(each.comment)}"
        for each in view.columns
    ]
    try:
        connection.execute(";\n".join(statements))
    except duckdb.Error as error:
        raise ViewHeaderError(
            f"declares a column that it does not give: {str(error).splitlines()[0]}",
            view=view.name,
        ) from error


def public_views(library: Library) -> list[View]:
    """Return the views that are no internals, by layer and name."""
    shown = [view for view in library.views.values() if not view.name.startswith("_")]
    return sorted(shown, key=lambda view: (READING_ORDER.index(view.layer), view.name))


def key_of(view: View) -> str:
    """Return the name under which SQL reads a view or a model's table."""
    return f"model.{view.name}" if view.layer == "model" else view.name


def facts_of(library: Library, view: View) -> Iterator[tuple[str, str]]:
    """Return the fields of a view that are there, in the order of reading."""
    header, key = view.header, key_of(view)
    yield "grain", ", ".join(view.grain)
    reads = library.reads(key) or frozenset(header.reads)
    if view.layer == "model":
        for writer in library.feeds(key):
            reads = library.reads(writer)
    lists = {
        "reads": sorted(reads),
        "read by": [name.removeprefix("model:") for name in library.read_by(key)],
        "requires": header.requires,
        "uses": header.uses,
    }
    for name, values in lists.items():
        if values:
            yield name, ", ".join(values)
    if header.materialize:
        yield "kept", "its rows are stored in the case"
    if header.exclusive:
        yield "exclusive", "rows of one key never overlap"
    for name in ("subject", "gap", "caveat", "source", "since"):
        value = getattr(header, name)
        if value:
            yield name, value


def view_of(library: Library, name: str) -> View:
    """Return the view, or the table of a model, of that name.

    Raises
    ------
    ViewError
        If there is none.
    """
    view = library.views.get(name) or library.views.get(f"model.{name}")
    if view is None:
        near = [key for key in library.views if name in key]
        raise ViewError(
            "no such view",
            view=name,
            hint=f"did you mean {', '.join(near[:5])}" if near else None,
        )
    return view


def page(library: Library, name: str) -> str:
    """Return what ``coldtrace views NAME`` prints: the facts, then the file.

    Raises
    ------
    ViewError
        If no view has that name.
    """
    view = view_of(library, name)
    path = str(view.path) if view.path else "generated from the finding files"
    facts = [("file", path), *facts_of(library, view)]
    if view.header.has_shared_columns:
        facts.append(("columns", ", ".join(each.name for each in FILE_COLUMNS)))
    width = max(len(title) for title, _ in facts)
    head = "\n".join(
        textwrap.fill(
            text,
            width=80,
            initial_indent=f"{title:<{width}}  ",
            subsequent_indent=" " * (width + 2),
            break_long_words=False,
            break_on_hyphens=False,
        )
        for title, text in facts
    )
    return f"{head}\n\n{view.text.rstrip()}\n"
