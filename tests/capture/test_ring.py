"""A region ends before the first unfinished record, and nothing is lost in between."""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
from typing import TYPE_CHECKING

import pytest

from capture import ring
from capture.loaders import bpf_syscall

if TYPE_CHECKING:
    from collections.abc import Iterator

SIZE = 16
STRIDE = SIZE + 8
BUSY = 1 << 31
RING_BYTES = 1 << 16


class MadeRing:
    """A file laid out as the kernel lays out a ring, so that a test can write it."""

    def __init__(self) -> None:
        self.fd = os.memfd_create("ring")
        page = mmap.PAGESIZE
        os.truncate(self.fd, 2 * page + 2 * RING_BYTES)
        self._map = mmap.mmap(self.fd, 2 * page + 2 * RING_BYTES)
        self._end = 0

    def put(self, number: int, *, is_busy: bool = False) -> None:
        """Write one record, finished or not."""
        at = 2 * mmap.PAGESIZE + self._end
        length = SIZE | (BUSY if is_busy else 0)
        struct.pack_into("<IIQQ", self._map, at, length, 0, number, 0)
        self._end += STRIDE
        struct.pack_into("<Q", self._map, mmap.PAGESIZE, self._end)

    def finish(self, index: int) -> None:
        """Take the busy bit off a record."""
        at = 2 * mmap.PAGESIZE + index * STRIDE
        struct.pack_into("<I", self._map, at, SIZE)

    def close(self) -> None:
        """Let go of the file."""
        self._map.close()
        os.close(self.fd)


@pytest.fixture
def made() -> Iterator[MadeRing]:
    ring_file = MadeRing()
    yield ring_file
    ring_file.close()


def numbers(region: memoryview | None) -> list[int]:
    assert region is not None
    return [
        struct.unpack_from("<Q", record)[0]
        for record in ring.iter_records(region, SIZE)
    ]


def test_an_empty_ring_gives_nothing(made: MadeRing) -> None:
    opened = ring.Ring(made.fd, RING_BYTES, SIZE)

    assert opened.drain() is None
    opened.close()


def test_a_busy_record_ends_the_region_until_it_is_finished(made: MadeRing) -> None:
    opened = ring.Ring(made.fd, RING_BYTES, SIZE)
    made.put(1)
    made.put(2)
    made.put(3, is_busy=True)
    made.put(4)

    assert numbers(opened.drain()) == [1, 2]
    assert opened.drain() is None
    made.finish(2)
    assert numbers(opened.drain()) == [3, 4]
    opened.close()


def test_a_made_region_reads_as_a_drained_one() -> None:
    region = ring.ring_shaped([struct.pack("<QQ", n, 0) for n in (5, 6)])

    assert len(region) == 2 * STRIDE
    assert numbers(memoryview(region)) == [5, 6]


def test_what_the_sink_raises_comes_out_at_the_end(made: MadeRing) -> None:
    def refuse(*_: object) -> None:
        raise OSError("disk")

    opened = ring.Ring(made.fd, RING_BYTES, SIZE)
    made.put(1)
    drainer = ring.Drainer({"s": opened}, refuse)
    drainer.start()

    with pytest.raises(OSError, match="disk"):
        drainer.stop()
    opened.close()


# A program that the kernel runs for us: it takes a number and writes it to a ring.

_SOCKET_FILTER, _PROG_LOAD, _PROG_TEST_RUN = 1, 5, 10
_LOOKUP, _RESERVE, _SUBMIT = 1, 131, 132


def _counting_program(counter_fd: int, ring_fd: int) -> bytes:
    """Return instructions that reserve, fill and submit; failures are counted too."""
    code = (
        (0x62, 0x0A, -4, 0),  # key 0
        (0x18, 0x11, 0, counter_fd),
        (0x00, 0x00, 0, 0),
        (0xBF, 0xA2, 0, 0),
        (0x07, 0x02, 0, -4),
        (0x85, 0x00, 0, _LOOKUP),
        (0x15, 0x00, 16, 0),  # never
        (0xBF, 0x06, 0, 0),  # r6 = counter
        (0x79, 0x67, 0, 0),  # r7 = taken
        (0x07, 0x07, 0, 1),
        (0x7B, 0x76, 0, 0),
        (0x18, 0x11, 0, ring_fd),
        (0x00, 0x00, 0, 0),
        (0xB7, 0x02, 0, SIZE),
        (0xB7, 0x03, 0, 0),
        (0x85, 0x00, 0, _RESERVE),
        (0x15, 0x00, 6, 0),  # full
        (0x7B, 0x70, 0, 0),
        (0xB7, 0x01, 0, 0),
        (0x7B, 0x10, 8, 0),
        (0xBF, 0x01, 0, 0),
        (0xB7, 0x02, 0, 1),
        (0x85, 0x00, 0, _SUBMIT),
        (0xB7, 0x00, 0, 0),
        (0x95, 0x00, 0, 0),
    )
    return b"".join(struct.pack("<BBhi", *instruction) for instruction in code)


def _run(program: int, count: int) -> None:
    """Let the kernel run a program many times."""
    packet = ctypes.create_string_buffer(64)
    attribute = struct.pack(
        "<IIIIQQII", program, 0, 64, 0, ctypes.addressof(packet), 0, count, 0
    )
    bpf_syscall.bpf(_PROG_TEST_RUN, attribute)


@pytest.fixture
def kernel_ring() -> Iterator[tuple[int, bpf_syscall.Map, bpf_syscall.Map]]:
    counter = bpf_syscall.Map("counter", bpf_syscall.MAP_ARRAY, 4, 8, 1)
    ring_map = bpf_syscall.Map("ring", bpf_syscall.MAP_RING, 0, 0, RING_BYTES)
    code = _counting_program(counter.fd, ring_map.fd)
    text = ctypes.create_string_buffer(code, len(code))
    licence = ctypes.create_string_buffer(b"GPL")
    attribute = struct.pack(
        "<IIQQ",
        _SOCKET_FILTER,
        len(code) // 8,
        ctypes.addressof(text),
        ctypes.addressof(licence),
    )
    program = bpf_syscall.bpf(_PROG_LOAD, attribute)
    yield program, counter, ring_map
    os.close(program)
    counter.close()
    ring_map.close()


@pytest.mark.bpf
def test_records_made_by_the_kernel_arrive_complete_and_in_order(
    kernel_ring: tuple[int, bpf_syscall.Map, bpf_syscall.Map],
) -> None:
    program, _, ring_map = kernel_ring
    opened = ring.Ring(ring_map.fd, RING_BYTES, SIZE)
    arrived: list[int] = []

    # More than one turn of the ring, so regions lie across its end.
    for _ in range(5):
        _run(program, 2_000)
        while (region := opened.drain()) is not None:
            arrived += numbers(region)

    assert arrived == list(range(1, 10_001))
    opened.close()


@pytest.mark.bpf
def test_a_full_ring_keeps_the_oldest_records(
    kernel_ring: tuple[int, bpf_syscall.Map, bpf_syscall.Map],
) -> None:
    program, counter, ring_map = kernel_ring
    opened = ring.Ring(ring_map.fd, RING_BYTES, SIZE)

    _run(program, 10_000)
    kept = numbers(opened.drain())

    assert kept == list(range(1, len(kept) + 1))
    assert RING_BYTES - 2 * STRIDE <= len(kept) * STRIDE <= RING_BYTES
    assert counter.lookup(bytes(4)) == struct.pack("<Q", 10_000)
    opened.close()


@pytest.mark.bpf
def test_two_threads_carry_everything_to_the_sink(
    kernel_ring: tuple[int, bpf_syscall.Map, bpf_syscall.Map],
) -> None:
    program, _, ring_map = kernel_ring
    opened = ring.Ring(ring_map.fd, RING_BYTES, SIZE)
    arrived: list[int] = []
    counted: list[int] = []

    def keep(_: str, region: memoryview, count: int) -> None:
        arrived.extend(numbers(region))
        counted.append(count)

    drainer = ring.Drainer({"stream": opened}, keep)
    drainer.start()
    _run(program, 1_009)
    drainer.stop()

    assert arrived == list(range(1, 1_010))
    assert sum(counted) == 1_009
    opened.close()
