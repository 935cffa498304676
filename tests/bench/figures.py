"""What a benchmark prints: a figure, and the number to reach beside it."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tqdm import tqdm

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """One measured number with its unit, and its bar where there is one."""

    what: str
    measured: str
    bar: str = ""


@dataclass(slots=True)
class Watch:
    """Seconds that the body of :func:`timed` took."""

    seconds: float = 0.0


@contextmanager
def timed(label: str) -> Iterator[Watch]:
    """Measure the body by the wall clock, and say on a terminal what is going on."""
    with tqdm(total=1, desc=label, disable=None, bar_format="{desc}: {elapsed}"):
        watch, start = Watch(), time.perf_counter()
        yield watch
        watch.seconds = time.perf_counter() - start


def print_figures(figures: list[Figure]) -> None:
    """Print one line a figure, in columns."""
    rows = [("what", "measured", "to reach")]
    rows += [(figure.what, figure.measured, figure.bar) for figure in figures]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())
