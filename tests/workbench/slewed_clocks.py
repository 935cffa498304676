"""Hosts whose time services slew MONOTONIC, and a job between them: all is known.

A host's RAW clock is its crystal: a rate and a small sinusoid.  MONOTONIC is RAW with a
rate that the service changes now and then, as chrony and ntpd do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from workbench.analysis import clock_model, clock_solver, clock_tables
from workbench.analysis.clock_parts import host_clocks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from workbench.analysis.clock_parts import HostClock
    from workbench.analysis.clock_solver import Group

SECOND = 1_000_000_000
STA_UNSYNC = 64


@dataclass(frozen=True, kw_only=True, slots=True)
class SlewedHost:
    """One host: what its clocks show at true seconds."""

    offset_ns: int
    crystal_ppm: float
    changes_s: NDArray[np.float64]
    """When the service changed the rate of MONOTONIC, ascending, the first at 0."""

    slew_ppm: NDArray[np.float64]
    """By how much MONOTONIC then runs faster than RAW."""

    wall_off_ns: int = 0
    """How far REALTIME is from true time."""

    stated_us: int | None = None

    def raw(self, seconds: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return RAW, less its offset, in seconds."""
        swing = 0.3e-6 * 50 / (2 * np.pi) * np.sin(2 * np.pi * seconds / 50)
        return seconds * (1 + self.crystal_ppm * 1e-6) + swing

    def monotonic(self, seconds: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return MONOTONIC, ns."""
        lengths = np.diff(self.changes_s)
        slewed = np.concatenate([[0.0], np.cumsum(lengths * self.slew_ppm[:-1])])
        slewed = np.interp(seconds, self.changes_s, slewed)
        after = np.maximum(seconds - self.changes_s[-1], 0) * self.slew_ppm[-1]
        read = self.raw(seconds) + (slewed + after) * 1e-6
        return np.rint(read * 1e9).astype(np.int64) + self.offset_ns

    def readings(self, host_id: int, end_s: float) -> pl.DataFrame:
        """Return a clock reading each second."""
        seconds = np.arange(0.0, end_s + 1.0)
        wall = np.rint(seconds * 1e9).astype(np.int64) + 1_796_000_000 * SECOND
        is_stated = self.stated_us is not None
        return pl.DataFrame(
            {
                "host_id": [host_id] * len(seconds),
                "monotonic_ns": self.monotonic(seconds),
                "monotonic_raw_ns": np.rint(self.raw(seconds) * 1e9).astype(np.int64),
                "boottime_ns": self.monotonic(seconds),
                "realtime_ns": wall + self.wall_off_ns,
                "bracket_ns": [400] * len(seconds),
                "adjtime_status": [0 if is_stated else STA_UNSYNC] * len(seconds),
                "adjtime_maxerror_us": [self.stated_us or 16_000_000] * len(seconds),
            }
        )


def slewed_host(
    *,
    seed: int,
    slew_ppm: float,
    end_s: float,
    **parts: Any,  # noqa: ANN401 -- fields of SlewedHost
) -> SlewedHost:
    """Return a host whose service changes the rate each 20 to 60 s."""
    random = np.random.default_rng(seed)
    changes = np.cumsum(random.uniform(20, 60, int(end_s / 20) + 1))
    changes = np.concatenate([[0.0], changes[changes < end_s - 20]])
    plain = {
        "offset_ns": int(random.integers(0, 10**15)),
        "crystal_ppm": float(random.uniform(-30, 30)),
        "changes_s": changes,
        "slew_ppm": random.uniform(-slew_ppm, slew_ppm, len(changes)),
    }
    return SlewedHost(**(plain | parts))


@dataclass(frozen=True, kw_only=True, slots=True)
class Solved:
    """A solved group, its clocks and the rows of ``model.clock``."""

    group: Group
    clocks: Sequence[HostClock]
    rows: dict[str, NDArray[Any]]

    def error_of(
        self, hosts: Sequence[SlewedHost], end_s: float
    ) -> tuple[int, NDArray[np.int64]]:
        """Return how often a mapped instant lies outside its band, and the bands."""
        seconds = np.linspace(0.5, end_s - 0.5, 2001)
        truth = hosts[self.group.clocks[self.group.reference]].monotonic(seconds)
        outside, bands = 0, []
        for at in self.group.clocks:
            own = hosts[at].monotonic(seconds)
            mine = self.rows["host_id"] == self.clocks[at].host_id
            row = np.searchsorted(self.rows["from_ns"][mine], own, side="right") - 1
            part = {name: values[mine][row] for name, values in self.rows.items()}
            shift = np.rint((own - part["from_ns"]) * part["rate"]).astype(np.int64)
            off = own + part["offset_ns"] + shift - truth
            outside += int((np.abs(off) > part["error_ns"]).sum())
            if at != self.group.clocks[self.group.reference]:
                bands.append(part["error_ns"])
        return outside, np.concatenate(bands)


@dataclass(frozen=True, kw_only=True, slots=True)
class Recorded:
    """What the model is given: clocks with their slew, bounds and readings."""

    clocks: Sequence[HostClock]
    bound: pl.DataFrame
    readings: pl.DataFrame


def recorded(
    hosts: Sequence[SlewedHost],
    arrival: NDArray[np.float64],
    completion: NDArray[np.float64],
    *,
    use_raw: bool = True,
) -> Recorded:
    """Return what hosts record of rendezvous [host, number] in true seconds."""
    end_s = float(completion.max()) + 1
    readings = pl.concat(host.readings(at, end_s) for at, host in enumerate(hosts))
    if not use_raw:
        readings = readings.with_columns(monotonic_raw_ns="monotonic_ns")
    clocks, _ = host_clocks(
        pl.DataFrame(
            {
                "host_id": range(len(hosts)),
                "host_name": [f"h{at}" for at in range(len(hosts))],
                "start_ns": [int(h.monotonic(np.zeros(1))[0]) for h in hosts],
                "stop_ns": [int(h.monotonic(np.array([end_s]))[0]) for h in hosts],
                "bundle_count": [1] * len(hosts),
            }
        ),
        readings,
    )
    count = arrival.shape[1]
    bound = pl.concat(
        pl.DataFrame(
            {
                "number": range(count),
                "host_id": [at] * count,
                "arrival_ns": host.monotonic(arrival[at]),
                "completion_ns": host.monotonic(completion[at]),
                "is_release": [True] * count,
            }
        )
        for at, host in enumerate(hosts)
    ).sort("number", "host_id")
    return Recorded(clocks=clocks, bound=bound, readings=readings)


def solved(
    hosts: Sequence[SlewedHost],
    arrival: NDArray[np.float64],
    completion: NDArray[np.float64],
    *,
    use_raw: bool = True,
) -> Solved:
    """Return what the model makes of rendezvous [host, number] in true seconds."""
    made = recorded(hosts, arrival, completion, use_raw=use_raw)
    constraints, _ = clock_model.constraints_of(made.bound, made.clocks)
    solution = clock_solver.solve(constraints, extents=[None] * len(hosts))
    (group,) = solution.groups
    rows = clock_tables.clock_rows(group, made.clocks, ["rendezvous"] * len(hosts))
    return Solved(group=group, clocks=made.clocks, rows=rows)
