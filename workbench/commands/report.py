"""``coldtrace report``: the verdict with its evidence as one page to hand on.

The page holds every picture, loads nothing and runs no script, so it opens on any
machine and prints.  ``--interactive`` adds the scripts that make the charts live.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import workbench.analysis  # noqa: F401 -- registers the models, which the views read
from workbench.commands.exit_code import ExitCode, UsageError
from workbench.commands.output import narrate, strict_json
from workbench.commands.publish import new_file
from workbench.store.case import open_case
from workbench.store.own_views import open_library

if TYPE_CHECKING:
    import argparse

NAME = "report"
HELP = "write the verdict of a case, its evidence and its charts as one page"
EXAMPLES = (
    "coldtrace report late.duckdb -o late.html",
    "coldtrace report late.duckdb -o late.html --interactive --force",
    "coldtrace report late.duckdb --format md > late.md",
)

FORMATS = ("html", "md", "json")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("case", metavar="CASE", type=Path, help="case to read")
    parser.add_argument(
        "-o",
        "--output",
        metavar="PATH",
        type=Path,
        help="file to write (default: standard output)",
    )
    parser.add_argument(
        "--format", choices=FORMATS, default="html", help="form (default: html)"
    )
    parser.add_argument(
        "--interactive",
        action="store_true",
        help="add scripts that make the charts live; the page is larger",
    )
    parser.add_argument("--force", action="store_true", help="write PATH anew")


def run(args: argparse.Namespace) -> int:
    """Build the report and write it."""
    if args.interactive and args.format != "html":
        raise UsageError("--interactive is for html")
    if args.output is None:
        sys.stdout.write(form(args.case, args.format, interactive=args.interactive))
        return ExitCode.OK
    write(
        args.case,
        args.output,
        fmt=args.format,
        interactive=args.interactive,
        force=args.force,
    )
    return ExitCode.OK


def write(
    case: Path, path: Path, *, fmt: str = "html", interactive: bool = False, force: bool
) -> None:
    """Write the report of a case to a file, and say so."""
    with new_file(path, force=force) as hidden:
        text = form(case, fmt, interactive=interactive)
        hidden.write_text(text, encoding="utf-8")
        size_kb = hidden.stat().st_size / 1e3
    narrate(f"wrote {path}: {size_kb:,.0f} kB")


def form(path: Path, fmt: str, *, interactive: bool = False) -> str:
    """Return the report of the case at `path` in one of its forms."""
    # Drawing is imported here: no other command waits for it.
    from workbench.commands.case_report import build  # noqa: PLC0415
    from workbench.report import data, markdown, page  # noqa: PLC0415

    with open_case(path) as case:
        open_library(case)
        report = build(case)
    if fmt == "json":
        return strict_json(data.render(report)) + "\n"
    if fmt == "md":
        return markdown.render(report)
    return page.render(report, interactive=interactive)
