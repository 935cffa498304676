"""Clock bands on simulated jobs, and the time that many hosts take."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tests.bench.figures import Figure, timed
from tests.workbench.simulated_clocks import outside, simulated_job
from tests.workbench.slewed_clocks import recorded, slewed_host
from workbench.analysis import wall_clock
from workbench.analysis.clock_model import constraints_of
from workbench.analysis.clock_solver import solve
from workbench.analysis.clock_stated import narrowed
from workbench.analysis.clock_tables import clock_rows, pair_rows
from workbench.analysis.late_attach import Member, attach
from workbench.analysis.shift_search import Calls

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.workbench.simulated_clocks import SimulatedJob
    from tests.workbench.slewed_clocks import Recorded

COLLECTIVES = 1_000
MANY = 100
LATEST = 20
"""Calls that the latest recorder missed, and one more."""


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
    stalls = set(np.random.default_rng(7).integers(0, COLLECTIVES, COLLECTIVES // 20))
    many = simulated_job(
        MANY, COLLECTIVES, late=lambda k: {k % MANY: 0.05} if k in stalls else {}
    )
    hosts = [
        slewed_host(seed=at, slew_ppm=20.0, end_s=many.end, stated_us=500)
        for at in range(MANY)
    ]
    made = recorded(hosts, many.arrival, many.completion)
    with timed("clock model, many hosts") as watch:
        _model(made)
    yield Figure(
        what=f"clock model, {MANY} hosts x {COLLECTIVES:,} collectives, slewed, stated",
        measured=f"{watch.seconds:.1f} s",
        bar="<= 5 s",
    )
    members = [_late_member(many, host) for host in range(MANY)]
    with timed("late attach, many hosts") as watch:
        attached = attach("world", members, {})
    right = sum(host.shift == host.host_id % LATEST for host in attached.hosts)
    yield Figure(
        what=f"late attach, {MANY} hosts x {COLLECTIVES:,} collectives, no wall clock",
        measured=f"{watch.seconds:.1f} s, {right} of {MANY} shifts right",
        bar="<= 5 s, all right",
    )


def _model(made: Recorded) -> None:
    """Do all that the clock model does between reading and writing its tables."""
    constraints, _ = constraints_of(made.bound, made.clocks)
    (group,) = solve(constraints, extents=[None] * len(made.clocks)).groups
    walls = wall_clock.by_host(made.readings)
    narrower, _ = narrowed(group, made.clocks, walls)
    clock_rows(narrower, made.clocks, ["rendezvous"] * len(made.clocks))
    pair_rows(narrower, made.clocks)


def _late_member(job: SimulatedJob, host: int) -> Member:
    """Return the calls of a host whose recorder missed some of the first ones."""
    first = host % LATEST
    arrival = job.own(host, job.arrival[host, first:])
    completion = job.own(host, job.completion[host, first:])
    count = len(arrival)
    return Member(
        host_id=host,
        pid=1,
        rank=host,
        calls=Calls(
            first=0,
            kind=np.zeros(count, dtype=np.int64),
            arrival_ns=arrival,
            completion_ns=completion,
            has_both=np.ones(count, dtype=bool),
        ),
        is_known=False,
    )
