"""Stand a few views of the library over a case, without building the rest of it.

A whole library takes seconds to build; a test that asks one entity view of a small case
needs only what that view reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench.store.case import open_case
from workbench.store.catalogue import quote
from workbench.store.views import Library

if TYPE_CHECKING:
    from pathlib import Path

    from tests.builders import CaseBuilder, HostBuilder, ThreadBuilder
    from workbench.store.case import Case


def stand(
    made: CaseBuilder | HostBuilder | ThreadBuilder, folder: Path, *views: str
) -> Case:
    """Return the loaded case with these views, and those they read, as temporary ones.

    A model that they stand on is empty, as before anything was computed.
    """
    with made.build(folder, library=False) as built:
        path = built.path
    assert path is not None
    return stand_on(open_case(path, read_only=False), *views)


def stand_on(case: Case, *views: str) -> Case:
    """Return a case that is open with these views, as :func:`stand` does."""
    library = Library(case)
    case.connection.execute("create schema if not exists model")
    for node in library.closure(views):
        if node.startswith("model:"):
            continue
        view = library.views[node]
        if view.layer == "model":
            columns = ", ".join(f"{each.name} {each.type}" for each in view.columns)
            case.connection.execute(f"create table model.{view.name} ({columns})")
        else:
            case.connection.execute(f"create temp view {quote(node)} as {view.body}")
    return case


def rows(case: Case, sql: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query."""
    return case.frame(sql).rows()
