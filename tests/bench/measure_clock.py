"""Clock bands on simulated jobs, and the time that many hosts take."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tests.bench.figures import Figure, timed
from tests.workbench.simulated_clocks import outside, simulated_job
from workbench.analysis.clock_solver import solve

if TYPE_CHECKING:
    from collections.abc import Iterator

COLLECTIVES = 1_000
MANY = 100


def measure_clock() -> Iterator[Figure]:
    """Yield the band of two hosts and the seconds of a hundred."""
    job = simulated_job(2, COLLECTIVES, wander_ppm=1.0)
    (group,) = solve(job.constraints(), extents=[None, None]).groups
    half_us = group.pair_error()[0, 1] / 1e3
    escaped, _ = outside(group, job)
    yield Figure(
        what=f"clock band, 2 hosts x {COLLECTIVES:,} collectives, 1 ppm wander",
        measured=f"median {np.median(half_us):.1f} us, ends {half_us[0]:.1f} and "
        f"{half_us[-1]:.1f} us, truth outside {escaped} times",
        bar="median <= 30 us, never outside",
    )
    many = simulated_job(MANY, COLLECTIVES).constraints()
    with timed("clock model, many hosts") as watch:
        solve(many, extents=[None] * MANY)
    yield Figure(
        what=f"clock solver, {MANY} hosts x {COLLECTIVES:,} collectives",
        measured=f"{watch.seconds:.1f} s",
        bar="<= 5 s",
    )
