"""``coldtrace views``: what can be asked, and whether the library is in order."""

from __future__ import annotations

import itertools
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

import workbench.analysis  # noqa: F401 -- registers the models, which the views read
from workbench.commands import library_option, view_files
from workbench.commands.exit_code import ExitCode, UsageError
from workbench.commands.output import FORMATS, PAGE_WIDTH, emit, narrate, plain
from workbench.errors import ViewError
from workbench.store import catalogue, library_page, materialize, view_rules
from workbench.store.case import Case
from workbench.store.own_views import Admission, admit, named_folders, own_folder
from workbench.store.views import OWN_LAYERS, Library

if TYPE_CHECKING:
    import argparse

NAME = "views"
HELP = "list the views, show or check them; begin, export, import your own"
EXAMPLES = (
    "coldtrace views collective_arrival",
    "coldtrace views new slow_reader --layer measure",
    "coldtrace views export site-views.zip",
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "words",
        metavar="NAME",
        nargs="*",
        help="a view to show; or one of: new NAME, export DIR|FILE.zip, "
        "import DIR|FILE.zip",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="check every header against its select, and sql/README.md",
    )
    parser.add_argument(
        "--write", action="store_true", help="write sql/README.md from the headers"
    )
    parser.add_argument(
        "--layer",
        metavar="LAYER",
        choices=OWN_LAYERS,
        default="measure",
        help=f"layer of a new view: {', '.join(OWN_LAYERS)} (default: measure)",
    )
    parser.add_argument(
        "--force", action="store_true", help="let files of your own be replaced"
    )
    library_option.add(parser)
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default="table",
        help="how to print the list, or the columns of a view (default: table)",
    )


def run(args: argparse.Namespace) -> int:
    """List, show, check, write, begin, export or import."""
    words: list[str] = args.words
    if words[:1] == ["new"]:
        return view_files.new(words[1:], args.layer, force=args.force)
    on_files = {"export": view_files.export, "import": view_files.import_}
    work = on_files.get(words[0]) if words else None
    if work is None and len(words) > 1:
        raise UsageError(f"one view at a time, not {len(words)}")
    with Case.create(None) as case:
        library = Library(case)
        if args.write:
            _write(library)
        folders = [*named_folders(args.library), own_folder()]
        is_tried = work is view_files.import_ or any(map(Path.is_dir, folders))
        if args.check or is_tried:
            materialize.build(library, case)
        own = admit(library, folders)
        if args.check:
            return _check(library, own)
        _say_what_became(own)
        if work is not None:
            return work(own, words[1:], force=args.force)
        if not args.write:
            _show(own.library, words, args.format)
    return ExitCode.OK


def _say_what_became(own: Admission) -> None:
    """Say which own views are left out or renamed, and how many are there."""
    for fault in own.faults:
        narrate(f"left out: {fault}", kind="note")
    for fault in own.renamed:
        narrate(str(fault), kind="note")
    if own.views or own.faults:
        left_out = len({fault.view for fault in own.faults})
        narrate(f"{len(own.views)} views of your own, {left_out} left out")


def _show(library: Library, words: list[str], fmt: str) -> None:
    if words and fmt == "table":
        sys.stdout.write(_shown(catalogue.page(library, words[0])))
    elif words:
        emit(_columns_of(library, words[0]), fmt)
    elif fmt == "table":
        sys.stdout.write(_overview(library))
    else:
        emit(_listed(library), fmt)


def _shown(page: str) -> str:
    return "\n".join(plain(line) for line in page.split("\n"))


def _overview(library: Library) -> str:
    """Return the views by layer, with what a row of each is."""
    views = catalogue.public_views(library)
    width = max(len(catalogue.key_of(view)) for view in views) + 2
    lines: list[str] = []
    for layer, members in itertools.groupby(views, key=lambda view: view.layer):
        lines += ["", layer] if lines else [layer]
        for view in members:
            own = " (your own)" if view.is_own else ""
            lines += textwrap.wrap(
                f"{view.header.purpose}{own}",
                PAGE_WIDTH,
                initial_indent=f"  {catalogue.key_of(view):<{width}}",
                subsequent_indent=" " * (width + 2),
            )
    return _shown("\n".join(lines)) + "\n"


def _listed(library: Library) -> pl.DataFrame:
    """Return a row a view with what its header says."""
    rows = [
        {
            "view": catalogue.key_of(view),
            "layer": view.layer,
            "is_own": view.is_own,
            "purpose": view.header.purpose,
            "grain": list(view.grain),
            "columns": [column.name for column in view.columns],
            "reads": sorted(library.reads(catalogue.key_of(view)) or view.header.reads),
            "requires": list(view.header.requires),
            "uses": list(view.header.uses),
        }
        for view in catalogue.public_views(library)
    ]
    return pl.DataFrame(rows, infer_schema_length=None)


def _columns_of(library: Library, name: str) -> pl.DataFrame:
    """Return a row a column of one view."""
    rows = [
        (column.name, column.type, column.unit, column.meaning)
        for column in catalogue.view_of(library, name).columns
    ]
    schema = ("column", "type", "unit", "meaning")
    return pl.DataFrame(rows, schema=schema, orient="row", infer_schema_length=None)


def _check(library: Library, own: Admission) -> int:
    """Print every breach of a rule; fail if there is one."""
    faults = [*check(library), *own.faults]
    for fault in faults:
        narrate(str(fault), kind="error")
    count = len(library.views) + len(own.views)
    if faults:
        narrate(f"{len(faults)} faults in {count} views")
        return ExitCode.GATE_FAILED
    narrate(f"{count} views are in order")
    return ExitCode.OK


def check(library: Library) -> list[ViewError]:
    """Return every breach of a rule by a library that is built, and by its README."""
    faults = view_rules.faults(library)
    path = library.folder / "README.md"
    if not library_page.is_readme_current(library, path):
        faults.append(
            ViewError(
                "is not what the headers say",
                view=str(path),
                hint="coldtrace views --write",
            )
        )
    return faults


def _write(library: Library) -> None:
    path = library.folder / "README.md"
    path.write_text(library_page.readme(library), encoding="utf-8")
    narrate(f"wrote {path}")
