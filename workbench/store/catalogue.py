"""What the library says about itself: database comments, pages and ``sql/README.md``.

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
    from pathlib import Path

    from workbench.store.views import Library, View

WIDTH = 88
LAYER_TITLES = {
    "staging": "Staging: one raw table each, renamed and decoded",
    "entity": "Entities: the things of a case",
    "interval": "Intervals: one span a row, host time",
    "measure": "Measures: one row a subject and step or collective",
    "finding": "Findings: verdicts, all with one schema",
    "model": "Models: tables that Python computes",
}

README_HEAD = """\
# The view library

Every question this project answers is a view, one file each, one bare select each.
Paste a file into any DuckDB shell on a case and it runs. This page is made from the
headers of the files by `coldtrace views --write`, and `coldtrace views --check` fails
when it is not current.

A view reads its own layer and those before it: raw, staging, entity, interval, measure,
finding. Tables of the schema `model` are computed in Python between them. Everything
below measure is in host time (`start_ns`, the MONOTONIC clock of that host); `ts_ns`
is cluster time and always has its error beside it.

Views of your own: `coldtrace views new NAME`. They live in `~/.config/coldtrace/views`
(or the folder that `COLDTRACE_VIEWS` names), appear in every case, and are never
written into one.
"""


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
    layers = list(LAYER_TITLES)
    shown = [view for view in library.views.values() if not view.name.startswith("_")]
    return sorted(shown, key=lambda view: (layers.index(view.layer), view.name))


def key_of(view: View) -> str:
    """Return the name under which SQL reads a view or a model's table."""
    return f"model.{view.name}" if view.layer == "model" else view.name


def readme(library: Library) -> str:
    """Return the text of ``sql/README.md`` for the library's own views."""
    views = [view for view in public_views(library) if not view.is_own]
    parts = [README_HEAD]
    for layer, title in LAYER_TITLES.items():
        members = [view for view in views if view.layer == layer]
        if members:
            parts.append(f"\n## {title}\n")
            parts += [_readme_view(library, view) for view in members]
    if library.macros:
        parts.append("\n## Macros\n")
        parts += [_readme_macro(*item) for item in library.macros.items()]
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


def _readme_view(library: Library, view: View) -> str:
    header = view.header
    lines = [f"### {key_of(view)}", "", header.purpose]
    if header.notes:
        lines += ["", *textwrap.wrap(header.notes, WIDTH)]
    lines += ["", *(f"- {name}: {text}" for name, text in _facts(library, view))]
    if header.has_shared_columns:
        lines += ["", "Columns: those of every finding file; see `finding`."]
    else:
        lines += ["", "| column | type | unit | meaning |", "|---|---|---|---|"]
        lines += [
            f"| {each.name} | {each.type} | {each.unit or ''} | {_cell(each.meaning)} |"
            for each in view.columns
        ]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def _facts(library: Library, view: View) -> Iterator[tuple[str, str]]:
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


def _readme_macro(name: str, text: str) -> str:
    comment = [line[2:].strip() for line in text.splitlines() if line.startswith("--")]
    return f"### {name}\n\n" + "\n".join(comment) + "\n"


def page(library: Library, name: str) -> str:
    """Return what ``coldtrace views NAME`` prints: the facts, then the file.

    Raises
    ------
    ViewError
        If no view has that name.
    """
    view = library.views.get(name) or library.views.get(f"model.{name}")
    if view is None:
        near = [key for key in library.views if name in key]
        raise ViewError(
            "no such view",
            view=name,
            hint=f"did you mean {', '.join(near[:5])}" if near else None,
        )
    path = str(view.path) if view.path else "generated from the finding files"
    facts = [("file", path), *_facts(library, view)]
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


def is_readme_current(library: Library, path: Path) -> bool:
    """Return whether the README on disk is the one the headers make."""
    return path.is_file() and path.read_text(encoding="utf-8") == readme(library)
