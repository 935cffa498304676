"""Traced against untraced, alternating in one process, so that drift meets both alike.

The interval of a median is that of the order statistics around it, which assumes no
shape: with n pairs it covers the true median with the probability that a fair coin
falls between those two ranks (binomial, at least 95 %).
"""

from __future__ import annotations

import statistics
import tempfile
from dataclasses import dataclass
from math import comb
from pathlib import Path
from typing import TYPE_CHECKING

from tests.gpu.processes import recording, workload

if TYPE_CHECKING:
    from collections.abc import Sequence

COVERAGE = 0.95


@dataclass(frozen=True)
class Overhead:
    """Nanoseconds an item, without and with the recorder; `low` to `high` is 95 %."""

    workload: str
    options: str
    pairs: int
    untraced_ns: float
    traced_ns: float
    added_ns: float
    added_low_ns: float
    added_high_ns: float

    @property
    def added_ratio(self) -> float:
        """Return the median of what was added, as a share of the untraced median."""
        return self.added_ns / self.untraced_ns


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the narrowest symmetric pair of order statistics that covers enough.

    With fewer than six values none does, and the extremes are returned.
    """
    ordered, count = sorted(values), len(values)
    best = 0
    for rank in range(count // 2):
        outside = 2 * sum(comb(count, k) for k in range(rank + 1)) / 2**count
        if 1 - outside >= COVERAGE:
            best = rank
    return ordered[best], ordered[count - 1 - best]


def measure(
    recorder: Sequence[str],
    name: str,
    options: Sequence[str],
    *,
    pairs: int,
    steps: int,
    items_per_step: int,
) -> Overhead:
    """Return the cost of recording a workload; the order of a pair alternates."""
    without: list[float] = []
    traced: list[float] = []
    with workload(name) as running:
        running.ask("block", steps)  # warm
        for pair in range(pairs):
            for is_traced in (pair % 2 == 0, pair % 2 == 1):
                if is_traced:
                    with (
                        tempfile.TemporaryDirectory() as folder,
                        recording(
                            recorder, running.pid, Path(folder), "--no-seal", *options
                        ),
                    ):
                        running.ask("block", max(1, steps // 10))
                        ns = running.ask("block", steps)["ns"]
                    traced.append(ns / steps / items_per_step)
                else:
                    ns = running.ask("block", steps)["ns"]
                    without.append(ns / steps / items_per_step)
    added = [after - before for before, after in zip(without, traced, strict=True)]
    low, high = median_interval(added)
    return Overhead(
        workload=name,
        options=" ".join(options),
        pairs=pairs,
        untraced_ns=statistics.median(without),
        traced_ns=statistics.median(traced),
        added_ns=statistics.median(added),
        added_low_ns=low,
        added_high_ns=high,
    )
