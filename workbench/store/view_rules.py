"""The rules of the house for every view file, checked against what the file does.

Loading a case needs none of this: it creates what the files say.  ``coldtrace views
--check`` and the test of every view ask here, and get all faults in one run.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import duckdb

from workbench.errors import ViewError, ViewHeaderError
from workbench.store import verdict
from workbench.store.finding_schema import FILE_COLUMNS
from workbench.store.header import PURPOSE_LENGTH

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workbench.store.views import Library, View

LINE_COUNT = 120
PREFIXES = {"staging": "stg_", "finding": "finding_"}


def faults(library: Library) -> list[ViewError]:
    """Return every breach of a rule in a library whose views exist, in order."""
    return [
        fault
        for key in library.order
        if key in library.views
        for fault in faults_of(library, library.views[key])
    ]


def faults_of(library: Library, view: View) -> list[ViewError]:
    """Return every breach of a rule by one view, which exists in the database."""
    checks = (_form, _name, _reads, _layer, _streams, _finding, _columns)
    return [fault for check in checks for fault in check(library, view)]


def _fault(view: View, message: str, field: str | None = None) -> ViewHeaderError:
    return ViewHeaderError(message, view=view.name, line=_line_of(view, field))


def _line_of(view: View, field: str | None) -> int:
    """Return the line where a field of the header begins, else the first."""
    lines = view.text.splitlines()
    return next(
        (at for at, line in enumerate(lines, 1) if line.startswith(f"-- {field}:")), 1
    )


def _form(library: Library, view: View) -> Iterator[ViewError]:
    del library
    if len(view.header.purpose) > PURPOSE_LENGTH:
        yield _fault(
            view,
            f"the first sentence has {len(view.header.purpose)} characters, and "
            f"{PURPOSE_LENGTH} are allowed",
        )
    for name in _needed(view) - view.header.declared:
        yield _fault(view, f"no field {name!r}")
    declared = {column.name for column in view.columns}
    for name in view.grain:
        if name not in declared:
            yield _fault(view, f"grain names {name}, which is no column", "grain")
    count = len(view.body.splitlines())
    if count > LINE_COUNT and not _is_generated(view):
        yield _fault(view, f"a select of {count} lines, and {LINE_COUNT} are allowed")


def _needed(view: View) -> set[str]:
    """Return the fields that a file must have; findings share grain and columns."""
    if view.layer == "model":
        return {"grain", "columns"}
    if view.header.has_shared_columns:
        return {"reads", "columns"}
    return {"grain", "reads", "columns"}


def _is_generated(view: View) -> bool:
    return view.name == verdict.FINDING


def _name(library: Library, view: View) -> Iterator[ViewError]:
    del library
    prefix = PREFIXES.get(view.layer, "")
    plain = view.name.removeprefix("_")
    if not plain.startswith(prefix) and not _is_generated(view):
        yield _fault(view, f"a view of the layer {view.layer} begins with {prefix}")
    for layer, other in PREFIXES.items():
        if layer != view.layer and plain.startswith(other):
            yield _fault(view, f"only a view of the layer {layer} begins with {other}")
    if not re.fullmatch(r"[a-z][a-z0-9_]*", plain):
        yield _fault(view, "a name has small letters, digits and underscores")


def _reads(library: Library, view: View) -> Iterator[ViewError]:
    if view.tree is None:
        yield from _model_reads(library, view)
        return
    actual = library.reads(view.name)
    declared = set(view.header.reads)
    if "reads" in view.header.declared and declared != actual:
        unsaid = ", ".join(sorted(actual - declared)) or "nothing"
        unread = ", ".join(sorted(declared - actual)) or "nothing"
        yield _fault(
            view,
            f"reads {unsaid} without saying so, and says it reads {unread} "
            "which it does not",
            "reads",
        )
    for name in sorted(view.tree.ctes & library.views.keys()):
        yield _fault(view, f"the common table expression {name} hides a view")


def _model_reads(library: Library, view: View) -> Iterator[ViewError]:
    """Compare what the file of a table says that its model reads, if it does."""
    for writer in library.feeds(f"model.{view.name}"):
        actual = library.reads(writer)
        if "reads" in view.header.declared and set(view.header.reads) != actual:
            yield _fault(view, f"its model reads {', '.join(sorted(actual))}", "reads")


def _layer(library: Library, view: View) -> Iterator[ViewError]:
    key = f"model.{view.name}" if view.layer == "model" else view.name
    reads = library.reads(key)
    raw = sorted(name for name in reads if name.startswith("raw."))
    if view.layer == "staging" and (len(raw) != 1 or len(reads) != 1):
        yield _fault(view, "a staging view reads one raw table and nothing else")
    if view.layer != "staging" and raw:
        yield _fault(view, f"only staging reads raw tables, and this reads {raw[0]}")
    for name in sorted(reads - set(raw)):
        if name not in library.views:
            yield _fault(view, f"reads {name}, which does not exist")
        elif library.layer_of(name) > library.layer_of(key):
            yield _fault(view, f"reads {name} of a layer above its own")


def _streams(library: Library, view: View) -> Iterator[ViewError]:
    header = view.header
    declared = set(header.requires) | set(header.uses)
    both = set(header.requires) & set(header.uses)
    if both:
        yield _fault(view, f"both requires and uses {', '.join(both)}", "requires")
    if _is_generated(view) or (view.layer != "finding" and not declared):
        return
    key = f"model.{view.name}" if view.layer == "model" else view.name
    actual = set(library.streams(key))
    if header.gap in library.views:
        actual |= library.streams(header.gap)
    pseudo = {verdict.PSEUDO_STREAM} if header.gap else set()
    if declared - pseudo != actual:
        yield _fault(
            view,
            f"its reads lead to the streams {', '.join(sorted(actual)) or 'none'}, "
            f"and it declares {', '.join(sorted(declared)) or 'none'}",
            "requires",
        )


def _finding(library: Library, view: View) -> Iterator[ViewError]:
    del library
    header = view.header
    if view.layer != "finding" or _is_generated(view):
        for name in ("subject", "gap"):
            if name in header.declared:
                yield _fault(view, f"only a finding has the field {name!r}", name)
        return
    if header.subject is None:
        yield _fault(view, "a finding must name its subject", "subject")
    if header.columns and header.columns != FILE_COLUMNS:
        wanted = [(each.name, each.type) for each in FILE_COLUMNS]
        if [(each.name, each.type) for each in header.columns] != wanted:
            yield _fault(view, "its columns are not those of a finding", "columns")


def _columns(library: Library, view: View) -> Iterator[ViewError]:
    schema = "model." if view.layer == "model" else ""
    try:
        described = library.connection.execute(
            f'describe {schema}"{view.name}"'
        ).fetchall()
    except duckdb.Error as error:
        yield ViewError(str(error).splitlines()[0], view=view.name)
        return
    actual = [(row[0], row[1]) for row in described]
    declared = [(column.name, column.type) for column in view.columns]
    if actual == declared:
        return
    for said, given in zip(declared, actual, strict=False):
        if said != given:
            yield _fault(
                view,
                f"declares {' '.join(said)} where its select gives {' '.join(given)}",
                "columns",
            )
            return
    yield _fault(
        view,
        f"declares {len(declared)} columns, and its select gives {len(actual)}",
        "columns",
    )
