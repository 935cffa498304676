"""``coldtrace verify``: is a bundle what it says it is, on the analyst's side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from workbench.bundle.verify import Verification, verify_bundle
from workbench.commands.exit_code import ExitCode
from workbench.commands.output import FORMATS, emit, narrate, progress

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

NAME = "verify"
HELP = "check bundles: container, check sums, manifest, columns and facts"
EXAMPLES = (
    "coldtrace verify hosta.bundle",
    "coldtrace verify /media/usb/*.bundle",
    "coldtrace verify /media/usb/*.bundle --format jsonl",
)

SCHEMA = {
    "path": pl.String,
    "state": pl.String,
    "host_name": pl.String,
    "row_count": pl.Int64,
    "damage_count": pl.Int64,
    "content_sha256": pl.String,
}
"""A row a bundle; the faults themselves are narrated."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "bundles", metavar="BUNDLE", nargs="+", type=Path, help="bundle to check"
    )
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default="table",
        help="how to print the rows (default: table)",
    )


def run(args: argparse.Namespace) -> int:
    """Check every bundle and print a row for each."""
    checked = [verify_bundle(path) for path in progress(args.bundles, "verify")]
    for one in checked:
        for damage in one.damage:
            narrate(f"{one.path}: {damage.message}", kind="error")
    emit(verification_frame(checked), args.format)
    return exit_code(checked)


def exit_code(checked: Sequence[Verification]) -> ExitCode:
    """Return the worst that was found: nothing readable, some damage, or neither."""
    if all(one.is_refused for one in checked):
        return ExitCode.UNREADABLE
    is_damaged = any(one.damage for one in checked)
    return ExitCode.DAMAGED if is_damaged else ExitCode.OK


def verification_frame(checked: Sequence[Verification]) -> pl.DataFrame:
    """Return a row a bundle."""
    rows = [
        (
            str(one.path),
            _state(one),
            one.host_name,
            one.row_count,
            len(one.damage),
            one.content_sha256,
        )
        for one in checked
    ]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def _state(one: Verification) -> str:
    if one.is_refused:
        return "refused"
    return "damaged" if one.damage else "sound"
