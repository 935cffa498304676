"""Ring buffers of the kernel: emptied in bulk, written by a second thread.

Nothing is looked at record by record on the way from the kernel to the spool: a
region is copied whole, and only the length word of each record is checked, because a
record whose writer has not finished has its busy bit set and ends the region.  The
kernel never wakes us (BPF_RB_NO_WAKEUP); we look every 10 ms, less often when idle.
"""

from __future__ import annotations

import mmap
import queue
import threading
import time
from typing import TYPE_CHECKING

from capture.layout import RING_HEADER_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_BUSY = 1 << 31
_MOST_AT_ONCE = 4 << 20
_POOL_REGIONS = 32
"""Regions that may wait for the disk: with 4 MiB each, 128 MiB at the most."""
_POLL_S, _IDLE_POLL_S = 0.01, 0.1


class Ring:
    """One mapped ring buffer whose records all have one size."""

    def __init__(self, fd: int, ring_bytes: int, record_size: int) -> None:
        page = mmap.PAGESIZE
        # The consumer's page may be written, the producer's and the data may not; the
        # data is mapped twice in a row, so a region never wraps.
        self._consumer_map = mmap.mmap(fd, page, mmap.MAP_SHARED)
        self._producer_map = mmap.mmap(
            fd, page + 2 * ring_bytes, mmap.MAP_SHARED, mmap.PROT_READ, offset=page
        )
        # Native 64-bit items: one load or store each, which "<Q" of struct is not.
        self._consumer = memoryview(self._consumer_map)[:8].cast("Q")
        self._producer = memoryview(self._producer_map)[:8].cast("Q")
        self._data = memoryview(self._producer_map)[page:]
        self._mask = ring_bytes - 1
        self.size_bytes = ring_bytes
        self.mapped_bytes = 2 * page + 2 * ring_bytes
        self.most_used_bytes = 0
        """The fullest that the ring was when it was looked at, which is before it is
        emptied: between two looks it only fills."""
        self.stride = RING_HEADER_SIZE + (record_size + 7) // 8 * 8
        self._most = max(1, _MOST_AT_ONCE // self.stride) * self.stride

    def drain(self) -> memoryview | None:
        """Return a copy of the finished records, at most 4 MiB, or None."""
        start = self._consumer[0]
        used = self._producer[0] - start
        self.most_used_bytes = max(self.most_used_bytes, used)
        length = min(used, self._most)
        if length <= 0:
            return None
        at = start & self._mask
        region = self._data[at : at + length]
        length = self._finished(region)
        if length == 0:
            return None
        copy = memoryview(bytes(region[:length]))
        self._consumer[0] = start + length
        return copy

    def _finished(self, region: memoryview) -> int:
        """Return the bytes before the first record that is still being written."""
        words = region.cast("I")[:: self.stride // 4]
        if max(words) < _BUSY:
            return len(region)
        return next(i for i, word in enumerate(words) if word >= _BUSY) * self.stride

    def close(self) -> None:
        """Unmap the ring."""
        for view in (self._consumer, self._producer, self._data):
            view.release()
        self._consumer_map.close()
        self._producer_map.close()


def iter_records(region: bytes | memoryview, record_size: int) -> Iterator[bytes]:
    """Yield the records of a region, without their ring headers."""
    stride = RING_HEADER_SIZE + (record_size + 7) // 8 * 8
    for at in range(RING_HEADER_SIZE, len(region), stride):
        yield bytes(region[at : at + record_size])


def ring_shaped(records: list[bytes]) -> bytes:
    """Return records of one size as a region that looks like a ring's."""
    return b"".join(len(r).to_bytes(4, "little") + bytes(4) + r for r in records)


class Drainer:
    """Two threads that carry regions from rings to a sink.

    One empties the rings, the other writes: a disk that stalls must not stop the
    first.  When the pool is full the rings have to hold what comes, and what they
    cannot hold is counted as lost in the kernel.  Facts need an answer at once
    (attach, read maps), so leave that ring out and drain it where they are handled.

    Parameters
    ----------
    rings
        Rings by stream.
    sink
        Called in the writer's thread with the stream, a region and its record count.
    """

    def __init__(
        self,
        rings: Mapping[str, Ring],
        sink: Callable[[str, memoryview, int], None],
    ) -> None:
        self._rings = dict(rings)
        self._sink = sink
        self._pool: queue.Queue[tuple[str, memoryview, int] | None] = queue.Queue(
            _POOL_REGIONS
        )
        self._stopping = threading.Event()
        self._threads = (
            threading.Thread(target=self._drain, name="drain", daemon=True),
            threading.Thread(target=self._write, name="write", daemon=True),
        )
        self.error: Exception | None = None
        """What the sink raised; nothing is written after it."""
        self.unwritten: dict[str, int] = {}
        """Records by stream that came out of their ring and into no file."""
        self.spent_ns: dict[str, int] = {}
        """Processor time of threads that have ended, ``drain`` and ``write``."""

    def start(self) -> None:
        """Start both threads."""
        for thread in self._threads:
            thread.start()

    @property
    def thread_ids(self) -> dict[str, int | None]:
        """Return the kernel's numbers of the two threads, ``drain`` and ``write``."""
        return {thread.name: thread.native_id for thread in self._threads}

    def stop(self) -> None:
        """Empty the rings a last time, write everything, and end both threads.

        Raises
        ------
        Exception
            What the sink raised, if it did.
        """
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        if self.error is not None:
            raise self.error

    def _drain(self) -> None:
        pause = _POLL_S
        while not self._stopping.wait(pause):
            pause = _POLL_S if self._pass() else min(pause * 2, _IDLE_POLL_S)
        while self._pass():
            pass
        self._pool.put(None)
        self.spent_ns["drain"] = time.thread_time_ns()

    def _pass(self) -> bool:
        """Move one region of each ring; return whether there was any."""
        found = False
        for stream, ring in self._rings.items():
            region = ring.drain()
            if region is not None:
                found = True
                self._pool.put((stream, region, len(region) // ring.stride))
        return found

    def _write(self) -> None:
        while (item := self._pool.get()) is not None:
            if self.error is None:
                try:
                    self._sink(*item)
                    continue
                except Exception as error:  # noqa: BLE001 a thread has nobody to raise to
                    self.error = error
            stream, _, count = item
            self.unwritten[stream] = self.unwritten.get(stream, 0) + count
        self.spent_ns["write"] = time.thread_time_ns()
