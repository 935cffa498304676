"""Jobs of made times for the tests of views: eight ranks on two hosts, step by step.

A rank works, then meets the others in one all-reduce a step.  Times are drawn from a
seeded generator, so that a job is the same each time it is made.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from tests.builders import case

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.builders import CaseBuilder, ThreadBuilder

MS = 1_000_000
TRANSFER_NS = 200_000
STREAM = 0x7F00


@dataclass(frozen=True, kw_only=True)
class Job:
    """What a job does, and who is late in it."""

    ranks: int = 8
    hosts: tuple[str, ...] = ("hosta", "hostb")
    steps: int = 60
    work_ns: int = 40 * MS
    noise: float = 0.01
    late: Callable[[int, int], int] = field(default=lambda _rank, _step: 0)
    """Time in a read that a rank spends in a step, by rank and step."""

    offsets: dict[str, int] = field(default_factory=lambda: {"hostb": 250 * MS})
    rates: dict[str, float] = field(default_factory=lambda: {"hostb": 20e-6})
    streams: dict[str, tuple[str, ...]] = field(default_factory=dict)
    seed: int = 1

    def host_of(self, rank: int) -> str:
        """Return the host of a rank: equal blocks of ranks, in order."""
        return self.hosts[rank * len(self.hosts) // self.ranks]

    def _threads(self, made: CaseBuilder) -> list[ThreadBuilder]:
        every = ("collective", "gpu_call", "off_cpu")
        for name in self.hosts:
            made.host(
                name,
                offset_ns=self.offsets.get(name, 0),
                rate=self.rates.get(name, 0.0),
                streams=self.streams.get(name, every),
                world_size=self.ranks,
            )
        threads = [
            made.host(self.host_of(rank)).rank(rank) for rank in range(self.ranks)
        ]
        for rank, thread in enumerate(threads):
            thread.collective(
                "comm_init",
                start_ns=900 * MS + rank,
                duration_ns=MS,
                communicator=None,
                child="world",
            )
        return threads

    def blocking(self) -> CaseBuilder:
        """Return the job with a blocking all-reduce, as MPI has it."""
        random = Random(self.seed)  # noqa: S311 -- noise, not secrets
        made = case().communicator("world", kind="mpi")
        threads = self._threads(made)
        free = [1_000 * MS] * self.ranks
        for step in range(self.steps):
            arrivals = []
            for rank, thread in enumerate(threads):
                work = round(self.work_ns * random.lognormvariate(0, self.noise))
                late = self.late(rank, step)
                streams = self.streams.get(self.host_of(rank), ("off_cpu",))
                if late and "off_cpu" in streams:
                    thread.off_cpu(
                        start_ns=free[rank] + work // 2,
                        duration_ns=late,
                        syscall="read",
                        runq_latency_ns=5_000,
                    )
                arrivals.append(free[rank] + work + late)
            done = max(arrivals) + TRANSFER_NS
            for rank, thread in enumerate(threads):
                end = done + random.randrange(2_000, 40_000)
                thread.collective(
                    start_ns=arrivals[rank], duration_ns=end - arrivals[rank]
                )
                free[rank] = end
        return made

    def enqueue_only(self, *, gpu_ns: Callable[[int, int], int]) -> CaseBuilder:
        """Return the job with NCCL calls on a stream that one synchronisation ends."""
        random = Random(self.seed)  # noqa: S311 -- noise, not secrets
        made = case().communicator("world", kind="nccl")
        threads = self._threads(made)
        free = [1_000 * MS] * self.ranks
        for step in range(self.steps):
            issued = []
            for rank in range(self.ranks):
                work = round(2 * MS * random.lognormvariate(0, self.noise))
                issued.append(free[rank] + work + self.late(rank, step))
            done = TRANSFER_NS + max(
                issued[rank] + gpu_ns(rank, step) for rank in range(self.ranks)
            )
            for rank, thread in enumerate(threads):
                end = done + random.randrange(2_000, 40_000)
                start = issued[rank]
                thread.collective(
                    start_ns=start, duration_ns=20_000, stream_handle=STREAM
                )
                thread.gpu_call(
                    "stream_sync",
                    start_ns=start + 30_000,
                    duration_ns=end - start - 30_000,
                    stream_handle=STREAM,
                )
                free[rank] = end
        return made


def every_14th(rank: int, step: int) -> int:
    """Rank 5 is late by 290 ms at each 14th step."""
    return 290 * MS if rank == 5 and step % 14 == 13 else 0


def always(rank: int, _step: int) -> int:
    """Rank 5 is late by 50 ms at every step."""
    return 50 * MS if rank == 5 else 0
