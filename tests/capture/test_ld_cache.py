"""Claim: the loader's cache names libraries, and a damaged cache is harmless."""

from __future__ import annotations

import ctypes.util
import struct
from pathlib import Path

import pytest

from capture.ld_cache import CACHE, known_libraries
from capture.libraries import LibraryTable

MAGIC = b"glibc-ld.so.cache1.1"


def cache_of(folder: Path, *paths: str, count: int | None = None) -> Path:
    strings = b"".join(path.encode() + b"\0" for path in paths)
    start = 48 + 24 * len(paths)
    offsets = [start + strings.find(path.encode() + b"\0") for path in paths]
    rows = [struct.pack("<iIIIQ", 0x303, 0, offset, 0, 0) for offset in offsets]
    number = len(paths) if count is None else count
    header = MAGIC + struct.pack("<II", number, len(strings)) + bytes(20)
    made = folder / "ld.so.cache"
    made.write_bytes(header + b"".join(rows) + strings)
    return made


def test_known_names_are_taken_and_links_count_once(tmp_path: Path) -> None:
    (tmp_path / "libmpi.so.40.1").write_bytes(b"")
    (tmp_path / "libmpi.so.40").symlink_to("libmpi.so.40.1")
    links = [str(tmp_path / name) for name in ("libmpi.so.40", "libmpi.so.40.1")]
    cache = cache_of(tmp_path, "/lib/libc.so.6", *links, "/lib/libcuda.so.1")

    found = known_libraries(cache)

    assert found == [tmp_path / "libmpi.so.40.1", Path("/lib/libcuda.so.1").resolve()]


@pytest.mark.parametrize("count", [0, 7, 2**32 - 1])
def test_count_that_lies_is_bounded_by_the_file(tmp_path: Path, count: int) -> None:
    cache = cache_of(tmp_path, "/lib/libcuda.so.1", count=count)

    assert len(known_libraries(cache)) <= 1


@pytest.mark.parametrize("data", [b"", MAGIC, b"ld.so-1.7.0" + bytes(100)])
def test_other_files_hold_nothing(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "cache").write_bytes(data)

    assert known_libraries(tmp_path / "cache") == []
    assert known_libraries(tmp_path / "none") == []


@pytest.mark.skipif(
    not CACHE.exists() or ctypes.util.find_library("mpi") is None,
    reason="no MPI in the loader's cache here",
)
def test_the_hosts_own_mpi_is_found_and_opened() -> None:
    table = LibraryTable()
    for path in known_libraries():
        table.expect(path)
    names = [Path(library.path).name for library in table.libraries]
    table.close()

    assert any(name.startswith("libmpi.so") for name in names)
