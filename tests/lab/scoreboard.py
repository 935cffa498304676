"""Run every scenario of the lab and print what was found: `make lab-full`, as root.

One line a run: the label, whether the answer agrees with it, and else what is wrong
with it; then how many agree.  Ends with 1 if any does not.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tests.lab import comparing
from tests.lab.diagnosing import diagnose, mismatches
from tests.lab.scenarios import (
    always_late,
    cpu_hog,
    healthy,
    late_rank,
    run_scenario,
    slow_input,
    slow_stream,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.lab.scenarios import Scenario

SCENARIOS = (
    healthy(steps=120),
    late_rank(steps=84),
    always_late(steps=60),
    slow_input(steps=60),
    cpu_hog(steps=60),
    slow_stream(steps=60),
)


def run(scenario: Scenario) -> list[str]:
    """Return what is wrong with the answer to one run of a scenario."""
    with tempfile.TemporaryDirectory(prefix="scoreboard-") as folder:
        recording = run_scenario(scenario, Path(folder))
        with diagnose(recording.bundles) as case:
            return mismatches(case, recording.truth)


def run_compare() -> list[str]:
    """Return what is wrong with the comparison of two runs, one of them slower."""
    with tempfile.TemporaryDirectory(prefix="scoreboard-") as folder:
        return comparing.mismatches(Path(folder))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the scoreboard from the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab.scoreboard")
    parser.add_argument("--repeat", type=int, default=1, help="runs of each scenario")
    repeat = parser.parse_args(arguments).repeat
    agreed = asked = 0
    runs = [(each.name, each.truth.verdict, partial(run, each)) for each in SCENARIOS]
    for name, verdict, ask in [*runs, ("5 % slower", "compared", run_compare)]:
        for _ in range(repeat):
            wrong = ask()
            asked += 1
            agreed += not wrong
            label = f"{name:<12} {verdict:<12}"
            sys.stdout.write(f"{label} {'; '.join(wrong) or 'as labelled'}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{agreed} of {asked} runs as labelled\n")
    return int(agreed < asked)


if __name__ == "__main__":
    sys.exit(main())
