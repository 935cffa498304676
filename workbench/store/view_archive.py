"""Views of the user's own, handed on as plain files: a folder, or a ZIP of it.

What is imported was written elsewhere, so it is held to the rules before anything is
written, and nothing but ``<layer>/<name>.sql`` is taken out of an archive.
"""

from __future__ import annotations

import re
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.errors import ViewError
from workbench.store.own_views import admit
from workbench.store.views import OWN_LAYERS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from workbench.store.views import Library, View

MEMBER = re.compile(rf"(?:{'|'.join(OWN_LAYERS)})/[a-z_][a-z0-9_]*\.sql")
MOST_BYTES = 1 << 20
"""Size of one file; the longest view of the library has a hundredth of it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Imported:
    """What an import wrote, and what it left out and why."""

    written: tuple[Path, ...]
    faults: tuple[ViewError, ...]


def export_views(views: Iterable[View], target: Path, *, replace: bool) -> list[str]:
    """Write views into a folder, or into one ZIP if the name ends in ``.zip``.

    Returns
    -------
    list of str
        Names of the files, relative to the folder.

    Raises
    ------
    ViewError
        If a file is there and may not be replaced.
    """
    files = {f"{view.layer}/{view.name}.sql": view.text for view in views}
    is_zip = target.suffix == ".zip"
    written = [target] if is_zip else [target / name for name in files]
    for path in written:
        if path.exists() and not replace:
            raise ViewError("is there", view=str(path), hint="--force replaces it")
    if is_zip:
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, text in sorted(files.items()):
                archive.writestr(zipfile.ZipInfo(name), text)
        return sorted(files)
    for name, text in files.items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_text(text, encoding="utf-8")
    return sorted(files)


def import_views(
    library: Library, source: Path, folder: Path, *, replace: bool
) -> Imported:
    """Copy the views of a folder or a ZIP that hold into the user's own folder.

    Parameters
    ----------
    library
        Ours, whose views exist in its database.
    source
        Folder, or ZIP file.
    folder
        Where the user's own views lie.
    replace
        Whether files that are there may be replaced by others.
    """
    with tempfile.TemporaryDirectory(prefix="coldtrace-views-") as name:
        place = Path(name)
        faults = list(_take(source, place))
        admission = admit(library, [place, folder])
        for fault in (*admission.faults, *admission.renamed):
            inside = Path(fault.view)
            if inside.is_relative_to(place):
                shown = str(source / inside.relative_to(place))
                faults.append(ViewError(fault.message, view=shown, line=fault.line))
        written: list[Path] = []
        for view in admission.views:
            if view.path is None or not view.path.is_relative_to(place):
                continue
            path = folder / view.layer / f"{view.name}.sql"
            is_same = path.exists() and path.read_text(encoding="utf-8") == view.text
            if path.exists() and not is_same and not replace:
                faults.append(
                    ViewError("is there", view=str(path), hint="--force replaces it")
                )
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(view.text, encoding="utf-8")
            written.append(path)
    return Imported(written=tuple(written), faults=tuple(faults))


def _take(source: Path, place: Path) -> Iterable[ViewError]:
    """Copy the view files of a folder or a ZIP, and say what else was there."""
    for name, data in _files(source):
        if data is None or not MEMBER.fullmatch(name):
            reason = "is no file <layer>/<name>.sql of at most 1 MiB"
            yield ViewError(reason, view=str(source / name))
            continue
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(data)


def _files(source: Path) -> Iterable[tuple[str, bytes | None]]:
    """Return the files of a folder or ZIP; None in place of one that is too large."""
    if source.is_dir():
        for path in sorted(source.rglob("*")):
            if path.is_file():
                is_small = path.stat().st_size <= MOST_BYTES
                name = path.relative_to(source).as_posix()
                yield name, path.read_bytes() if is_small else None
        return
    try:
        with zipfile.ZipFile(source) as archive:
            for info in archive.infolist():
                if not info.is_dir():
                    is_small = info.file_size <= MOST_BYTES
                    yield info.filename, archive.read(info) if is_small else None
    except zipfile.BadZipFile as error:
        raise ViewError(
            "is neither a folder nor a ZIP file", view=str(source)
        ) from error
