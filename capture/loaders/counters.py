"""What the kernel counts for each probe and CPU: hits, losses, lonely returns.

Counted before anything is asked for, so what a full ring or map refused is known as
well as what was recorded.  The map is read row by row: it has a row for every probe
there may be, and most are empty.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from capture.loaders import CpuLoss, ProbeCounter

if TYPE_CHECKING:
    from capture.loaders.bpf_syscall import Map

COUNT = struct.Struct("<QQQQQQ")
"""``struct probe_count``: hits, lost, first and last loss, of a map, unmatched."""

OFF_CPU_ROW, FACTS_ROW = 1023, 1022
"""Rows that belong to no library probe; probe ids are below both."""


def read_counter(
    counts: Map, row: int, probe_id: int | None, stream: str
) -> ProbeCounter | None:
    """Return what was counted in one row, over all CPUs; None if there is no such."""
    value = counts.lookup(struct.pack("<I", row))
    if value is None:
        return None
    hits = unmatched = 0
    losses: list[CpuLoss] = []
    for cpu, numbers in zip(counts.cpus, COUNT.iter_unpack(value)):
        cpu_hits, lost, first, last, map_full, cpu_unmatched = numbers
        hits += cpu_hits
        unmatched += cpu_unmatched
        if lost:
            losses.append(CpuLoss(cpu, lost, map_full, first, last))
    return ProbeCounter(probe_id, stream, hits, unmatched, tuple(losses))
