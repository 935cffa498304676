"""Views of the user's own: found, tried, and joined to the library one by one.

They lie in the folders that are named, in ``$COLDTRACE_VIEWS`` or in
``~/.config/coldtrace/views``, by the same layers as ours, and one more: ``answer``, for
what reads findings.  They obey the same rules and are temporary, so a case means the
same on every machine.

One view that does not hold costs itself and what stands on it; the rest loads.  None
takes the place of a view of the library: one that has such a name is loaded with
``_own`` behind it, and whoever reads the name gets ours.
"""

from __future__ import annotations

import graphlib
import logging
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.errors import ViewError
from workbench.store import materialize, view_rules
from workbench.store.views import ANSWER, OWN_LAYERS, Library, View, make_view

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import duckdb

    from workbench.store.case import Case

_logger = logging.getLogger(__name__)

SUFFIX = "_own"


@dataclass(frozen=True, kw_only=True, slots=True)
class Admission:
    """What became of the files of some folders."""

    library: Library
    """The library with the views that hold."""

    views: tuple[View, ...]
    faults: tuple[ViewError, ...]
    """Files that are left out: the file, the line and the reason."""

    renamed: tuple[ViewError, ...]
    """Files that are loaded under another name, and why."""


def own_folder() -> Path:
    """Return the folder where the user's own views would lie."""
    named = os.environ.get("COLDTRACE_VIEWS")
    if named:
        return Path(named).expanduser()
    config = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(config).expanduser() / "coldtrace" / "views"


def open_library(case: Case, folders: Sequence[Path] = ()) -> Library:
    """Return the library over an open case, with the user's own views.

    What the case holds and is current is used as it is; what is stale, or the user's
    own, becomes a temporary view.  Own views that do not hold are left out with a
    warning each: a verdict must not wait for somebody's draft.

    Parameters
    ----------
    case
        Open case; it keeps the library as `case.library`.
    folders
        Folders of a site's views, before the user's own.

    Raises
    ------
    CaseError
        If a model's rows are stale, which only a new load can mend.
    ViewError
        If a view of the library does not hold, or one of the folders is not there.
    """
    library = Library(case)
    materialize.overlay(library)
    admission = admit(library, [*named_folders(folders), own_folder()])
    for fault in admission.faults:
        _logger.warning("left out: %s", fault)
    for fault in admission.renamed:
        _logger.warning("%s", fault)
    case.library = admission.library
    return admission.library


def named_folders(folders: Sequence[Path]) -> Sequence[Path]:
    """Return the folders that were named, each of which must be there."""
    for folder in folders:
        if not folder.is_dir():
            raise ViewError("no such folder of views", view=str(folder))
    return folders


def admit(library: Library, folders: Sequence[Path]) -> Admission:
    """Return a library with all views of some folders that hold.

    The views of `library` must exist in its database.  Of two own files for one view
    the first counts.
    """
    faults: list[ViewError] = []
    renamed: list[ViewError] = []
    views = _distinct(_read(library, folders, faults), library, faults, renamed)
    if not views:
        return Admission(library=library, views=(), faults=tuple(faults), renamed=())
    trial = _without_circles(library, views, faults)
    sound = _try(trial, {view.name for view in views}, faults)
    return Admission(
        library=_join(library, sound, faults),
        views=tuple(sound),
        faults=tuple(faults),
        renamed=tuple(renamed),
    )


def _read(
    library: Library, folders: Sequence[Path], faults: list[ViewError]
) -> Iterator[View]:
    for folder in folders:
        for path in sorted(folder.rglob("*.sql")):
            try:
                yield read_view(library.connection, path, folder)
            except (ViewError, UnicodeDecodeError) as error:
                faults.append(at_file(error, path))


def read_view(connection: duckdb.DuckDBPyConnection, path: Path, folder: Path) -> View:
    """Return the view of one file of the user's own.

    Raises
    ------
    ViewError
        If it lies in no layer, or cannot be read as a view.
    """
    layer = path.parent.name
    if path.parent.parent != folder or layer not in OWN_LAYERS:
        raise ViewError(
            f"must lie in the folder of a layer: {', '.join(OWN_LAYERS)}",
            view=path.stem,
        )
    text = path.read_text(encoding="utf-8")
    return make_view(connection, path.stem, layer, text, is_own=True, path=path)


def at_file(error: ViewError | UnicodeDecodeError, path: Path) -> ViewError:
    """Return an error that names the file in place of the view."""
    if isinstance(error, ViewError):
        return ViewError(
            error.message, view=str(path), line=error.line, hint=error.hint
        )
    return ViewError("is not UTF-8 text", view=str(path))


def _distinct(
    found: Iterator[View],
    library: Library,
    faults: list[ViewError],
    renamed: list[ViewError],
) -> list[View]:
    """Return one view a name, none with a name of the library."""
    views: dict[str, View] = {}
    for view in found:
        name = view.name
        if name in library.views:
            name = f"{name}{SUFFIX}"
        if name in views or name in library.views:
            other = views.get(name) or library.views[name]
            faults.append(_fault(view, f"{other.path} is loaded as {name} already"))
            continue
        if name != view.name:
            renamed.append(
                _fault(
                    view,
                    f"the library has a view {view.name}; this one is loaded as {name}",
                )
            )
        views[name] = replace(view, name=name)
    return list(views.values())


def _fault(view: View, message: str, line: int | None = None) -> ViewError:
    return ViewError(message, view=str(view.path), line=line)


def _without_circles(
    library: Library, views: list[View], faults: list[ViewError]
) -> Library:
    """Return the library with the views, those left out that read in a circle."""
    while True:
        try:
            return library.extended(views, findings=False)
        except ViewError as error:
            cause = error.__cause__
            if not isinstance(cause, graphlib.CycleError):
                raise
            circle = set(cause.args[1])
            faults += [
                _fault(view, error.message) for view in views if view.name in circle
            ]
            views[:] = [view for view in views if view.name not in circle]


def _try(trial: Library, names: set[str], faults: list[ViewError]) -> list[View]:
    """Create each view in order and hold it to the rules; return those that pass."""
    sound: list[View] = []
    left_out: set[str] = set()
    for node in trial.order:
        if node not in names:
            continue
        view = trial.views[node]
        missing = sorted(left_out & set(trial.reads(node)))
        if missing:
            found = [_fault(view, f"reads {missing[0]}, which is left out")]
        else:
            found = [at_file(each, view.path or Path()) for each in _hold(trial, view)]
        if found:
            left_out.add(node)
            faults += found
            materialize.drop_temporary(trial.connection, node)
        else:
            sound.append(view)
    return sound


def _hold(trial: Library, view: View) -> list[ViewError]:
    """Create a temporary view and return its breaches of the rules."""
    try:
        materialize.create_temporary(trial, view)
    except ViewError as error:
        return [error]
    return view_rules.faults_of(trial, view)


def _join(library: Library, sound: list[View], faults: list[ViewError]) -> Library:
    """Return the library with the sound views, and ``finding`` made anew if it must be.

    A finding that the verdict cannot be made of is left out too.
    """
    if not any(view.layer == "finding" for view in sound):
        return library.extended(sound, findings=False)
    for view in [each for each in sound if each.layer == "finding"]:
        others = [each for each in sound if each is view or each.layer != "finding"]
        try:
            more = library.extended(others)
            materialize.create_temporary(more, more.views["finding"])
        except ViewError as error:
            faults.append(at_file(error, view.path or Path()))
            materialize.drop_temporary(library.connection, view.name)
            sound.remove(view)
    more = library.extended(sound)
    materialize.drop_temporary(library.connection, "finding")
    materialize.overlay(more)
    return more


def lowest_layer(library: Library, reads: Sequence[str]) -> str:
    """Return the first layer, from measure on, that may read these relations."""
    known = [library.layer_of(name) for name in reads if name in library.views]
    above_measure = max(known, default=0) > OWN_LAYERS.index("measure")
    return ANSWER if above_measure else "measure"
