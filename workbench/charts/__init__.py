"""Charts: a frame in, an ``alt.Chart`` out; nothing here reads a case."""

from __future__ import annotations
