"""Libraries that the host's dynamic loader would find: known before anybody maps them.

A program can call into a library a millisecond after it has mapped it, sooner than
probes can be attached.  What stands in the loader's cache under a known name is
therefore probed from the start, where every user of such a library is a target anyway.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TYPE_CHECKING

from capture.libraries import kind_by_name

if TYPE_CHECKING:
    from collections.abc import Iterator

CACHE = Path("/etc/ld.so.cache")

_MAGIC = b"glibc-ld.so.cache1.1"
_COUNT = struct.Struct("<I")
_HEADER_SIZE = 48
_ENTRY = struct.Struct("<iIIIQ")
_MAX_BYTES = 64 << 20
_MAX_PATH = 4096


def known_libraries(cache: Path = CACHE) -> list[Path]:
    """Return the libraries of known names in a loader's cache, each file once."""
    try:
        with cache.open("rb") as file:
            data = file.read(_MAX_BYTES)
    except OSError:
        return []
    found: dict[Path, None] = {}
    for path in _paths(data):
        if kind_by_name(path) is not None:
            found[Path(path).resolve()] = None
    return list(found)


def _paths(data: bytes) -> Iterator[str]:
    """Yield every path of a cache; older caches hold the newer table inside."""
    base = data.find(_MAGIC)
    if base < 0 or base + _HEADER_SIZE > len(data):
        return
    (count,) = _COUNT.unpack_from(data, base + len(_MAGIC))
    start = base + _HEADER_SIZE
    for index in range(min(count, (len(data) - start) // _ENTRY.size)):
        entry = _ENTRY.unpack_from(data, start + index * _ENTRY.size)
        at = base + entry[2]
        end = data.find(b"\0", at, at + _MAX_PATH)
        if end > at:
            yield data[at:end].decode("utf-8", "surrogateescape")
