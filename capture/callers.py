"""Which library a return address lies in, by the mappings that were recorded.

An address means something in one process only, and the same few call sites come back a
million times: each (process, address) is looked up once, the rest is one dictionary
access a row inside ``map``.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Site = tuple[int, int]
"""Process and address."""


class _Mapping(NamedTuple):
    start: int
    end: int
    library_ref: int
    file_offset: int


class CallerColumns(NamedTuple):
    """The three columns that stand for the return addresses of a chunk."""

    library_refs: bytes
    offsets: bytes
    has_library: bytes


class CallerResolver:
    """Turn return addresses into libraries and offsets in their files.

    Parameters
    ----------
    mappings
        Facts about mappings, oldest first: where two overlap the later one is taken.
    """

    def __init__(self, mappings: Iterable[Mapping[str, Any]]) -> None:
        self._by_pid: dict[int, list[_Mapping]] = {}
        for row in mappings:
            self._by_pid.setdefault(row["pid"], []).append(
                _Mapping(
                    int(row["start_address"], 16),
                    int(row["end_address"], 16),
                    row["library_ref"],
                    row["file_offset"],
                )
            )
        for found in self._by_pid.values():
            found.sort(key=lambda mapping: mapping.start)  # stable: later stays later
        self._refs: dict[Site, int] = {}
        self._offsets: dict[Site, int] = {}
        self._known: dict[Site, int] = {}

    def columns(self, pids: Iterable[int], addresses: Iterable[int]) -> CallerColumns:
        """Return the columns of a chunk; unknown callers are 0 and marked."""
        sites = list(zip(pids, addresses))
        for site in set(sites).difference(self._known):
            self._look_up(site)
        return CallerColumns(
            array("i", map(self._refs.__getitem__, sites)).tobytes(),
            array("q", map(self._offsets.__getitem__, sites)).tobytes(),
            bytes(map(self._known.__getitem__, sites)),
        )

    def _look_up(self, site: Site) -> None:
        mapping = self._mapping_of(*site)
        self._known[site] = mapping is not None
        self._refs[site] = mapping.library_ref if mapping else 0
        self._offsets[site] = (
            site[1] - mapping.start + mapping.file_offset if mapping else 0
        )

    def _mapping_of(self, pid: int, address: int) -> _Mapping | None:
        mappings = self._by_pid.get(pid, [])
        starts = [mapping.start for mapping in mappings]
        for index in range(bisect_right(starts, address) - 1, -1, -1):
            if address < mappings[index].end:
                return mappings[index]
        return None
