"""``coldtrace notebook``: root-cause notebooks on a case, in JupyterLab, offline.

The notebooks are written into a folder beside the case, and never over a file that is
there: it may hold somebody's work.  The server listens on this machine alone, asks for
its token, and neither fetches news nor looks for updates.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import workbench
from workbench.analysis.opening import open_case
from workbench.commands.exit_code import ExitCode, UsageError
from workbench.commands.output import narrate

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

NAME = "notebook"
HELP = "write root-cause notebooks beside a case and open them in JupyterLab"
EXAMPLES = (
    "coldtrace notebook coldtrace-demo/case.duckdb",
    "coldtrace notebook late.duckdb --write-only",
    "coldtrace notebook late.duckdb --no-browser -- --port=9000",
)

CASE_NAME = "case.duckdb"
FIRST = "orientation.ipynb"
NEEDED = ("jupyterlab", "jupytext", "ipywidgets")
EXTRA_HINT = 'install the extra: pip install "coldtrace[notebook]"'


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "case",
        metavar="CASE",
        nargs="?",
        type=Path,
        default=Path(CASE_NAME),
        help=f"case to open (default: {CASE_NAME} in this folder)",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="DIR",
        type=Path,
        help="folder of the notebooks (default: CASE without its ending, -notebooks)",
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--write-only", action="store_true", help="write them and start nothing"
    )
    how.add_argument(
        "--no-browser", action="store_true", help="start the server, open no browser"
    )
    parser.add_argument(
        "options",
        metavar="-- OPTION",
        nargs="*",
        help="options for JupyterLab itself",
    )


def run(args: argparse.Namespace) -> int:
    """Write the notebooks and serve them until interrupted."""
    open_case(args.case).close()
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise UsageError(
            f"notebooks need {', '.join(missing)}, not installed here", hint=EXTRA_HINT
        )
    from workbench.ui.writing import write_notebooks  # noqa: PLC0415 - needs the extra

    folder = args.output or args.case.with_name(f"{args.case.stem}-notebooks")
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is no folder", hint="give another with -o DIR")
    written = write_notebooks(args.case, folder)
    kept = f", {len(written.kept)} left as they were" if written.kept else ""
    narrate(f"wrote {len(written.new)} notebooks into {folder}{kept}")
    if args.write_only:
        return ExitCode.OK
    command = lab_command(folder, args.options, is_browser=not args.no_browser)
    return subprocess.run(command, check=False).returncode


def lab_command(
    folder: Path, options: Sequence[str] = (), *, is_browser: bool = True
) -> list[str]:
    """Return the command that serves a folder on this machine alone."""
    settings = Path(workbench.__file__).parent / "ui" / "lab_settings"
    command = [
        sys.executable,
        "-m",
        "jupyterlab",
        f"--ServerApp.root_dir={folder.resolve()}",
        "--ServerApp.ip=127.0.0.1",
        "--KernelManager.transport=ipc",
        "--LabApp.extension_manager=readonly",
        f"--LabApp.app_settings_dir={settings}",
        f"--LabApp.default_url=/lab/tree/{FIRST}",
    ]
    if os.geteuid() == 0:
        command.append("--allow-root")
    if not is_browser:
        command.append("--no-browser")
    return [*command, *options]
