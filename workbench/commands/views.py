"""``coldtrace views``: what can be asked, and whether the library is in order."""

from __future__ import annotations

import itertools
import re
import sys
import textwrap
from typing import TYPE_CHECKING

import polars as pl

import workbench.analysis  # noqa: F401 -- registers the models, which the views read
from workbench.commands.exit_code import ExitCode, UsageError
from workbench.commands.output import FORMATS, PAGE_WIDTH, emit, narrate, plain
from workbench.errors import ViewError
from workbench.store import catalogue, materialize, view_rules
from workbench.store.case import Case
from workbench.store.views import LAYERS, Library, own_folder

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

NAME = "views"
HELP = "list the views, show one, check them, or begin one of your own"
EXAMPLES = (
    "coldtrace views",
    "coldtrace views collective_arrival",
    "coldtrace views new slow_reader --layer measure",
)

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


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "words",
        metavar="NAME",
        nargs="*",
        help="a view to show; or: new NAME, to begin one of your own",
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
        choices=LAYERS,
        default="measure",
        help="layer of a new view (default: measure)",
    )
    parser.add_argument(
        "--force", action="store_true", help="let a new view replace a file"
    )
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default="table",
        help="how to print the list (default: table)",
    )


def run(args: argparse.Namespace) -> int:
    """List, show, check, write or begin."""
    words: list[str] = args.words
    if words[:1] == ["new"]:
        return _new(words[1:], args.layer, force=args.force)
    if len(words) > 1:
        raise UsageError(f"one view at a time, not {len(words)}")
    with Case.create(None) as case:
        library = Library(case, own=own_folder())
        if args.write:
            _write(library)
        if args.check:
            return _check(library, case)
        if args.write:
            return ExitCode.OK
        if words:
            sys.stdout.write(_shown(catalogue.page(library, words[0])))
        elif args.format == "table":
            sys.stdout.write(_overview(library))
        else:
            emit(_listed(library), args.format)
    return ExitCode.OK


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
    views = catalogue.public_views(library)
    return pl.DataFrame(
        {
            "view": [catalogue.key_of(view) for view in views],
            "layer": [view.layer for view in views],
            "is_own": [view.is_own for view in views],
            "purpose": [view.header.purpose for view in views],
        },
        schema={
            "view": pl.String,
            "layer": pl.String,
            "is_own": pl.Boolean,
            "purpose": pl.String,
        },
    )


def _check(library: Library, case: Case) -> int:
    """Print every breach of a rule; fail if there is one."""
    faults = check(library, case)
    for fault in faults:
        narrate(str(fault), kind="error")
    if faults:
        narrate(f"{len(faults)} faults in {len(library.views)} views")
        return ExitCode.GATE_FAILED
    narrate(f"{len(library.views)} views are in order")
    return ExitCode.OK


def check(library: Library, case: Case) -> list[ViewError]:
    """Return every breach of a rule, on an empty case, the README's among them."""
    materialize.build(library, case)
    faults = view_rules.faults(library)
    path = library.folder / "README.md"
    if not catalogue.is_readme_current(library, path):
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
    path.write_text(catalogue.readme(library), encoding="utf-8")
    narrate(f"wrote {path}")


def _new(names: list[str], layer: str, *, force: bool) -> int:
    """Begin a view of the user's own from a template that holds as it is."""
    if len(names) != 1:
        raise UsageError("a new view needs a name", hint="coldtrace views new NAME")
    name = names[0]
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise UsageError(
            f"{name!r} is no name of a view",
            hint="use small letters, digits and underscores",
        )
    path = _new_path(own_folder(), layer, name)
    if path.exists() and not force:
        raise UsageError(f"{path} exists", hint="--force replaces it")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(TEMPLATE, encoding="utf-8")
    narrate(f"wrote {path}")
    return ExitCode.OK


def _new_path(folder: Path, layer: str, name: str) -> Path:
    prefix = view_rules.PREFIXES.get(layer, "")
    return folder / layer / f"{prefix}{name.removeprefix(prefix)}.sql"
