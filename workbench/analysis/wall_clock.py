"""Return how far the wall clocks of two hosts may be apart, as the hosts state it.

REALTIME of a host that its time service calls synchronised is within ``maxerror`` of
true time, says the host; without that word it is taken to be right within one hour.
Nothing of this is proved, so it never joins hosts and never orders two events by
itself; it bounds shifts of call numbers (``late_attach``) and narrows bands that
rendezvous proved (``clock_stated``), and both say that it did.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from workbench.analysis.shift_search import WallLimit

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

UNSYNCHRONISED = 0x0040
"""STA_UNSYNC of adjtimex: the kernel was told nothing, or long ago."""

HOUR_NS = 3_600_000_000_000
"""What an unsynchronised wall clock may be off: most are set wrong by whole hours."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WallReadings:
    """Readings of one host's wall clock against its MONOTONIC, in order of time."""

    monotonic_ns: NDArray[np.int64]
    realtime_ns: NDArray[np.int64]
    error_ns: NDArray[np.int64]
    """Stated maximum error, and what taking the reading cost."""

    is_stated: NDArray[np.bool_]
    """The host calls itself synchronised."""

    @classmethod
    def of(cls, readings: pl.DataFrame) -> WallReadings:
        """Return the readings in rows of ``stg_clock_reading`` of one host."""
        known = readings.drop_nulls(["monotonic_ns", "realtime_ns"]).sort(
            "monotonic_ns"
        )
        status = known["adjtime_status"].fill_null(UNSYNCHRONISED).to_numpy()
        error_us = known["adjtime_maxerror_us"].to_numpy().astype(np.float64)
        is_stated = (status & UNSYNCHRONISED == 0) & (error_us >= 0)
        error = np.where(is_stated, error_us * 1e3, HOUR_NS / 2)
        bracket = known["bracket_ns"].fill_null(0).to_numpy().astype(np.int64)
        return cls(
            monotonic_ns=known["monotonic_ns"].to_numpy().astype(np.int64),
            realtime_ns=known["realtime_ns"].to_numpy().astype(np.int64),
            error_ns=error.astype(np.int64) + bracket,
            is_stated=is_stated,
        )

    def __len__(self) -> int:
        """Return how many readings there are."""
        return len(self.monotonic_ns)

    def ahead(self) -> tuple[int, int]:
        """Return least and largest REALTIME less MONOTONIC, errors allowed for."""
        ahead = self.realtime_ns - self.monotonic_ns
        return int((ahead - self.error_ns).min()), int((ahead + self.error_ns).max())


def by_host(readings: pl.DataFrame) -> dict[int, WallReadings]:
    """Return the readings of each host in rows of ``stg_clock_reading``."""
    return {
        int(host_id): WallReadings.of(rows)
        for (host_id,), rows in readings.group_by("host_id")
    }


def limit(base: WallReadings | None, other: WallReadings | None) -> WallLimit | None:
    """Return between what the base's MONOTONIC less the other's lies; None: unknown."""
    if not base or not other:
        return None
    base_low, base_high = base.ahead()
    other_low, other_high = other.ahead()
    return WallLimit(low_ns=other_low - base_high, high_ns=other_high - base_low)


def is_stated(base: WallReadings | None, other: WallReadings | None) -> bool:
    """Return whether both hosts state a maximum error throughout."""
    return bool(base and other and base.is_stated.all() and other.is_stated.all())
