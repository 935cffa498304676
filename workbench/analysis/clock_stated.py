"""Narrow the bands of a group by what its hosts state about their wall clocks.

A host whose time service calls it synchronised says that its REALTIME is within a
maximum error of true time.  True time is then one more clock, which such hosts bound on
both sides; closing the bounds over it bounds the hosts against each other.  It never
joins hosts that rendezvous do not: what is stated may be false.

Where statements contradict the rendezvous or one another, those of the host that
contradicts most are dropped, and each is reported; of two that contradict nobody else,
both.  What is left is named in the method of every band that it narrowed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from workbench.analysis import clock_bounds
from workbench.analysis.clock_bounds import ROUNDING_NS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from workbench.analysis.clock_solver import Group
    from workbench.analysis.clock_tables import HostClock
    from workbench.analysis.wall_clock import WallReadings

WINDOWS = 16
"""Readings that are used: the one with the least error of each window of time."""

FEWEST = 2
"""Hosts that must state something: one alone bounds nobody."""

NARROWER_NS = 1.0
"""From which on a band counts as narrowed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FalseStatement:
    """A host's statements that cannot be true beside the rest, and were dropped."""

    clock: int
    against: int
    """The clock whose statements and rendezvous speak against it; itself: its own."""

    excess_ns: int
    at_ns: int
    """Where the contradiction is largest, straight time of ``time_of``."""

    time_of: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Stated:
    """What a group's hosts state: bounds of true time against each [place, knot]."""

    places: tuple[int, ...]
    after: NDArray[np.float64]
    """Largest d of true time less d of the host."""

    before: NDArray[np.float64]
    """Largest d of the host less d of true time."""


def narrowed(
    group: Group, clocks: Sequence[HostClock], walls: Mapping[int, WallReadings]
) -> tuple[Group, tuple[FalseStatement, ...]]:
    """Return the group with its bounds narrowed, and the statements that were false.

    Parameters
    ----------
    group
        Solved group.
    clocks
        All clocks of the case.
    walls
        Readings of the wall clock of each host.
    """
    stated = statements(group, clocks, walls)
    stated, dropped = _true_ones(group, stated)
    if len(stated.places) < FEWEST:
        return group, dropped
    places = list(stated.places)
    after = (group.upper[:, places] + stated.after[None]).min(axis=1)
    before = (stated.before[:, None] + group.upper[places]).min(axis=0)
    upper = np.minimum(group.upper, after[:, None] + before[None])
    every = np.arange(len(upper))
    upper[every, every] = 0.0
    return replace(group, upper=upper, is_narrowed=_narrower(group, upper)), dropped


def _narrower(group: Group, upper: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which clocks' bands to the reference are narrower than before."""
    at = group.reference
    was = group.upper[at] + group.upper[:, at]
    now = upper[at] + upper[:, at]
    return (was - now > NARROWER_NS).any(axis=1)


def statements(
    group: Group, clocks: Sequence[HostClock], walls: Mapping[int, WallReadings]
) -> Stated:
    """Return what each host of the group that states something says at the knots."""
    points = {}
    for place, at in enumerate(group.clocks):
        readings = walls.get(clocks[at].host_id)
        if readings is not None:
            found = _points(group, place, clocks[at], readings)
            if len(found[0]):
                points[place] = found
    base = _common_base(points)
    after = np.zeros((len(points), len(group.knots)))
    before = after.copy()
    for row, (time, wall, error) in enumerate(points.values()):
        away = (wall - base).astype(np.float64) - time
        x, y = np.zeros((2, 2, len(time))), np.full((2, 2, len(time)), np.inf)
        x[0, 1], y[0, 1] = time, error - away
        x[1, 0], y[1, 0] = time, error + away
        upper = clock_bounds.pair_bounds(
            x, y, time, group.knots, wander=group.wander, looks=WINDOWS
        )
        after[row], before[row] = upper[0, 1], upper[1, 0]
    return Stated(places=tuple(points), after=after, before=before)


def _points(
    group: Group, place: int, clock: HostClock, readings: WallReadings
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64]]:
    """Return common time, REALTIME and stated error of a host's best readings."""
    own = readings.monotonic_ns
    keep = readings.is_stated & (own >= clock.low_ns) & (own < clock.high_ns)
    own, wall = own[keep], readings.realtime_ns[keep]
    error = readings.error_ns[keep].astype(np.float64) + ROUNDING_NS
    straight, loose = clock.straight(own)
    common = group.lines[place].common(straight) - group.origin_ns
    windows = np.array_split(np.arange(len(own)), min(WINDOWS, max(len(own), 1)))
    best = [part[error[part].argmin()] for part in windows if len(part)]
    at = np.array(best, dtype=np.int64)
    return common[at].astype(np.float64), wall[at], (error + loose)[at]


def _common_base(
    points: Mapping[
        int, tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64]]
    ],
) -> int:
    """Return REALTIME less common time, about: a number to keep doubles exact."""
    for time, wall, _ in points.values():
        return int(wall[0]) - round(float(time[0]))
    return 0


def _true_ones(
    group: Group, stated: Stated
) -> tuple[Stated, tuple[FalseStatement, ...]]:
    """Return the statements without those that contradict the rest."""
    places = np.array(stated.places, dtype=np.int64)
    if not len(places):
        return stated, ()
    between = group.upper[np.ix_(places, places)]
    gap = stated.after[:, None] + between.transpose(1, 0, 2) + stated.before[None]
    worst = gap.min(axis=2) + ROUNDING_NS
    dropped: list[FalseStatement] = []
    left = list(range(len(places)))
    while (wrong := worst[np.ix_(left, left)] < 0).any():
        blamed = [left[at] for at in _most_blamed(wrong)]
        dropped += [_false_statement(group, places, gap, one, left) for one in blamed]
        left = [at for at in left if at not in blamed]
    kept = Stated(
        places=tuple(int(places[at]) for at in left),
        after=stated.after[left],
        before=stated.before[left],
    )
    return kept, tuple(dropped)


def _most_blamed(wrong: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return those that contradict themselves, else those that do so most."""
    alone = np.flatnonzero(wrong.diagonal())
    if len(alone):
        return alone
    count = (wrong | wrong.T).sum(axis=1)
    return np.flatnonzero(count == count.max())


def _false_statement(
    group: Group,
    places: NDArray[np.int64],
    gap: NDArray[np.float64],
    one: int,
    left: Sequence[int],
) -> FalseStatement:
    """Return the contradiction of one statement with that which it contradicts most."""
    both = np.minimum(gap[one, left], gap[left, one])
    at, knot = np.unravel_index(both.argmin(), both.shape)
    return FalseStatement(
        clock=group.clocks[places[one]],
        against=group.clocks[places[left[int(at)]]],
        excess_ns=round(-float(both[at, knot])),
        at_ns=group.origin_ns + round(float(group.knots[knot])),
        time_of=group.clocks[group.reference],
    )
