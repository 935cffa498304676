"""Tighten bounds by every path over other clocks, and say where they contradict.

Floyd and Warshall's shortest paths: ``d_k - d_i <= (d_k - d_j) + (d_j - d_i)``.  A
clock bounded below its own time closes a negative cycle: the rendezvous along it cannot
all be true.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True, slots=True)
class Contradiction:
    """A cycle of clocks whose constraints cannot all be true."""

    clocks: tuple[int, ...]
    """The cycle in order; each clock is bounded by the one before it."""

    excess_ns: int
    """By how much the cycle's bounds fall short of zero, all wander allowed."""

    at_ns: int
    """Where, in the time of ``time_of``."""

    time_of: int
    separated: tuple[int, ...]
    """Clocks that are therefore not joined to others."""


def close(upper: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the bounds tightened by every path over other clocks."""
    closed = upper.copy()
    for middle in range(len(closed)):
        np.minimum(closed, closed[:, middle, None] + closed[None, middle], out=closed)
    return closed


def is_feasible(upper: NDArray[np.float64]) -> bool:
    """Return whether no clock is bounded below its own time."""
    return bool(np.einsum("iim->im", close(upper)).min() >= 0.0)


def contradiction(
    upper: NDArray[np.float64],
    clocks: Sequence[int],
    knots: NDArray[np.float64],
    origin_ns: int,
    reference: int,
) -> Contradiction:
    """Return the shortest negative cycle and the clocks that it separates."""
    both = (upper + upper.transpose(1, 0, 2)).min(axis=2)
    np.fill_diagonal(both, 0.0)
    if (both < 0).any():
        i, j = (int(at) for at in np.unravel_index(both.argmin(), both.shape))
        knot = int((upper[i, j] + upper[j, i]).argmin())
        cycle, excess = (i, j), float(both[i, j])
        blamed = _most_blamed(both < 0, cycle)
    else:
        negative = np.einsum("iim->im", close(upper)).min(axis=0)
        knot = int(negative.argmin())
        cycle, excess = shortest_negative_cycle(upper[:, :, knot])
        blamed = cycle
    return Contradiction(
        clocks=tuple(clocks[at] for at in cycle),
        excess_ns=round(-excess),
        at_ns=origin_ns + round(knots[knot]),
        time_of=clocks[reference],
        separated=tuple(clocks[at] for at in sorted(set(blamed))),
    )


def _most_blamed(
    contradicts: NDArray[np.bool_], cycle: tuple[int, ...]
) -> tuple[int, ...]:
    """Return the clock that contradicts more others than any other does, or the cycle.

    One clock against many is at fault by itself; between two nothing tells which.
    """
    counts = contradicts.sum(axis=1)
    most = np.flatnonzero(counts == counts.max())
    return (int(most[0]),) if len(most) == 1 else cycle


def shortest_negative_cycle(
    upper: NDArray[np.float64],
) -> tuple[tuple[int, ...], float]:
    """Return a negative cycle with the fewest clocks, and its sum."""
    count = len(upper)
    paths, step = [upper.copy()], []
    np.fill_diagonal(paths[0], np.inf)
    while len(paths) <= count:
        sums = paths[-1][:, :, None] + paths[0][None]
        step.append(sums.argmin(axis=1))
        paths.append(sums.min(axis=1))
        start = int(paths[-1].diagonal().argmin())
        if paths[-1][start, start] < 0:
            cycle = [start]
            for before in reversed(step):
                cycle.append(int(before[start, cycle[-1]]))
            return tuple(reversed(cycle)), float(paths[-1][start, start])
    raise ValueError("no cycle is negative")
