"""Jobs on hosts whose clocks are known: what the clock tests compare with.

Hosts meet in rendezvous in true time; each reads its own clock, which has an offset, a
rate and a sinusoid.  Whole nanoseconds up to 10^18, as kernels give them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from workbench.analysis.clock_bounds import Constraints

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from workbench.analysis.clock_solver import Group


@dataclass(frozen=True, kw_only=True, slots=True)
class SimulatedJob:
    """Arrivals and completions in true seconds [host, rendezvous], and the clocks."""

    arrival: NDArray[np.float64]
    completion: NDArray[np.float64]
    offset_ns: tuple[int, ...]
    rate: NDArray[np.float64]
    wander: NDArray[np.float64]
    period: float
    phase: NDArray[np.float64]

    @property
    def end(self) -> float:
        """Return the true time of the last completion."""
        return float(np.nanmax(self.completion))

    def own(self, host: int, seconds: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return what a host's clock shows at true times."""
        turn = 2 * np.pi * seconds / self.period + self.phase[host]
        height = self.wander[host] * self.period / (2 * np.pi)
        read = seconds * (1 + self.rate[host]) + height * np.sin(turn)
        return np.rint(read * 1e9).astype(np.int64) + self.offset_ns[host]

    def constraints(self, *, shift: dict[int, int] | None = None) -> Constraints:
        """Return what the rendezvous say; `shift` makes a host's numbers wrong."""
        number, host = np.nonzero(~np.isnan(self.arrival.T))
        arrival = np.zeros(len(number), dtype=np.int64)
        completion = np.zeros(len(number), dtype=np.int64)
        for each in range(len(self.arrival)):
            mine = host == each
            at = number[mine]
            arrival[mine] = self.own(each, self.arrival[each, at])
            completion[mine] = self.own(each, self.completion[each, at])
        for each, by in (shift or {}).items():
            number = np.where(host == each, number + by, number)
        order = np.lexsort((host, number))
        every = np.ones(len(number), dtype=bool)
        return Constraints(
            clock_count=len(self.arrival),
            rendezvous=number[order].astype(np.int64),
            clock=host[order].astype(np.int64),
            arrival_ns=arrival[order],
            has_arrival=every,
            completion_ns=completion[order],
            has_completion=every,
        ).shared()


def simulated_job(
    hosts: int,
    count: int,
    *,
    step: float = 0.3,
    jitter: float = 1e-3,
    late: Callable[[int], dict[int, float]] | None = None,
    groups: Sequence[Sequence[int]] | None = None,
    rate_ppm: float = 40.0,
    wander_ppm: float = 0.0,
    period: float = 100.0,
    seed: int = 0,
) -> SimulatedJob:
    """Return a bulk-synchronous job: step, jitter, latency of 20 us, exits of 20 us.

    Parameters
    ----------
    hosts, count
        Hosts, and rendezvous of each group.
    late
        From the number of a rendezvous to how much later than drawn each host comes.
    groups
        Hosts of each rendezvous in turn; all hosts at each if not given.
    """
    random = np.random.default_rng(seed)
    arrival = np.full((hosts, count), np.nan)
    completion = arrival.copy()
    ready = np.zeros(hosts)
    for number in range(count):
        every = np.arange(hosts)
        member = every if groups is None else np.array(groups[number % len(groups)])
        comes = ready[member] + step + random.exponential(jitter, len(member))
        for host, by in (late(number) if late else {}).items():
            comes[member == host] += by
        leaves = comes.max() + 20e-6 + random.exponential(20e-6, len(member))
        arrival[member, number], completion[member, number] = comes, leaves
        ready[member] = leaves
    rate = random.uniform(-rate_ppm, rate_ppm, hosts) * 1e-6
    return SimulatedJob(
        arrival=arrival,
        completion=completion,
        offset_ns=tuple(int(at) for at in random.integers(0, 10**18, hosts)),
        rate=rate,
        wander=np.full(hosts, wander_ppm * 1e-6),
        period=period,
        phase=random.uniform(0, 2 * np.pi, hosts),
    )


def outside(group: Group, job: SimulatedJob) -> tuple[int, float]:
    """Return at how many instants a true difference lies outside, and the worst part.

    At 2,001 true instants each host's clock is read and mapped; the mapped times of one
    instant should be equal, so what they differ by is the error made.
    """
    seconds = np.linspace(0.0, job.end, 2001)
    middle, between = group.middle(), group.between_knots()
    mapped = []
    for place, host in enumerate(group.clocks):
        common = group.lines[place].common(job.own(host, seconds)) - group.origin_ns
        mapped.append(common + np.interp(common, group.knots, middle[place]))
    at_knots = group.pair_error()
    error = np.maximum(at_knots[..., :-1], at_knots[..., 1:]) + between
    at = np.searchsorted(group.knots, mapped[group.reference], side="right") - 1
    at = np.clip(at, 0, len(between) - 1)
    count, worst = 0, 0.0
    for one in range(len(mapped)):
        for other in range(one):
            part = np.abs(mapped[one] - mapped[other]) / error[one, other, at]
            count += int((part > 1.0).sum())
            worst = max(worst, float(part.max()))
    return count, worst
