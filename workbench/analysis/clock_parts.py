"""Return the clocks of each host, and when a wall clock was set or a host slept.

CLOCK_MONOTONIC stands still while the machine sleeps and CLOCK_BOOTTIME does not, so a
jump of their difference between two readings cuts a host's clock in three: what was
before, the second or so in which it slept (no instant of it can be placed), and what
came after.  Each part is a clock of its own.

A jump of CLOCK_REALTIME over MONOTONIC is a step: somebody set the wall clock.  It is
told and moves nothing, for no event is on the wall clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.analysis.clock_slew import Slew, slew_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import polars as pl
    from numpy.typing import NDArray

JUMP_NS = 1_000_000
"""Smallest change of a difference of two clocks that is taken for a jump."""

READING_DRIFT = 200e-6
"""What such a difference may change without one, a second: an edited clock's rate."""

END_NS = 2**62
"""Beyond any time of a host."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HostClock:
    """A host's clock, or the part of it between two suspends."""

    host_id: int
    host_name: str
    segment: int
    from_ns: int | None
    """Begin of the part in host time; None: open."""

    to_ns: int | None
    extent: tuple[int, int] | None
    """Begin and end of the captures in it, host time."""

    is_cut_off: bool = False
    """Time in which a suspend fell, so that no instant of it can be placed."""

    is_foreign: bool = False
    """Of an imported file: nobody knows what keeps it."""

    slew: Slew | None = None
    """What a time service put into it, where that is worth taking out."""

    @property
    def low_ns(self) -> int:
        """Return from when the part holds."""
        return -END_NS if self.from_ns is None else self.from_ns

    @property
    def high_ns(self) -> int:
        """Return until when the part holds, exclusive."""
        return END_NS if self.to_ns is None else self.to_ns

    def straight(
        self, own: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return own times without slew, and the error of that."""
        if self.slew is None:
            return own, np.zeros(len(own), dtype=np.int64)
        return self.slew.straight(own), self.slew.error(own)

    def bent(self, straight: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the own times of times without slew."""
        return straight if self.slew is None else self.slew.own(straight)


@dataclass(frozen=True, kw_only=True, slots=True)
class Jump:
    """A wall clock that was set, or a host that slept."""

    host_id: int
    host_name: str
    kind: str
    """step or suspend."""

    from_ns: int
    to_ns: int
    """Between these two readings, host MONOTONIC."""

    jump_ns: int
    """By how much the wall clock was set forward, or how long the host slept."""


def host_clocks(
    hosts: pl.DataFrame, readings: pl.DataFrame
) -> tuple[list[HostClock], list[Jump]]:
    """Return the clocks of all hosts, those of suspended hosts in parts, and the jumps.

    Parameters
    ----------
    hosts
        Rows of the view ``host``, in the order in which ties between references are
        settled.
    readings
        Rows of ``stg_clock_reading``, by host and time.
    """
    clocks: list[HostClock] = []
    found: list[Jump] = []
    for host in hosts.iter_rows(named=True):
        mine = readings.filter(readings["host_id"] == host["host_id"])
        slept = jumps(mine, "boottime_ns")
        # A host that slept has a wall clock that went on: that is no step.
        stepped = [
            jump
            for jump in jumps(mine, "realtime_ns")
            if jump[:2] not in {each[:2] for each in slept}
        ]
        for kind, each in (("suspend", slept), ("step", stepped)):
            found += [
                Jump(
                    host_id=host["host_id"],
                    host_name=host["host_name"],
                    kind=kind,
                    from_ns=begin,
                    to_ns=end,
                    jump_ns=by,
                )
                for begin, end, by in each
            ]
        slept = [(begin, end) for begin, end, by in slept if by > 0]
        clocks.extend(_parts_of(host, slept, mine))
    return clocks, found


def jumps(readings: pl.DataFrame, clock: str) -> list[tuple[int, int, int]]:
    """Return between which readings (MONOTONIC) a clock left it, and by how much."""
    known = readings.drop_nulls(["monotonic_ns", clock]).sort("monotonic_ns")
    monotonic = known["monotonic_ns"].to_numpy().astype(np.int64)
    bracket = known["bracket_ns"].fill_null(0).to_numpy().astype(np.int64)
    ahead = np.diff(known[clock].to_numpy().astype(np.int64) - monotonic)
    allowed = JUMP_NS + bracket[1:] + bracket[:-1]
    allowed = allowed + READING_DRIFT * np.diff(monotonic)
    return [
        (int(monotonic[at]), int(monotonic[at + 1]) + 1, int(ahead[at]))
        for at in np.flatnonzero(np.abs(ahead) > allowed)
    ]


def _parts_of(
    host: dict[str, Any], cuts: Sequence[tuple[int, int]], readings: pl.DataFrame
) -> Iterable[HostClock]:
    """Return the parts of one host's clock: between the cuts, and the cuts."""
    edges: list[tuple[int | None, int | None, bool]] = []
    begin: int | None = None
    for cut_from, cut_to in cuts:
        edges += [(begin, cut_from, False), (cut_from, cut_to, True)]
        begin = cut_to
    edges.append((begin, None, False))
    for segment, (from_ns, to_ns, is_cut_off) in enumerate(edges):
        low, high = host["start_ns"], host["stop_ns"]
        low = low if from_ns is None else max(low, from_ns)
        high = high if to_ns is None else min(high, to_ns)
        yield HostClock(
            host_id=host["host_id"],
            host_name=host["host_name"],
            segment=segment,
            from_ns=from_ns,
            to_ns=to_ns,
            extent=(low, high) if low < high else None,
            is_cut_off=is_cut_off,
            is_foreign=host["bundle_count"] == 0,
            slew=None if is_cut_off else _slew(readings, low, high),
        )


def _slew(readings: pl.DataFrame, low: int, high: int) -> Slew | None:
    """Return the slew of a part, from the readings in it."""
    known = readings.drop_nulls(["monotonic_ns", "monotonic_raw_ns"])
    known = known.filter(known["monotonic_ns"].is_between(low, high))
    if known.is_empty():
        return None
    return slew_of(
        known["monotonic_ns"].to_numpy().astype(np.int64),
        known["monotonic_raw_ns"].to_numpy().astype(np.int64),
        known["bracket_ns"].fill_null(0).to_numpy().astype(np.int64),
    )
