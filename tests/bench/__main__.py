"""Benchmarks, printed beside the numbers to reach (design overview, section 6).

``make bench`` makes a job of 8 hosts and 20 M events; a quick look is
``python -m tests.bench --steps 40``.

"""

from __future__ import annotations

import argparse
import resource
import shutil
import sys
import tempfile
from pathlib import Path

from tests.bench.figures import Figure, print_figures
from tests.bench.measure_case import measure_case
from tests.bench.measure_clock import measure_clock
from tests.bench.measure_recorder import measure_recorder

FULL_STEPS = 437
"""Steps that make 8 hosts x 4 ranks record 20 M events."""


def main() -> int:
    """Run every benchmark and print one table."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench")
    parser.add_argument("--hosts", type=int, default=8)
    parser.add_argument("--steps", type=int, default=FULL_STEPS)
    parser.add_argument("--keep", type=Path, help="leave bundles and case here")
    options = parser.parse_args()
    folder = options.keep or Path(tempfile.mkdtemp(prefix="coldtrace-bench-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        figures = [
            *measure_recorder(),
            *measure_clock(),
            *measure_case(folder, hosts=options.hosts, steps=options.steps),
            _own_memory(),
        ]
    finally:
        if options.keep is None:
            shutil.rmtree(folder)
    print_figures(figures)
    return 0


def _own_memory() -> Figure:
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return Figure(
        what="peak memory of this whole run",
        measured=f"{peak_kib / 2**20:.2f} GiB",
        bar="a 50 M event bundle under 2 GiB",
    )


if __name__ == "__main__":
    sys.exit(main())
