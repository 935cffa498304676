"""A region ends before the first unfinished record, and nothing is lost in between."""

from __future__ import annotations

import mmap
import os
import struct
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from capture import ring
from tests.capture.kernel_ring import KernelRing, kernel_ring

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


@pytest.fixture
def made_by_kernel() -> Iterator[KernelRing]:
    with kernel_ring(RING_BYTES, SIZE) as made:
        yield made


@pytest.mark.bpf
def test_records_made_by_the_kernel_arrive_complete_and_in_order(
    made_by_kernel: KernelRing,
) -> None:
    opened = ring.Ring(made_by_kernel.ring.fd, RING_BYTES, SIZE)
    arrived: list[int] = []

    # More than one turn of the ring, so regions lie across its end.
    for _ in range(5):
        made_by_kernel.make(2_000)
        while (region := opened.drain()) is not None:
            arrived += numbers(region)

    assert arrived == list(range(1, 10_001))
    opened.close()


@pytest.mark.bpf
def test_a_full_ring_keeps_the_oldest_records(
    made_by_kernel: KernelRing,
) -> None:
    opened = ring.Ring(made_by_kernel.ring.fd, RING_BYTES, SIZE)

    made_by_kernel.make(10_000)
    kept = numbers(opened.drain())

    assert kept == list(range(1, len(kept) + 1))
    assert RING_BYTES - 2 * STRIDE <= len(kept) * STRIDE <= RING_BYTES
    assert made_by_kernel.asked == 10_000
    opened.close()


@pytest.mark.bpf
def test_two_threads_carry_everything_to_the_sink(
    made_by_kernel: KernelRing,
) -> None:
    opened = ring.Ring(made_by_kernel.ring.fd, RING_BYTES, SIZE)
    arrived: list[int] = []
    counted: list[int] = []

    def keep(_: str, region: memoryview, count: int) -> None:
        arrived.extend(numbers(region))
        counted.append(count)

    drainer = ring.Drainer({"stream": opened}, keep)
    drainer.start()
    made_by_kernel.make(1_009)
    drainer.stop()

    assert arrived == list(range(1, 1_010))
    assert sum(counted) == 1_009
    opened.close()


@pytest.mark.bpf
def test_what_a_ring_maps_is_what_the_kernel_counts_as_resident(
    made_by_kernel: KernelRing,
) -> None:
    before = resident_rings()
    opened = ring.Ring(made_by_kernel.ring.fd, RING_BYTES, SIZE)

    assert opened.drain() is None
    assert resident_rings() - before == opened.mapped_bytes
    opened.close()


def resident_rings() -> int:
    """Return the resident bytes of all rings that this process maps."""
    total, is_ring = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        name, *rest = line.split()
        if not name.endswith(":"):
            is_ring = rest[-1].endswith("bpf-map")
        elif name == "Rss:" and is_ring:
            total += int(rest[0]) * 1024
    return total
