"""Which calls are recorded: rows of probes, and where each is found in a library."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Probe:
    """One call that can be recorded (rows: probe_table_*.py)."""

    stream: str
    operation: int
    vendor: str
    layer: int
    symbols: tuple[str, ...]
    has_return: bool


@dataclass(frozen=True)
class ProbeSite:
    """One probe in one library: a file offset that is probed once."""

    probe_id: int
    probe: Probe
    library_ref: int
    fd_path: str
    file_offset: int
    symbol: str
    aliases: tuple[str, ...] = ()
    has_return: bool = True
