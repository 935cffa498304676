"""What ``record`` is asked to do, and the text forms of durations and streams.

Lengths of time carry their unit ("100us", "30s"): a bare number would be read as
seconds by one user and as milliseconds by the next, so it is refused.
"""

from __future__ import annotations

import mmap
import re
from dataclasses import dataclass, field
from pathlib import Path

from capture.errors import CaptureError
from capture.layout import LAYOUTS

STREAMS = tuple(LAYOUTS)
NO_STREAM = "none"
PROBE_SETS = ("standard", "full")
LOADERS = ("auto", "core", "bcc")

_NS_PER_UNIT = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60 * 1_000_000_000,
    "min": 60 * 1_000_000_000,
    "h": 3_600 * 1_000_000_000,
}
_SIZE = re.compile(r"(\d+)([kKmM])")
_PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s*%?")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)")


@dataclass(frozen=True)
class RecordOptions:
    """One recording: what to look at, how, and where the result goes.

    Without ``pids`` and ``cgroups`` every process that maps a known library is a
    target, those that start later included.
    """

    out_dir: Path = field(default_factory=Path)
    pids: tuple[int, ...] = ()
    cgroups: tuple[Path, ...] = ()
    libraries: tuple[Path, ...] = ()
    streams: tuple[str, ...] = STREAMS
    probe_set: str = "standard"
    loader: str = "auto"
    off_cpu_min_ns: int = 100_000
    duration_ns: int | None = None
    until_exit: bool = False
    budget_ppm: int | None = None
    ring_bytes: int | None = None
    """Size of each event ring; None for the sizes of :data:`capture.loaders`."""
    return_probes: bool = True
    libbpf: Path | None = None
    seal: bool = True
    spool: Path | None = None
    keep_spool: bool = False
    site_key: Path | None = None
    """Pseudonyms by this key instead of names; None: names as they are."""
    mapping: Path | None = None
    """What the pseudonyms stand for; None: beside the key."""


def parse_duration(text: str) -> int:
    """Return the nanoseconds of a length of time such as ``100us`` or ``1.5s``.

    Raises
    ------
    CaptureError
        If the text is no number with a unit, or the length is not positive.
    """
    match = _DURATION.fullmatch(text.strip().lower())
    if match is None or match[2] not in _NS_PER_UNIT:
        raise CaptureError(
            f"not a length of time: {text!r}",
            "write a number and a unit, such as 100us, 250ms, 30s, 10m or 2h",
        )
    ns = round(float(match[1]) * _NS_PER_UNIT[match[2]])
    if ns <= 0:
        raise CaptureError(f"a length of time must be above zero, not {text!r}")
    return ns


def parse_ring_size(text: str) -> int:
    """Return the bytes of a size such as ``64K`` or ``16M``, a power of two.

    Raises
    ------
    CaptureError
        If it is none, or no whole number of pages.
    """
    match = _SIZE.fullmatch(text.strip())
    size = int(match[1]) << (20 if match[2] in "mM" else 10) if match else 0
    if size < mmap.PAGESIZE or size & (size - 1):
        raise CaptureError(
            f"not a size for a ring: {text!r}",
            f"write a power of two, such as 64K or 16M, from {mmap.PAGESIZE} bytes on",
        )
    return size


def parse_percent(text: str) -> int:
    """Return the millionths of a percentage such as ``2`` or ``0.5%``.

    Raises
    ------
    CaptureError
        If the text is no number, or not above zero.
    """
    match = _PERCENT.fullmatch(text.strip())
    ppm = round(float(match[1]) * 10_000) if match else 0
    if ppm <= 0:
        raise CaptureError(
            f"not a percentage above zero: {text!r}", "write one such as 2 or 0.5%"
        )
    return ppm


def parse_streams(text: str) -> tuple[str, ...]:
    """Return the streams of a comma-separated list, in the order of the format.

    ``none`` alone is no stream: facts are recorded without eBPF.

    Raises
    ------
    CaptureError
        If a name is no stream, or none is given.
    """
    if text.strip() == NO_STREAM:
        return ()
    asked = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in asked if name not in STREAMS]
    if unknown or not asked:
        raise CaptureError(
            f"unknown stream: {', '.join(unknown) or text!r}",
            f"choose from {', '.join(STREAMS)}, or {NO_STREAM} alone",
        )
    return tuple(name for name in STREAMS if name in asked)
