"""Views of one's own as files: begun from a template, exported, imported."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from workbench.commands.exit_code import ExitCode, UsageError
from workbench.commands.output import narrate
from workbench.store import view_archive, view_rules
from workbench.store.own_views import own_folder
from workbench.store.saved_view import VIEW_NAME

if TYPE_CHECKING:
    from workbench.store.own_views import Admission

TEMPLATE = """\
-- One row for each rank that the case knows.
--
-- grain:  job_id, rank
-- reads:  rank
--
-- columns:
--   job_id   VARCHAR  job of the rank
--   rank     INTEGER  global rank
--   host_id  INTEGER  host it ran on

select
    job_id,
    rank,
    host_id
from rank
"""


def new(words: list[str], layer: str, *, force: bool) -> int:
    """Begin a view of the user's own from a template that holds as it is."""
    if len(words) != 1:
        raise UsageError("a new view needs a name", hint="coldtrace views new NAME")
    name = words[0]
    if not VIEW_NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is no name of a view",
            hint="use small letters, digits and underscores",
        )
    prefix = view_rules.PREFIXES.get(layer, "")
    path = own_folder() / layer / f"{prefix}{name.removeprefix(prefix)}.sql"
    if path.exists() and not force:
        raise UsageError(f"{path} exists", hint="--force replaces it")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(TEMPLATE, encoding="utf-8")
    narrate(f"wrote {path}")
    return ExitCode.OK


def export(admission: Admission, words: list[str], *, force: bool) -> int:
    """Write the own views that hold into a folder or a ZIP."""
    target = _path(words, "export")
    if not admission.views:
        raise UsageError(
            "there are no views of your own", hint="coldtrace views new NAME"
        )
    names = view_archive.export_views(admission.views, target, replace=force)
    narrate(f"wrote {len(names)} views to {target}")
    return ExitCode.DAMAGED if admission.faults else ExitCode.OK


def import_(admission: Admission, words: list[str], *, force: bool) -> int:
    """Take the views of a folder or a ZIP that hold into the user's own folder."""
    source = _path(words, "import")
    imported = view_archive.import_views(
        admission.library.without_own(), source, own_folder(), replace=force
    )
    for fault in imported.faults:
        narrate(str(fault), kind="error")
        if fault.hint:
            narrate(fault.hint, kind="hint")
    narrate(f"wrote {len(imported.written)} views to {own_folder()}")
    return ExitCode.DAMAGED if imported.faults else ExitCode.OK


def _path(words: list[str], word: str) -> Path:
    if len(words) != 1:
        raise UsageError(
            f"{word} needs one folder or ZIP file",
            hint=f"coldtrace views {word} DIR|FILE.zip",
        )
    return Path(words[0])
