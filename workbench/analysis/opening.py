"""The public way into a case: open for reading, every view current, one's own there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import workbench.analysis  # noqa: F401 -- registers the models, which the views read
from workbench.store import case
from workbench.store.views import open_library

if TYPE_CHECKING:
    from pathlib import Path


def open_case(path: Path | str) -> case.Case:
    """Return the case at `path`, open for reading, with the user's own views.

    Raises
    ------
    CaseError
        If there is none, it is no case, another process has it open for writing, or it
        holds rows of another version of the models.
    ViewError
        If a view of the library does not hold.
    """
    opened = case.open_case(path)
    try:
        open_library(opened)
    except BaseException:
        opened.close()
        raise
    return opened
