"""Take out of a host's MONOTONIC what its time service put in.

NTP slews CLOCK_MONOTONIC by up to 500 ppm and CLOCK_MONOTONIC_RAW never.  A bundle
reads both each second, so MONOTONIC can be straightened: *straight* time is RAW, scaled
to the length of the capture in MONOTONIC, so that the two agree at its ends and are
apart by the *bend* in between.  Straight time wanders as the crystal does, by less than
a ppm or so, and the bands that rendezvous prove are as much narrower.

Between two readings MONOTONIC is taken for a straight line.  What that can cost is
bounded by how much its rate changes about there, over four, plus what a reading costs;
every time that is straightened carries that error.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

LEAST_BEND_NS = 5_000.0
"""A smaller bend costs more to take out than it widens a band."""

TOLERANCE_NS = 250.0
MAX_KNOTS = 256
FEWEST_READINGS = 3

SLEW_LIMIT = 500e-6
"""Fastest slew of the kernel: what a time beyond the readings may be off, a ns."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Slew:
    """The bend of one host's MONOTONIC, straight between knots."""

    own_ns: NDArray[np.int64]
    """Knots, MONOTONIC of the host, ascending."""

    bend_ns: NDArray[np.float64]
    """Straight less own time at each knot; nothing at both ends."""

    error_ns: NDArray[np.float64]
    """Half-width of the error of straight time between two knots."""

    def straight(self, own: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return straight times of own times."""
        since = (own - self.own_ns[0]).astype(np.float64)
        knots = (self.own_ns - self.own_ns[0]).astype(np.float64)
        return own + np.rint(np.interp(since, knots, self.bend_ns)).astype(np.int64)

    def own(self, straight: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return own times of straight times."""
        since = (straight - self.own_ns[0]).astype(np.float64)
        knots = (self.own_ns - self.own_ns[0]).astype(np.float64) + self.bend_ns
        bend = np.interp(since, knots, self.bend_ns)
        return straight - np.rint(bend).astype(np.int64)

    def error(self, own: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the error of straight time at own times."""
        place = np.searchsorted(self.own_ns, own, side="right") - 1
        near = self.error_ns[np.clip(place, 0, len(self.error_ns) - 1)]
        before = np.maximum(self.own_ns[0] - own, 0)
        after = np.maximum(own - self.own_ns[-1], 0)
        return np.ceil(near + SLEW_LIMIT * (before + after)).astype(np.int64)

    def straight_knots(self) -> NDArray[np.int64]:
        """Return the knots in straight time."""
        return self.own_ns + np.rint(self.bend_ns).astype(np.int64)


def slew_of(
    monotonic_ns: NDArray[np.int64],
    raw_ns: NDArray[np.int64],
    bracket_ns: NDArray[np.int64],
) -> Slew | None:
    """Return the slew that readings show; None where there is none worth taking out.

    Parameters
    ----------
    monotonic_ns, raw_ns, bracket_ns
        Readings of one host between two suspends, ascending: both clocks, ns, and how
        long reading them took.
    """
    monotonic_ns, first = np.unique(monotonic_ns, return_index=True)
    raw_ns, bracket_ns = raw_ns[first], bracket_ns[first]
    if len(monotonic_ns) < FEWEST_READINGS or raw_ns[-1] <= raw_ns[0]:
        return None
    own = (monotonic_ns - monotonic_ns[0]).astype(np.float64)
    raw = (raw_ns - raw_ns[0]).astype(np.float64)
    bend = raw * (own[-1] / raw[-1]) - own
    if np.abs(bend).max() < LEAST_BEND_NS + 2 * float(np.median(bracket_ns)):
        return None
    error = _between_readings(own, bend) + np.maximum(bracket_ns[1:], bracket_ns[:-1])
    kept = _knots(own, bend, error)
    away = np.abs(bend - np.interp(own, own[kept], bend[kept]))
    error += np.maximum(away[1:], away[:-1])
    return Slew(
        own_ns=monotonic_ns[kept],
        bend_ns=bend[kept],
        error_ns=np.maximum.reduceat(error, kept[:-1]),
    )


def _between_readings(
    own: NDArray[np.float64], bend: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return how far the bend may be from the chord of two readings."""
    rate = np.diff(bend) / np.diff(own)
    about = np.stack(
        [np.append(rate[:1], rate[:-1]), rate, np.append(rate[1:], rate[-1:])]
    )
    return np.ptp(about, axis=0) * np.diff(own) / 4


def _knots(
    own: NDArray[np.float64], bend: NDArray[np.float64], error: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Return readings whose chords stay close to all, and both ends of uncertain parts.

    An interval carries its largest error, so a second in which the rate changed must
    not share one with the calm minute after it.
    """
    tolerance, limit = TOLERANCE_NS, 2 * float(np.median(error))
    while True:
        uncertain = np.flatnonzero(error > limit)
        forced = {0, len(own) - 1, *uncertain.tolist(), *(uncertain + 1).tolist()}
        kept = _close_chords(own, bend, sorted(forced), tolerance)
        if len(kept) <= MAX_KNOTS:
            return kept
        tolerance, limit = 2 * tolerance, 2 * limit


def _close_chords(
    own: NDArray[np.float64],
    bend: NDArray[np.float64],
    forced: Sequence[int],
    tolerance: float,
) -> NDArray[np.int64]:
    """Return the forced readings and those that Ramer, Douglas and Peucker add."""
    keep, todo = set(forced), list(pairwise(forced))
    while todo and len(keep) <= MAX_KNOTS:
        low, high = todo.pop()
        chord = np.interp(own[low : high + 1], own[[low, high]], bend[[low, high]])
        far = np.abs(bend[low : high + 1] - chord)
        if far.max() > tolerance:
            at = low + int(far.argmax())
            keep.add(at)
            todo += [(low, at), (at, high)]
    return np.array(sorted(keep), dtype=np.int64)
