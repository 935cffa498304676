"""Find by how much the call numbers of two recorders are shifted, and whether one is.

Recorders that came late count from the first call they saw.  Under shift ``s`` call
``n`` of the other is call ``n + s`` of the base.  Both calls are one rendezvous only if
their operations agree and if the base arrived before the other completed and the other
before the base completed.  With ``o`` the base's clock less the other's, that is
``low <= o <= high`` at each call, and ``o`` is nearly a straight line of time: a shift
for which no line fits into some window of consecutive calls is refuted.

A refuted shift is impossible, whatever the clocks did.  One that is left over is true
only if the others had a chance to be refuted: so a shift counts as tested from
``TESTED`` common calls on, and a lone survivor is believed where others with the same
operations were tested and fell, or where the wall clocks leave no other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

WINDOW = 32
"""Consecutive calls through which one line must pass."""

TESTED = 30
"""Common calls from which on wrong shifts of blocking calls were always refuted."""

FELL = 3
"""Tested shifts that must have been refuted beside the survivor."""

RIVALS = (8, 16)
"""Common calls that make a surviving shift a rival of a tested one: where none fell,
and where some did."""

RATE_LIMIT = 1e-3
"""Largest difference of two clocks' rates: both slewed by 500 ppm."""

WANDER = 10e-6
"""How far that rate may stray within a window; more could refute a true shift."""

ROUNDING_NS = 2.0
ITERATIONS = 30
BATCH_ROWS = 4096

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, slots=True)
class Calls:
    """Calls of one communicator on one host, one element a number, without gaps."""

    first: int
    """Number of the first."""

    kind: Ints
    """What was called; -1 where no call of that number was recorded."""

    arrival_ns: Ints
    completion_ns: Ints
    has_both: Flags
    """Others wait for its arrival, and its completion waits and is proved."""

    @property
    def last(self) -> int:
        """Return the number of the last call."""
        return self.first + len(self.kind) - 1

    def trimmed(self) -> Calls:
        """Return the calls from the first to the last that bounds anything.

        The call in which a recording ends is open, and would refute no shift.
        """
        known = np.flatnonzero(self.has_both)
        part = slice(known[0], known[-1] + 1) if len(known) else slice(0, 0)
        return Calls(
            first=self.first + (int(known[0]) if len(known) else 0),
            kind=self.kind[part],
            arrival_ns=self.arrival_ns[part],
            completion_ns=self.completion_ns[part],
            has_both=self.has_both[part],
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class WallLimit:
    """Between what the base's clock less the other's lies by their wall clocks."""

    low_ns: int
    high_ns: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ShiftSearch:
    """What became of every shift."""

    shift: int | None
    """The proved one."""

    state: str
    """shift proved, several shifts, no shift or too few calls."""

    call_count: int
    """Common calls under the proved or the best shift."""

    refuted_count: int
    excluded_count: int
    is_by_wall_clock: bool
    """The wall clocks left no other, and the calls alone would have."""


NOTHING = ShiftSearch(
    shift=None,
    state="too few calls",
    call_count=0,
    refuted_count=0,
    excluded_count=0,
    is_by_wall_clock=False,
)


def search(base: Calls, other: Calls, limit: WallLimit | None) -> ShiftSearch:
    """Return which shift of the other's numbers is the only possible one.

    Parameters
    ----------
    base, other
        Calls of two hosts, or of two processes of one, where `limit` is zero wide.
    limit
        What the wall clocks allow; None: anything.
    """
    base, other = base.trimmed(), other.trimmed()
    if not len(base.kind) or not len(other.kind):
        return NOTHING
    every = np.arange(base.first - other.last, base.last - other.first + 1)
    allowed = every[_within(base, other, every, limit)]
    alike = allowed[_same_kinds(base, other, allowed)]
    common = _common_count(base, other, alike)
    is_tested = common >= TESTED
    is_exact = limit is not None and limit.low_ns == limit.high_ns
    left = _possible(base, other, alike[is_tested], is_exact=is_exact)
    fell = int(is_tested.sum()) - len(left)
    enough = 1 if is_exact else RIVALS[fell >= FELL]
    rivals = alike[~is_tested & (common >= enough)]
    rivals = rivals[_survive(base, other, rivals, is_exact=is_exact)]
    return _judged(
        left=left,
        rivals=rivals,
        fell=fell,
        refuted=len(allowed) - len(left) - len(rivals),
        excluded=len(every) - len(allowed),
        only=alike if limit is not None and len(alike) == 1 else alike[:0],
        common=dict(zip(alike.tolist(), common.tolist(), strict=True)),
    )


def _judged(
    *,
    left: Ints,
    rivals: Ints,
    fell: int,
    refuted: int,
    excluded: int,
    only: Ints,
    common: dict[int, int],
) -> ShiftSearch:
    """Return the verdict on the shifts that are left."""
    is_only = len(only) == 1 and len(left) + len(rivals) == 1
    is_proved = len(left) == 1 and not len(rivals)
    if is_only or is_proved:
        state, shift = "shift proved", int(np.concatenate([left, rivals])[0])
    elif len(left) > 1 or (len(left) == 1 and len(rivals)):
        state, shift = "several shifts", None
    elif (
        not len(left) and not len(rivals) and any(c >= TESTED for c in common.values())
    ):
        state, shift = "no shift", None
    else:
        state, shift = "too few calls", None
    best = (
        common.get(shift, 0) if shift is not None else max(common.values(), default=0)
    )
    return ShiftSearch(
        shift=shift,
        state=state,
        call_count=best,
        refuted_count=refuted,
        excluded_count=excluded,
        is_by_wall_clock=is_only and not (is_proved and fell >= FELL),
    )


def _overlap(base: Calls, other: Calls, shifts: Ints) -> tuple[Ints, Ints]:
    """Return position in the base of the first common call, and how many there are."""
    first = np.maximum(base.first, other.first + shifts)
    last = np.minimum(base.last, other.last + shifts)
    return first - base.first, last - first + 1


def _common_count(base: Calls, other: Calls, shifts: Ints) -> Ints:
    return _overlap(base, other, shifts)[1]


def _positions(
    base: Calls, other: Calls, shifts: Ints, offset: Ints
) -> tuple[Ints, Ints, Flags]:
    """Return places in base and other of common calls [shift, call], and which are.

    `offset` counts from the first common call of each shift.
    """
    start, count = _overlap(base, other, shifts)
    is_there = offset < count[:, None]
    at_base = np.where(is_there, start[:, None] + offset, 0)
    at_other = at_base + (base.first - other.first) - shifts[:, None]
    return at_base, np.where(is_there, at_other, 0), is_there


def _within(base: Calls, other: Calls, shifts: Ints, limit: WallLimit | None) -> Flags:
    """Return which shifts the wall clocks allow, judged at the middle common call."""
    if limit is None:
        return np.ones(len(shifts), dtype=bool)
    _, count = _overlap(base, other, shifts)
    at_base, at_other, _ = _positions(base, other, shifts, (count // 2)[:, None])
    here, there = at_base[:, 0], at_other[:, 0]
    low = base.arrival_ns[here] - other.completion_ns[there]
    high = base.completion_ns[here] - other.arrival_ns[there]
    is_known = base.has_both[here] & other.has_both[there]
    return ~is_known | ((low <= limit.high_ns) & (high >= limit.low_ns))


def _same_kinds(base: Calls, other: Calls, shifts: Ints) -> Flags:
    """Return under which shifts all common calls are of the same kind."""
    same = np.ones(len(shifts), dtype=bool)
    if len(np.unique(np.concatenate([base.kind, other.kind]))) == 1:
        return same
    longest = min(len(base.kind), len(other.kind))
    for begin in range(0, longest, WINDOW):
        left = np.flatnonzero(same)
        _, count = _overlap(base, other, shifts[left])
        left = left[count > begin]
        if not len(left):
            break
        offset = np.arange(begin, begin + WINDOW)[None]
        at_base, at_other, is_there = _positions(base, other, shifts[left], offset)
        one, two = base.kind[at_base], other.kind[at_other]
        same[left] = ((one == two) | (one < 0) | (two < 0) | ~is_there).all(axis=1)
    return same


def _possible(base: Calls, other: Calls, shifts: Ints, *, is_exact: bool) -> Ints:
    """Return the shifts that are not refuted; not all of them once there are several.

    Each is first tried in its first window, which refutes nearly all; then in every
    one, until two are left over.
    """
    zero = np.zeros(1, dtype=np.int64)
    first = shifts[_fits(base, other, shifts, zero, is_exact=is_exact)[:, 0]]
    left: list[int] = []
    for shift in first.tolist():
        if _survives(base, other, shift, is_exact=is_exact):
            left.append(shift)
        if len(left) > 1:
            break
    return np.array(left, dtype=np.int64)


def _survive(base: Calls, other: Calls, shifts: Ints, *, is_exact: bool) -> Flags:
    every = [_survives(base, other, s, is_exact=is_exact) for s in shifts.tolist()]
    return np.array(every, dtype=bool)


def _survives(base: Calls, other: Calls, shift: int, *, is_exact: bool) -> bool:
    """Return whether a line fits into each window of one shift."""
    shifts = np.array([shift], dtype=np.int64)
    count = int(_common_count(base, other, shifts)[0])
    begins = np.arange(0, max(count - WINDOW // 2, 1), WINDOW // 2)
    return bool(_fits(base, other, shifts, begins, is_exact=is_exact).all())


def _fits(
    base: Calls, other: Calls, shifts: Ints, begins: Ints, *, is_exact: bool
) -> Flags:
    """Return whether a line fits [shift, window]; windows begin so many calls in."""
    if not len(shifts):
        return np.zeros((0, len(begins)), dtype=bool)
    pair = np.repeat(shifts, len(begins))
    begin = np.tile(begins, len(shifts))[:, None]
    fits = np.empty(len(pair), dtype=bool)
    for row in range(0, len(pair), BATCH_ROWS):
        rows = slice(row, row + BATCH_ROWS)
        offset = begin[rows] + np.arange(WINDOW)[None]
        places = _positions(base, other, pair[rows], offset)
        low, high, time = _limits(base, other, *places, is_exact=is_exact)
        if is_exact:
            fits[rows] = (low.max(axis=1) <= 0) & (high.min(axis=1) >= 0)
        else:
            fits[rows] = line_exists(low, high, time)
    return fits.reshape(len(shifts), len(begins))


def _limits(
    base: Calls,
    other: Calls,
    at_base: Ints,
    at_other: Ints,
    is_there: Flags,
    *,
    is_exact: bool,
) -> tuple[Floats, Floats, Floats]:
    """Return low, high and time [row, call] of the difference of the two clocks.

    Whole nanoseconds are subtracted before anything becomes a double; what is the same
    in all calls of a row is left out, unless the clock is one and the same.
    """
    is_known = is_there & base.has_both[at_base] & other.has_both[at_other]
    low = base.arrival_ns[at_base] - other.completion_ns[at_other]
    high = base.completion_ns[at_base] - other.arrival_ns[at_other]
    time = base.arrival_ns[at_base] - base.arrival_ns[at_base[:, :1]]
    time = np.where(is_there, time, 0).astype(np.float64)
    if is_exact:
        away = np.zeros(len(low), dtype=np.int64)
        loose = np.full(low.shape, ROUNDING_NS)
    else:
        away = low[:, 0]
        middle = (time.min(axis=1) + time.max(axis=1)) / 2
        time -= middle[:, None]
        loose = WANDER * np.abs(time) + RATE_LIMIT * (high - low) + ROUNDING_NS
    low = (low - away[:, None]).astype(np.float64) - loose
    high = (high - away[:, None]).astype(np.float64) + loose
    return np.where(is_known, low, -np.inf), np.where(is_known, high, np.inf), time


def line_exists(low: Floats, high: Floats, time: Floats) -> Flags:
    """Return for each row whether some line p + q time lies between low and high.

    Notes
    -----
    It does if ``g(q) = max(low - q time) + max(q time - high)`` falls to zero or below
    for some q within the limit of the rate.  g is convex and piecewise linear, so the
    tangents at two points on either side of its minimum bound it from below where they
    meet (Kelley's cutting planes in one dimension).
    """
    count = len(low)
    exists = np.zeros(count, dtype=bool)
    is_open = np.ones(count, dtype=bool)
    ends = np.array([-RATE_LIMIT, RATE_LIMIT])
    rate = np.tile(ends, (count, 1))
    value, slope = np.empty((count, 2)), np.empty((count, 2))
    for side in (0, 1):
        value[:, side], slope[:, side] = _gap(low, high, time, rate[:, side])
    exists |= (value <= 0).any(axis=1)
    is_open &= ~exists & (slope[:, 0] < 0) & (slope[:, 1] > 0)
    for _ in range(ITERATIONS):
        at = np.flatnonzero(is_open)
        if not len(at):
            return exists
        rise = slope[at, 1] - slope[at, 0]
        ahead = value[at, 0] - slope[at, 0] * rate[at, 0]
        behind = value[at, 1] - slope[at, 1] * rate[at, 1]
        where = (ahead - behind) / rise
        is_open[at[ahead + slope[at, 0] * where > 0]] = False
        found, steep = _gap(low[at], high[at], time[at], where)
        exists[at[found <= 0]] = True
        is_open[at[(found <= 0) | (steep == 0)]] = False
        side = (steep > 0).astype(int)
        rate[at, side], value[at, side], slope[at, side] = where, found, steep
    return exists | is_open


def _gap(
    low: Floats, high: Floats, time: Floats, rate: Floats
) -> tuple[Floats, Floats]:
    """Return g and a slope of it at one rate of each row; -inf without two limits."""
    turn = rate[:, None] * time
    above, below = low - turn, turn - high
    one, two = above.argmax(axis=1), below.argmax(axis=1)
    row = np.arange(len(low))
    return above[row, one] + below[row, two], time[row, two] - time[row, one]
