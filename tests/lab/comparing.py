"""Two live recordings of one job, one with 5 % longer steps, and what compare says.

Nothing differs between the runs but the sleep in each step.  A busy machine adds more
than that to a step, so this is part of `make lab-full` and not of the tests.
"""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.lab.recording import ROOT
from tests.lab.scenarios import healthy, run_scenario

if TYPE_CHECKING:
    from pathlib import Path

STEPS, SLEEP_US = 120, 20_000


def mismatches(folder: Path) -> list[str]:
    """Return in what the comparison differs from what was planted."""
    base = _recorded(folder / "base", SLEEP_US)
    slower = _recorded(folder / "slower", SLEEP_US * 105 // 100)
    compared = _coldtrace("compare", base, slower)
    named = " ".join(compared.stdout.split()).partition("what differs ")[2]
    wrong: list[str] = []
    if compared.returncode != 1:
        wrong.append(f"exit {compared.returncode}: {compared.stdout}{compared.stderr}")
    if not named.startswith("timed_sleep +"):
        wrong.append(f"named {named.partition(';')[0]}")
    if "set up differently" in compared.stdout:
        wrong.append("one host is said to differ from itself")
    if _coldtrace("compare", base, base).returncode != 0:
        wrong.append("a run is said to be slower than itself")
    return wrong


def _recorded(folder: Path, sleep_us: int) -> Path:
    """Return the case of a job whose ranks sleep that long in each step."""
    folder.mkdir()
    options = {"steps": STEPS, "prologue": 2, "sleep_us": sleep_us, "jitter_us": 200}
    scenario = dataclasses.replace(
        healthy(steps=STEPS), hosts=("hosta",), ranks_a_host=4, options=options
    )
    bundles = run_scenario(scenario, folder).bundles
    path = folder / "case.duckdb"
    loaded = _coldtrace("load", path, *bundles)
    if loaded.returncode:
        raise RuntimeError(f"the recording could not be loaded: {loaded.stderr}")
    return path


def _coldtrace(*words: object) -> subprocess.CompletedProcess[str]:
    """Run the command as a user would."""
    return subprocess.run(
        [sys.executable, "-m", "workbench.cli", *map(str, words)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
