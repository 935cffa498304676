"""Stand a few views of the library over a case, without building the rest of it.

A whole library takes seconds to build; a test that asks one entity view of a small case
needs only what that view reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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

    None of them may stand on a model.
    """
    case = made.build(folder, library=False)
    library = Library(case)
    for node in library.closure(views):
        body = library.views[node].body
        case.connection.execute(f"create temp view {quote(node)} as {body}")
    return case


def rows(case: Case, sql: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query."""
    return case.frame(sql).rows()
