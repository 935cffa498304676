"""A query saved as a view of the user's own: its file with its header, made from it.

What a header must say is taken from the query: the columns from its result, their
meaning and unit from the views it reads, and the grain from theirs where it still tells
the rows of this case apart.  The file is written only if the view holds every rule.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import duckdb

from workbench.errors import ViewError, ViewHeaderError
from workbench.store import materialize, own_views, sql_tree, view_rules
from workbench.store.catalogue import quote
from workbench.store.header import COLUMN_NAME, promised_unit
from workbench.store.views import make_view

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from workbench.store.case import Case
    from workbench.store.header import Column
    from workbench.store.views import Library, View

VIEW_NAME = re.compile(r"[a-z][a-z0-9_]*")
UNKNOWN = "as the query gives it"
"""Meaning of a column that no view it reads has."""


def save_view(
    case: Case,
    name: str,
    sql: str,
    doc: str,
    *,
    grain: Sequence[str] = (),
    replace: bool = False,
) -> Path:
    """Write a query as a view of the user's own, and make it one of this session.

    The case itself is not touched: the view is temporary in it, and there again in
    every case that is opened later, from its file.

    Parameters
    ----------
    case
        Open case that answers the query.
    name
        Name of the view: small letters, digits and underscores.
    sql
        One select.
    doc
        What a row is, in one sentence; more sentences become notes.
    grain
        Columns that tell the rows apart; found if not given.
    replace
        Whether a file of that name may be replaced.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    ViewError
        If the name is taken or is none, the query is no select or breaks a rule of the
        library, or the file is there.
    """
    library = case.library or own_views.open_library(case)
    known = library.views.get(name)
    _check_name(name, known)
    body = sql.strip().rstrip(";").rstrip()
    tree = sql_tree.parse(case.connection, body, view=name)
    reads = sorted(tree.reads(library.macros, library.views))
    layer = own_views.lowest_layer(library, reads)
    path = own_views.own_folder() / layer / f"{name}.sql"
    if not replace and (known is not None or path.exists()):
        place = path if known is None else known.path
        raise ViewError(
            f"{place} is there", view=name, hint="save_view(..., replace=True)"
        )
    types = _types(library, name, body)
    grain = grain or _grain(library, body, reads, list(types))
    lines = [*_prose(doc), f"grain: {', '.join(grain)}", f"reads: {', '.join(reads)}"]
    lines += ["", "columns:", *_column_lines(library, reads, types)]
    header = "\n".join(f"-- {line}".rstrip() for line in lines)
    text = f"{header}\n\n{body}\n"
    view = make_view(case.connection, name, layer, text, is_own=True, path=path)
    case.library = _tried(library, view)
    _write(path, text, known)
    return path


def _check_name(name: str, known: View | None) -> None:
    if not VIEW_NAME.fullmatch(name):
        raise ViewError(
            "is no name of a view",
            view=name,
            hint="use small letters, digits and underscores",
        )
    if known is not None and not known.is_own:
        raise ViewError("the library has a view of that name", view=name)


def _tried(library: Library, view: View) -> Library:
    """Return the library with the view, which was created and holds every rule.

    Raises
    ------
    ViewError
        If it does not; then a view that it would have replaced stands again.
    """
    others = [
        each
        for each in library.views.values()
        if each.is_own and each.name != view.name
    ]
    ours = library.without_own()
    more = ours.extended([*others, view])
    before = library.views.get(view.name)
    try:
        materialize.create_temporary(more, view)
        faults = view_rules.faults_of(more, view)
        if faults:
            raise faults[0]
    except ViewError:
        materialize.drop_temporary(library.connection, view.name)
        if before is not None:
            materialize.create_temporary(library, before)
        raise
    return more


def _write(path: Path, text: str, known: View | None) -> None:
    """Write the file; one that lies in another layer goes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    if known is not None and known.path is not None and known.path != path:
        known.path.unlink(missing_ok=True)


def _types(library: Library, name: str, body: str) -> dict[str, str]:
    """Return the type of each column of the query."""
    try:
        relation = library.connection.sql(body)
    except duckdb.Error as error:
        raise ViewError(str(error).splitlines()[0], view=name) from error
    for column in relation.columns:
        if not COLUMN_NAME.fullmatch(column):
            raise ViewHeaderError(
                f"column {column!r} is no name of a column",
                view=name,
                hint="name it: ... as row_count",
            )
    return dict(zip(relation.columns, map(str, relation.types), strict=True))


def _prose(doc: str) -> list[str]:
    """Return the first sentence, and the others as notes."""
    purpose, _, notes = doc.strip().partition(". ")
    lines = [f"{purpose.rstrip('.')}.", ""]
    return [*lines, *notes.strip().splitlines(), ""] if notes.strip() else lines


def _grain(
    library: Library, body: str, reads: Sequence[str], columns: list[str]
) -> Sequence[str]:
    """Return the first grain of what is read that still tells the rows apart."""
    for grain in [library.views[n].grain for n in reads if n in library.views]:
        if not grain or not set(grain) <= set(columns):
            continue
        keys = ", ".join(map(quote, grain))
        found = library.connection.execute(
            f"select count(*), count(distinct ({keys})) from ({body})"
        ).fetchall()
        if found[0][0] == found[0][1]:
            return grain
    return columns


def _column_lines(
    library: Library, reads: Sequence[str], types: dict[str, str]
) -> list[str]:
    known: dict[str, Column] = {}
    for read in reads:
        for column in library.views[read].columns if read in library.views else ():
            known.setdefault(column.name, column)
    width = max(map(len, types))
    lines: list[str] = []
    for name, kind in types.items():
        column = known.get(name)
        unit = column.unit if column else promised_unit(name)
        meaning = column.meaning if column else UNKNOWN
        lines.append(f"  {name:<{width}}  {kind:<9}  {unit or '':<5}  {meaning}")
    return lines
