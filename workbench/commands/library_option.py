"""The option ``--library``: a site's folder of views, for every command that asks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse


def add(parser: argparse.ArgumentParser) -> None:
    """Add the option; it may be given more than once."""
    parser.add_argument(
        "--library",
        metavar="DIR",
        type=Path,
        action="append",
        default=[],
        help="folder of a site's views, beside your own",
    )
