"""The public way into a case: open for reading, every view current, one's own there."""

from __future__ import annotations

from pathlib import Path

import workbench.analysis  # noqa: F401 -- registers the models, which the views read
from workbench.store import case
from workbench.store.own_views import open_library


def open_case(path: Path | str, *, library: Path | str | None = None) -> case.Case:
    """Return the case at `path`, open for reading, with the user's own views.

    Parameters
    ----------
    path
        Case file.
    library
        Folder of a site's views, beside the user's own.

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
        open_library(opened, [] if library is None else [Path(library)])
    except BaseException:
        opened.close()
        raise
    return opened
