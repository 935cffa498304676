"""Return what rendezvous prove about the difference of two clocks.

Law: a member of a rendezvous does not complete before the last arrival that it waits
for.  With ``f`` from own clock to common time, arrival ``a`` on clock ``j`` and
completion ``c`` on clock ``i`` of one rendezvous give ``f_j(a) <= f_i(c)``.

Write ``f(t) = rough line + d``.  Each law is then an upper bound of ``d_j - d_i`` at
one instant (a *point*).  Of each ordered pair and time window the tightest point is
kept (leaving some out is sound), and the bound at any knot follows in closed form from
the two-variable linear program of that pair: either a chord of two points astride the
knot, or a line from a point of the opposite direction through a nearer one, or one
point and the limit of the rate.

Wander: ``d_j - d_i`` is no straight line, for NTP slews and crystals warm up.  If its
rate strays by at most ``wander`` from a constant, each point, loosened by ``wander``
times its distance from the knot, still bounds it, and so does every chord of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from workbench.analysis.clock_line import Line

RATE_LIMIT = 1e-3
"""Largest rate of ``d``: 500 ppm of slew beside a rough line of at most 500 ppm."""

FOREIGN_RATE_LIMIT = 1e-2
"""The same where a clock is that of an imported file: nobody knows what keeps it."""

ROUNDING_NS = 2.0
"""What rounding common times to whole nanoseconds can cost one point."""

CHUNK = 4096
"""Rendezvous made dense at a time; bounds the memory, changes no result."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Constraints:
    """Latest arrival and earliest completion of each clock at each rendezvous.

    One entry an element; sorted by rendezvous, whose numbers follow time.  A clock
    whose arrival nobody waits for, or whose completion waits for nobody, has only the
    other of the two.
    """

    clock_count: int
    rendezvous: NDArray[np.int64]
    clock: NDArray[np.int64]
    arrival_ns: NDArray[np.int64]
    has_arrival: NDArray[np.bool_]
    completion_ns: NDArray[np.int64]
    has_completion: NDArray[np.bool_]
    rate_limit: float = RATE_LIMIT
    """Largest rate of the difference of two of the clocks, beside the rough lines."""

    def meetings(self) -> NDArray[np.int64]:
        """Return in how many rendezvous each two clocks met."""
        met = np.zeros((self.clock_count, self.clock_count), dtype=np.int64)
        for low, high in self.chunks():
            here = np.zeros((self.clock_count, self._width(low, high)), np.float32)
            here[self.clock[low:high], self._column(low, high)] = 1.0
            met += (here @ here.T).astype(np.int64)
        np.fill_diagonal(met, 0)
        return met

    def chunks(self) -> list[tuple[int, int]]:
        """Return ranges of entries that hold whole rendezvous, CHUNK at most."""
        if not len(self.rendezvous):
            return []
        first = np.flatnonzero(np.diff(self.rendezvous, prepend=-1))
        edges = [*first[::CHUNK].tolist(), len(self.rendezvous)]
        return list(pairwise(edges))

    def only(self, clocks: Sequence[int]) -> Constraints:
        """Return the entries of some clocks, renumbered in their order."""
        number = np.full(self.clock_count, -1)
        number[list(clocks)] = np.arange(len(clocks))
        keep = number[self.clock] >= 0
        mine = self.where(keep)
        return replace(mine, clock_count=len(clocks), clock=number[mine.clock]).shared()

    def shared(self) -> Constraints:
        """Return the entries of rendezvous at which two clocks or more met."""
        _, where, count = np.unique(
            self.rendezvous, return_inverse=True, return_counts=True
        )
        return self.where(count[where] > 1)

    def where(self, keep: NDArray[Any]) -> Constraints:
        """Return some entries: those that are True, or by their index."""
        return Constraints(
            clock_count=self.clock_count,
            rendezvous=self.rendezvous[keep],
            clock=self.clock[keep],
            arrival_ns=self.arrival_ns[keep],
            has_arrival=self.has_arrival[keep],
            completion_ns=self.completion_ns[keep],
            has_completion=self.has_completion[keep],
            rate_limit=self.rate_limit,
        )

    def rendezvous_counts(self) -> NDArray[np.int64]:
        """Return at how many rendezvous each clock took part."""
        return np.bincount(self.clock, minlength=self.clock_count)

    def dense(
        self, low: int, high: int, times: CommonTimes
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return arrival (-inf: none), completion (inf: none) [clock, rendezvous]."""
        shape = (self.clock_count, self._width(low, high))
        at = (self.clock[low:high], self._column(low, high))
        arrival, completion = np.full(shape, -np.inf), np.full(shape, np.inf)
        arrival[at] = np.where(
            self.has_arrival[low:high], times.arrival[low:high], -np.inf
        )
        completion[at] = np.where(
            self.has_completion[low:high], times.completion[low:high], np.inf
        )
        return arrival, completion

    def _column(self, low: int, high: int) -> NDArray[np.int64]:
        here = self.rendezvous[low:high]
        return np.cumsum(np.diff(here, prepend=here[0]) != 0)

    def _width(self, low: int, high: int) -> int:
        return int(self._column(low, high)[-1]) + 1


@dataclass(frozen=True, kw_only=True, slots=True)
class CommonTimes:
    """Arrival and completion of each entry, rough common time less an origin."""

    arrival: NDArray[np.float64]
    completion: NDArray[np.float64]

    def extent(self, constraints: Constraints) -> tuple[float, float]:
        """Return the first and the last time of any constraint."""
        every = np.concatenate(
            [
                self.arrival[constraints.has_arrival],
                self.completion[constraints.has_completion],
            ]
        )
        return float(every.min()), float(every.max())


def common_times(
    constraints: Constraints, lines: Sequence[Line], *, origin_ns: int
) -> CommonTimes:
    """Return the constraints' times on the rough common time line."""
    arrival = np.zeros(len(constraints.clock))
    completion = np.zeros(len(constraints.clock))
    for clock, line in enumerate(lines):
        mine = constraints.clock == clock
        arrival[mine] = line.common(constraints.arrival_ns[mine]) - origin_ns
        completion[mine] = line.common(constraints.completion_ns[mine]) - origin_ns
    return CommonTimes(arrival=arrival, completion=completion)


def tightest_points(
    constraints: Constraints, times: CommonTimes, *, windows: int, reference: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return x, y [completing clock i, arriving clock j, window]: d_j - d_i <= y at x.

    x is the arrival.  ``d_i`` belongs to the completion, ``y`` later; what it can move
    in that time is added to ``y``.  The reference's ``d`` is nothing at any time, so
    there x is the instant of the other and nothing is added.  The third array has the
    begin of each window.
    """
    number = np.unique(constraints.rendezvous)
    edge = number[np.linspace(0, len(number), windows + 1).astype(int)[:-1]]
    window_of = np.searchsorted(edge, constraints.rendezvous, side="right") - 1
    count = constraints.clock_count
    x = np.full((windows, count, count), np.nan)
    y = np.full((windows, count, count), np.inf)
    for window in range(windows):
        low, high = np.searchsorted(window_of, [window, window + 1])
        for start, end in _parts(constraints, int(low), int(high)):
            dense = constraints.dense(start, end, times)
            _tighten(*dense, x[window], y[window], reference)
    moves = constraints.rate_limit * np.abs(y)
    moves[:, reference] = moves[:, :, reference] = 0.0
    y += moves + ROUNDING_NS
    y[:, np.arange(count), np.arange(count)] = np.inf
    first = np.searchsorted(window_of, np.arange(windows))
    begin = np.where(constraints.has_arrival, times.arrival, times.completion)[first]
    return (
        x.transpose(1, 2, 0).copy(),
        y.transpose(1, 2, 0).copy(),
        np.maximum.accumulate(begin),
    )


def _parts(constraints: Constraints, low: int, high: int) -> list[tuple[int, int]]:
    """Return ranges within [low, high) of whole rendezvous, CHUNK at most."""
    if low == high:
        return []
    first = low + np.flatnonzero(np.diff(constraints.rendezvous[low:high], prepend=-1))
    edges = [*first[::CHUNK].tolist(), high]
    return list(pairwise(edges))


def _tighten(
    arrival: NDArray[np.float64],
    completion: NDArray[np.float64],
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    reference: int,
) -> None:
    """Put into x, y what this part proves more tightly."""
    every = np.arange(len(arrival))
    for completing in range(len(completion)):
        slack = completion[completing] - arrival
        best = slack.argmin(axis=1)
        tighter = slack[every, best] < y[completing]
        y[completing, tighter] = slack[every, best][tighter]
        x[completing, tighter] = arrival[every, best][tighter]
        if tighter[reference]:
            x[completing, reference] = completion[completing, best[reference]]


def pair_bounds(
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    at: NDArray[np.float64],
    knots: NDArray[np.float64],
    *,
    wander: float,
    looks: int,
    rate_limit: float = RATE_LIMIT,
) -> NDArray[np.float64]:
    """Return upper[i, j, knot] of d_j - d_i from the points of each pair alone.

    Parameters
    ----------
    x, y
        Points [i, j, point]: d_j - d_i <= y at x; y is inf where there is none.
    at
        About when the points of each number lie, ascending.
    knots
        Times at which the bounds are wanted.
    wander
        How far the rate of d_j - d_i may stray from a constant, ns per ns.
    looks
        Points of each pair that are looked at for a knot; wander makes those far away
        matter little, and leaving some out is sound.
    rate_limit
        Largest rate of d_j - d_i.

    Notes
    -----
    With H = y + wander |knot - x| of an upper point and L the same of a lower one, for
    every constant rate s: d <= H + s (knot - x_H) and d >= L + s (knot - x_L).
    Eliminating s between two of them gives the chord and the line beyond.
    """
    count = len(x)
    upper = np.full((count, count, len(knots)), np.inf)
    x = np.where(np.isfinite(y), x, 0.0)
    for m, knot in enumerate(knots):
        seen = _looked_at(at, knot, looks)
        away, high = knot - x[:, :, seen], y[:, :, seen]
        loose = wander * np.abs(away)
        for i in range(count):
            upper[i, :, m] = _bound_at(
                away=away[i],
                high=high[i] + loose[i],
                back=away[:, i],
                low=-high[:, i] - loose[:, i],
                rate_limit=rate_limit,
            )
            upper[i, i, m] = 0.0
    return upper


def _looked_at(at: NDArray[np.float64], knot: float, looks: int) -> NDArray[np.int64]:
    """Return points for one knot: half of them the nearest, half spread over all."""
    if len(at) <= looks:
        return np.arange(len(at))
    half = looks // 2
    first = int(np.searchsorted(at, knot)) - half // 2
    first = min(max(first, 0), len(at) - half)
    spread = np.linspace(0, len(at) - 1, half).astype(int)
    return np.unique(np.concatenate([np.arange(first, first + half), spread]))


def _bound_at(
    *,
    away: NDArray[np.float64],
    high: NDArray[np.float64],
    back: NDArray[np.float64],
    low: NDArray[np.float64],
    rate_limit: float,
) -> NDArray[np.float64]:
    """Return the least upper bound of each pair [j] at one knot."""
    bound = (high + rate_limit * np.abs(away)).min(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        before, after = away[:, :, None], away[:, None, :]
        part = before / (before - after)
        chord = high[:, :, None] + (high[:, None, :] - high[:, :, None]) * part
        chord[~((before > 0) & (after < 0))] = np.inf
        start, turn = back[:, :, None], away[:, None, :]
        reach = turn / (start - turn)
        beyond = high[:, None, :] + (high[:, None, :] - low[:, :, None]) * reach
        beyond[~(reach > 0)] = np.inf
    for found in (chord, beyond):
        found[np.isnan(found)] = np.inf
        np.minimum(bound, found.min(axis=(1, 2)), out=bound)
    return bound
