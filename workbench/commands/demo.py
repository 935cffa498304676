"""``coldtrace demo``: the sample with a late rank, from its bundles to the report.

It works in a folder of its own, which it may overwrite as often as it likes: a folder
that holds anything else is left alone.  It needs no GPU, no root and no network.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.commands import report
from workbench.commands.diagnose import CASE_NAME, DEFAULT_TOP, print_verdict
from workbench.commands.exit_code import ExitCode, UsageError
from workbench.commands.load import load_into, narrate_problems
from workbench.commands.output import narrate
from workbench.errors import CaseError

if TYPE_CHECKING:
    import argparse

NAME = "demo"
HELP = "load the sample with a late rank, print its verdict, write its report"
EXAMPLES = (
    "coldtrace demo",
    "coldtrace demo -o /tmp/demo",
    'coldtrace query coldtrace-demo/case.duckdb "from step_work where rank = 5"',
)

SAMPLE = "late-rank"
FOLDER = Path("coldtrace-demo")
REPORT_NAME = "report.html"
MARK = ".coldtrace-demo"
"""File that says a folder is the demo's own."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "-o",
        "--output",
        metavar="DIR",
        type=Path,
        default=FOLDER,
        help=f"folder to work in (default: {FOLDER})",
    )


def run(args: argparse.Namespace) -> int:
    """Copy the sample, load it, print the verdict and write the report."""
    sample = sample_folder()
    folder = claim(args.output)
    for old in folder.glob("*.bundle"):
        old.unlink()
    bundles = [
        Path(shutil.copyfile(path, folder / path.name))
        for path in sorted(sample.glob("*.bundle"))
    ]
    case = folder / CASE_NAME
    case.unlink(missing_ok=True)
    loaded, summary = load_into(case, bundles)
    narrate_problems(loaded.problems)
    narrate(summary)
    print_verdict(case, fmt="table", top=DEFAULT_TOP)
    sys.stdout.flush()
    report.write(case, folder / REPORT_NAME, force=True)
    return ExitCode.OK


def sample_folder() -> Path:
    """Return the folder of the sample: in the installed package, or in the checkout.

    Raises
    ------
    CaseError
        If neither holds it.
    """
    package = Path(__file__).parents[1]
    for root in (package / "samples", package.parent / "samples"):
        if any((root / SAMPLE).glob("*.bundle")):
            return root / SAMPLE
    raise CaseError(
        f"the sample {SAMPLE} is not in this installation",
        hint="give bundles of your own to: coldtrace diagnose",
    )


def claim(folder: Path) -> Path:
    """Return the folder, made if it is not there, as the demo's own.

    Raises
    ------
    UsageError
        If it holds something that the demo did not put there.
    """
    mark = folder / MARK
    if folder.exists() and not mark.is_file() and any(folder.iterdir()):
        raise UsageError(
            f"{folder} is not empty and not the demo's own",
            hint="give another folder with -o DIR",
        )
    folder.mkdir(parents=True, exist_ok=True)
    mark.touch()
    return folder
