"""Which library a return address lies in, by the mappings that were recorded.

An address means something in one process only, and the same few call sites come back a
million times: each (process, address) is looked up once, the rest is one dictionary
access a row inside ``map``.  Two processes rarely have the same address in use for two
things; while they do not, the address alone is the key, which is twice as fast.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Site = tuple[int, int]
"""Process and address."""

Caller = tuple[int, int, int]
"""Library, offset in its file, and 1 where they are known."""


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
        self._found: dict[Site, Caller] = {}

    def columns(self, pids: Sequence[int], addresses: Sequence[int]) -> CallerColumns:
        """Return the columns of a chunk; unknown callers are 0 and marked."""
        sites = set(zip(pids, addresses))
        for site in sites.difference(self._found):
            self._found[site] = self._look_up(site)
        by_address = {address: self._found[pid, address] for pid, address in sites}
        if all(by_address[site[1]] == self._found[site] for site in sites):
            # No address means two things here, so a row needs no tuple of its own.
            return _columns(by_address, addresses)
        return _columns(self._found, list(zip(pids, addresses)))

    def _look_up(self, site: Site) -> Caller:
        mapping = self._mapping_of(*site)
        if mapping is None:
            return (0, 0, 0)
        return (
            mapping.library_ref,
            site[1] - mapping.start + mapping.file_offset,
            1,
        )

    def _mapping_of(self, pid: int, address: int) -> _Mapping | None:
        mappings = self._by_pid.get(pid, [])
        starts = [mapping.start for mapping in mappings]
        for index in range(bisect_right(starts, address) - 1, -1, -1):
            if address < mappings[index].end:
                return mappings[index]
        return None


def _columns(callers: Mapping[Any, Caller], keys: Sequence[Any]) -> CallerColumns:
    """Return the columns of rows that have these keys."""
    refs, offsets, known = (
        {key: caller[part] for key, caller in callers.items()} for part in range(3)
    )
    return CallerColumns(
        array("i", map(refs.__getitem__, keys)).tobytes(),
        array("q", map(offsets.__getitem__, keys)).tobytes(),
        b"\1" * len(keys)
        if all(known.values())
        else bytes(map(known.__getitem__, keys)),
    )
