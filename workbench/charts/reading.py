"""Numbers in the titles of charts."""

from __future__ import annotations

import math


def figure(value: float, *, signed: bool = False) -> str:
    """Return a number in three significant digits, never with an exponent."""
    if not math.isfinite(value):
        return "?"
    size = math.floor(math.log10(abs(value))) if value else 0
    return f"{value:{'+' if signed else ''},.{max(0, min(2 - size, 9))}f}"
