"""Return rough straight lines from each host's clock to a common time.

A line only conditions the numbers: it brings clocks that may lie 10^18 ns apart to
differences that a double holds exactly.  It proves nothing, so a bad line costs width
and never soundness (``clock_bounds.RATE_LIMIT`` covers what is left of its slope).

Times are subtracted as int64 before anything becomes a double.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from workbench.analysis.clock_bounds import Constraints

SLOPE_LIMIT = 500e-6
"""The kernel slews a clock by at most this; a fit beyond it is noise, not a clock."""

WORST_PART = 0.2
"""Share of the points that a fit leaves out, twice: late members, preempted exits."""

FIT_POINTS = 3
"""Fewest points that may give a slope."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """``common = common_ns + (own - own_ns) * (1 + slope)``."""

    own_ns: int
    common_ns: int
    slope: float

    def common(self, own: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return common times of own times."""
        since = own - self.own_ns
        return self.common_ns + since + np.rint(self.slope * since).astype(np.int64)

    def own(self, common: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return own times of common times."""
        since = common - self.common_ns
        back = np.rint(since * (self.slope / (1.0 + self.slope))).astype(np.int64)
        return self.own_ns + since - back


def rough_lines(constraints: Constraints, *, reference: int) -> list[Line]:
    """Return one line a clock, the reference's the identity.

    Lines are fitted along a widest spanning tree (most shared rendezvous first), for
    clocks that never meet the reference itself.

    Parameters
    ----------
    constraints
        Rendezvous of clocks that are all connected by shared rendezvous.
    reference
        Index of the clock whose time is the common time.
    """
    points = [
        _points_of(constraints, clock) for clock in range(constraints.clock_count)
    ]
    start = int(points[reference][1][0])
    lines = {reference: Line(own_ns=start, common_ns=start, slope=0.0)}
    for parent, clock in spanning_tree(constraints.meetings(), reference):
        _, at_parent, at_clock = np.intersect1d(
            points[parent][0], points[clock][0], assume_unique=True, return_indices=True
        )
        common = lines[parent].common(points[parent][1][at_parent])
        lines[clock] = fit(points[clock][1][at_clock], common)
    return [lines[clock] for clock in range(constraints.clock_count)]


def _points_of(
    constraints: Constraints, clock: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return rendezvous and rough time (completion, else arrival) of one clock."""
    mine = constraints.clock == clock
    rough = np.where(
        constraints.has_completion, constraints.completion_ns, constraints.arrival_ns
    )
    return constraints.rendezvous[mine], rough[mine]


def spanning_tree(meetings: NDArray[np.int64], root: int) -> list[tuple[int, int]]:
    """Return (parent, child) edges of the widest spanning tree, parents first."""
    done, edges = [root], []
    left = [clock for clock in range(len(meetings)) if clock != root]
    while left:
        grid = meetings[np.ix_(done, left)]
        if not grid.any():
            raise ValueError(f"clocks {left} share no rendezvous with {done}")
        near, far = np.unravel_index(grid.argmax(), grid.shape)
        edges.append((done[near], left[far]))
        done.append(left.pop(far))
    return edges


def fit(own: NDArray[np.int64], common: NDArray[np.int64]) -> Line:
    """Return a least-squares line, the worst fifth of the points left out twice."""
    own_ns = int(own[0])
    shift = common - own
    shift_ns = int(np.sort(shift)[len(shift) // 2])
    time = (own - own_ns).astype(np.float64)
    rest = (shift - shift_ns).astype(np.float64)
    slope, at_start = _least_squares(time, rest)
    for _ in range(2):
        far = np.abs(rest - at_start - slope * time)
        keep = far <= np.quantile(far, 1.0 - WORST_PART)
        time, rest = time[keep], rest[keep]
        slope, at_start = _least_squares(time, rest)
    return Line(
        own_ns=own_ns, common_ns=own_ns + shift_ns + round(at_start), slope=slope
    )


def _least_squares(
    time: NDArray[np.float64], rest: NDArray[np.float64]
) -> tuple[float, float]:
    """Return slope and value at time 0; no slope where it would be noise."""
    middle, mean = float(time.mean()), float(rest.mean())
    away = time - middle
    spread = float(away @ away)
    if len(time) < FIT_POINTS or spread == 0.0:
        return 0.0, mean
    slope = float(away @ (rest - mean)) / spread
    if abs(slope) > SLOPE_LIMIT:
        return 0.0, mean
    return slope, mean - slope * middle
