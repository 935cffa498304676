"""Readings of the host's clocks: each second one, all clocks within one bracket.

MONOTONIC is what the kernel stamps events with; the others tie it to clocks that other
hosts share.  It is read first and last: the clocks between are true somewhere inside
the bracket, whose middle is the reading.  Of a few tries the narrowest is kept, since
one preempted reading says less than none.  The state of the clock discipline comes
from ``adjtimex`` with no mode set, which only reads.
"""

from __future__ import annotations

import ctypes
import functools
import time
from typing import Any, Callable

_TRIES = 5
_CLOCK_TAI = getattr(time, "CLOCK_TAI", 11)
_PPB_DENOMINATOR = 65_536
_PPB_NUMERATOR = 1_000


class _Timex(ctypes.Structure):
    """``struct timex`` of 64-bit Linux."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("constant", ctypes.c_long),
        ("precision", ctypes.c_long),
        ("tolerance", ctypes.c_long),
        ("time_sec", ctypes.c_long),
        ("time_usec", ctypes.c_long),
        ("tick", ctypes.c_long),
        ("rest", ctypes.c_byte * 256),
    )


def read_clocks() -> dict[str, Any]:
    """Return one row of ``clock.jsonl``."""
    row: dict[str, Any] = min(
        (_bracketed() for _ in range(_TRIES)), key=lambda reading: reading["bracket_ns"]
    )
    return {**row, **_discipline()}


def _bracketed() -> dict[str, int]:
    """Return every clock, read between two readings of MONOTONIC."""
    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    raw = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
    boottime = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    realtime = time.clock_gettime_ns(time.CLOCK_REALTIME)
    tai = time.clock_gettime_ns(_CLOCK_TAI)
    after = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    return {
        "monotonic_ns": before + (after - before) // 2,
        "monotonic_raw_ns": raw,
        "boottime_ns": boottime,
        "realtime_ns": realtime,
        "tai_ns": tai,
        "bracket_ns": after - before,
    }


def _discipline() -> dict[str, int | None]:
    """Return how the kernel steers its clock; nothing where it will not say."""
    timex = _Timex()
    adjtimex = _adjtimex()
    is_read = adjtimex is not None and adjtimex(ctypes.byref(timex)) >= 0
    frequency = round(timex.freq * _PPB_NUMERATOR / _PPB_DENOMINATOR)
    return {
        "adjtime_frequency_ppb": frequency if is_read else None,
        "adjtime_tick": timex.tick if is_read else None,
        "adjtime_status": timex.status if is_read else None,
        "adjtime_maxerror_us": timex.maxerror if is_read else None,
        "adjtime_esterror_us": timex.esterror if is_read else None,
    }


@functools.lru_cache(maxsize=1)
def _adjtimex() -> Callable[[Any], int] | None:
    """Return the C library's function, if it has one."""
    function = getattr(ctypes.CDLL(None), "adjtimex", None)
    if function is not None:
        function.restype = ctypes.c_int
        function.argtypes = [ctypes.POINTER(_Timex)]
    return function
