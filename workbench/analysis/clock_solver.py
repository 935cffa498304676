"""Return the proved difference of every two clocks, from rendezvous alone.

1. Clocks that share rendezvous form a group; its reference is the clock with most of
   them (ties: the first in the caller's order).
2. ``clock_line`` gives rough lines, ``clock_bounds`` the bounds of each pair at knots.
3. Closure: ``d_k - d_i <= (d_k - d_j) + (d_j - d_i)``, shortest paths over the clocks
   at each knot (Floyd-Warshall).  The closed bounds at the knots are then points of
   each pair in a second round, which carries slope through clocks that met only others.
4. A negative cycle says that the constraints contradict one another.  The smallest
   wander that leaves none is sought; the model allows twice as much, at least 2 ppm
   between two clocks.  Beyond 50 ppm the shortest negative cycle is reported, and its
   clocks are not joined.

Between two knots a straight line obeys the interpolated bounds; wander adds at most
``wander * spacing / 2`` to that, which the error of an interval carries.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from workbench.analysis import clock_bounds, clock_line
from workbench.analysis.clock_closure import (
    Contradiction,
    close,
    contradiction,
    is_feasible,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from workbench.analysis.clock_bounds import CommonTimes, Constraints
    from workbench.analysis.clock_line import Line

WANDER_FLOOR = 2e-6
"""Least wander between two clocks that is allowed for: 1 ppm of either.  With 1 ppm
between both, truths were seen outside where every host wandered by 1 ppm."""

WANDER_LIMIT = 50e-6
"""Beyond this a contradiction is one; no healthy clock strays so far."""

WANDER_MARGIN = 2.0
"""Allowed wander over the smallest that reconciles; less leaves truths outside."""

BISECTIONS = 7
ROUNDS = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Fineness:
    """How finely a group is solved: cost goes as hosts^2 knots looks^2."""

    hosts: int
    """Largest group it is meant for."""

    knots: int
    """Inside the matched interval."""

    windows: int
    looks: int


FINENESS = (
    Fineness(hosts=2, knots=257, windows=512, looks=64),
    Fineness(hosts=8, knots=65, windows=256, looks=32),
    Fineness(hosts=32, knots=33, windows=128, looks=24),
    Fineness(hosts=2**31, knots=17, windows=64, looks=16),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """Clocks on one time line: the reference's own."""

    clocks: tuple[int, ...]
    """Indices of the caller; ``upper`` and ``lines`` follow this order."""

    reference: int
    """Position of the reference in ``clocks``."""

    lines: tuple[Line, ...]
    origin_ns: int
    knots: NDArray[np.float64]
    """Common time less the origin."""

    upper: NDArray[np.float64]
    """[i, j, knot]: largest d_j - d_i."""

    wander: float
    matched: tuple[float, float]
    """First and last constraint, common time less the origin."""

    rendezvous_counts: NDArray[np.int64]

    is_narrowed: NDArray[np.bool_] | None = None
    """Clocks whose bands rest on stated wall clocks too."""

    def middle(self) -> NDArray[np.float64]:
        """Return the middle of each clock's band to the reference [clock, knot]."""
        return (self.upper[self.reference] - self.upper[:, self.reference]) / 2

    def half_width(self) -> NDArray[np.float64]:
        """Return the half-width of each clock's band to the reference."""
        return (self.upper[self.reference] + self.upper[:, self.reference]) / 2

    def pair_error(self) -> NDArray[np.float64]:
        """Return the error of the difference of two clocks' times [i, j, knot].

        The pair's own band need not lie about the difference of the two middles, which
        is what mapped times differ by; the distance of the two is added.
        """
        middle = self.middle()
        swapped = self.upper.transpose(1, 0, 2)
        centre = (self.upper - swapped) / 2
        told = middle[None] - middle[:, None]
        return (self.upper + swapped) / 2 + np.abs(centre - told)

    def between_knots(self) -> NDArray[np.float64]:
        """Return what wander can add inside each interval of two knots."""
        return self.wander * np.diff(self.knots) / 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Solution:
    """Groups of clocks (a clock alone is one too) and what contradicted."""

    groups: tuple[Group, ...]
    alone: tuple[int, ...]
    contradictions: tuple[Contradiction, ...]


def solve(
    constraints: Constraints,
    *,
    extents: Sequence[tuple[int, int] | None],
    foreign: Sequence[bool] | None = None,
) -> Solution:
    """Return all groups of clocks with their closed bounds.

    Parameters
    ----------
    constraints
        What each rendezvous says.  Clocks are in the order in which ties between
        possible references are settled.
    extents
        For each clock the own times between which bounds are wanted (the capture's),
        or None where the matched interval is enough.
    foreign
        Clocks of imported files, of which nobody knows what keeps them.
    """
    groups: list[Group] = []
    alone: list[int] = []
    contradictions: list[Contradiction] = []
    waiting = components(constraints, range(constraints.clock_count))
    while waiting:
        clocks = waiting.pop(0)
        if len(clocks) == 1:
            alone.append(clocks[0])
            continue
        limit = clock_bounds.RATE_LIMIT
        if foreign and any(foreign[clock] for clock in clocks):
            limit = clock_bounds.FOREIGN_RATE_LIMIT
        found = _solve_group(replace(constraints, rate_limit=limit), clocks, extents)
        if isinstance(found, Contradiction):
            contradictions.append(found)
            alone.extend(found.separated)
            rest = [clock for clock in clocks if clock not in found.separated]
            waiting.extend(components(constraints, rest))
        elif len(parts := _joined(found)) > 1:
            for part in parts:
                waiting.extend(components(constraints, [clocks[at] for at in part]))
        else:
            groups.append(found)
    return Solution(
        groups=tuple(groups),
        alone=tuple(sorted(alone)),
        contradictions=tuple(contradictions),
    )


def components(constraints: Constraints, clocks: Sequence[int]) -> list[list[int]]:
    """Return clocks grouped by shared rendezvous, in the caller's order."""
    if not clocks:
        return []
    return _connected(list(clocks), constraints.only(clocks).meetings() > 0)


def _connected(clocks: list[int], met: NDArray[np.bool_]) -> list[list[int]]:
    """Return the connected parts of a symmetric relation."""
    left, parts = set(range(len(clocks))), []
    while left:
        part, edge = set(), [min(left)]
        while edge:
            at = edge.pop()
            if at not in part:
                part.add(at)
                edge.extend(np.flatnonzero(met[at]).tolist())
        left -= part
        parts.append([clocks[at] for at in sorted(part)])
    return parts


def _joined(group: Group) -> list[list[int]]:
    """Return positions of clocks that are bounded against each other on both sides."""
    finite = np.array(np.isfinite(group.upper).all(axis=2))
    return _connected(list(range(len(group.clocks))), np.logical_and(finite, finite.T))


def _solve_group(
    constraints: Constraints,
    clocks: Sequence[int],
    extents: Sequence[tuple[int, int] | None],
) -> Group | Contradiction:
    """Return the closed bounds of connected clocks, or why there are none."""
    mine = constraints.only(clocks)
    counts = mine.rendezvous_counts()
    reference = int(counts.argmax())
    lines = clock_line.rough_lines(mine, reference=reference)
    origin_ns = lines[reference].common_ns
    mine = _in_time_order(mine, lines, origin_ns)
    times = clock_bounds.common_times(mine, lines, origin_ns=origin_ns)
    matched = times.extent(mine)
    fineness = next(each for each in FINENESS if len(clocks) <= each.hosts)
    inner = np.linspace(matched[0], max(matched[1], matched[0] + 1.0), fineness.knots)
    ends = _ends(lines, [extents[clock] for clock in clocks], origin_ns)
    knots = _knots(inner, ends)
    points = Points.of(mine, times, fineness, reference)
    wander, open_bounds = _wander(points, knots)
    if wander is None:
        return contradiction(
            open_bounds, clocks, knots, lines[reference].common_ns, reference
        )
    return Group(
        clocks=tuple(clocks),
        reference=reference,
        lines=tuple(lines),
        origin_ns=origin_ns,
        knots=knots,
        upper=bounds(points, knots, wander=wander),
        wander=wander,
        matched=matched,
        rendezvous_counts=counts,
    )


def _in_time_order(
    constraints: Constraints, lines: Sequence[Line], origin_ns: int
) -> Constraints:
    """Return the constraints with rendezvous numbered by their first time."""
    times = clock_bounds.common_times(constraints, lines, origin_ns=origin_ns)
    first = np.where(constraints.has_arrival, times.arrival, times.completion)
    _, number = np.unique(constraints.rendezvous, return_inverse=True)
    start = np.full(int(number.max()) + 1, np.inf)
    np.minimum.at(start, number, first)
    rank = np.empty(len(start), dtype=np.int64)
    rank[np.argsort(start, kind="stable")] = np.arange(len(start))
    order = np.argsort(rank[number], kind="stable")
    return replace(constraints.where(order), rendezvous=rank[number][order])


def _ends(
    lines: Sequence[Line],
    extents: Sequence[tuple[int, int] | None],
    origin_ns: int,
) -> tuple[float, float]:
    """Return when the first capture began and the last ended, common time."""
    ends = [
        line.common(np.array(extent, dtype=np.int64)) - origin_ns
        for line, extent in zip(lines, extents, strict=True)
        if extent is not None
    ]
    first = min([float(end[0]) for end in ends], default=np.inf)
    last = max([float(end[1]) for end in ends], default=-np.inf)
    return first, last


def _knots(
    inner: NDArray[np.float64], ends: tuple[float, float]
) -> NDArray[np.float64]:
    """Return the knots of the matched interval with the ends of the captures."""
    before = [ends[0]] if ends[0] < inner[0] else []
    after = [ends[1]] if ends[1] > inner[-1] else []
    return np.unique(np.rint(np.concatenate([before, inner, after])))


@dataclass(frozen=True, kw_only=True, slots=True)
class Points:
    """What each ordered pair's own rendezvous prove: d_j - d_i <= y at x."""

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    at: NDArray[np.float64]
    looks: int
    rate_limit: float

    @classmethod
    def of(
        cls,
        constraints: Constraints,
        times: CommonTimes,
        fineness: Fineness,
        reference: int,
    ) -> Points:
        """Return the tightest points of windows of equal counts."""
        windows = min(fineness.windows, len(np.unique(constraints.rendezvous)))
        x, y, at = clock_bounds.tightest_points(
            constraints, times, windows=windows, reference=reference
        )
        limit = constraints.rate_limit
        return cls(x=x, y=y, at=at, looks=fineness.looks, rate_limit=limit)

    def bounds(
        self, knots: NDArray[np.float64], *, wander: float
    ) -> NDArray[np.float64]:
        """Return the upper bounds of each pair at the knots, not closed."""
        return clock_bounds.pair_bounds(
            self.x,
            self.y,
            self.at,
            knots,
            wander=wander,
            looks=self.looks,
            rate_limit=self.rate_limit,
        )


def bounds(
    points: Points, knots: NDArray[np.float64], *, wander: float
) -> NDArray[np.float64]:
    """Return the closed upper bounds [i, j, knot] for one wander."""
    upper = close(points.bounds(knots, wander=wander))
    for _ in range(ROUNDS - 1):
        x = np.broadcast_to(knots, upper.shape)
        known = replace(points, x=x, y=upper, at=knots)
        again = known.bounds(knots, wander=wander)
        upper = close(np.minimum(upper, again))
    return upper


def _wander(
    points: Points, knots: NDArray[np.float64]
) -> tuple[float | None, NDArray[np.float64]]:
    """Return the wander to allow (None: none up to the limit) and the last bounds."""

    def tried(wander: float) -> NDArray[np.float64]:
        return points.bounds(knots, wander=wander)

    low = WANDER_FLOOR / WANDER_MARGIN
    upper = tried(low)
    if is_feasible(upper):
        return WANDER_FLOOR, upper
    upper = tried(WANDER_LIMIT)
    if not is_feasible(upper):
        return None, upper
    high = WANDER_LIMIT
    for _ in range(BISECTIONS):
        middle = float(np.sqrt(low * high))
        if is_feasible(tried(middle)):
            high = middle
        else:
            low = middle
    return WANDER_MARGIN * high, upper
