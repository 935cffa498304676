"""The stand-in libraries wait where the real ones wait, and nowhere else.

Claims: a launch and a collective return before their work is done; events, streams and
devices are waited for to the end; a collective ends only after its last member's stream
has come to it; communicators number their members as NCCL does; the calls have the
real binary interface.  Order is asserted, never speed.
"""

from __future__ import annotations

import ctypes
import shutil
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.lab.building import build, why_not_built

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.skipif(
    why_not_built() is not None or shutil.which("cc") is None,
    reason=why_not_built() or "",
)

NOT_READY = 600
NON_BLOCKING = 1
FLOAT32, SUM = 7, 0
LONG_NS = 150_000_000


class UniqueId(ctypes.Structure):
    """The 128 bytes that NCCL takes by value."""

    _fields_ = (("internal", ctypes.c_char * 128),)


class Dim3(ctypes.Structure):
    """A grid size: 12 bytes by value, two registers."""

    _fields_ = (("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint))


@dataclass(frozen=True, kw_only=True, slots=True)
class Gpu:
    """The runtime and the collectives library, loaded."""

    cuda: ctypes.CDLL
    nccl: ctypes.CDLL

    def stream(self) -> ctypes.c_void_p:
        """Make a stream that does not wait for the legacy one."""
        handle = ctypes.c_void_p()
        flags = ctypes.c_uint(NON_BLOCKING)
        assert self.cuda.cudaStreamCreateWithFlags(ctypes.byref(handle), flags) == 0
        return handle

    def event(self) -> ctypes.c_void_p:
        """Make an event."""
        handle = ctypes.c_void_p()
        assert self.cuda.cudaEventCreate(ctypes.byref(handle)) == 0
        return handle

    def launch(self, stream: ctypes.c_void_p, duration_ns: int) -> None:
        """Launch a kernel that runs so long."""
        value = ctypes.c_int64(duration_ns)
        arguments = (ctypes.c_void_p * 1)(ctypes.addressof(value))
        one = Dim3(1, 1, 1)
        size = ctypes.c_size_t(0)
        done = self.cuda.cudaLaunchKernel(None, one, one, arguments, size, stream)
        assert done == 0

    def all_reduce(self, comm: ctypes.c_void_p, stream: ctypes.c_void_p) -> None:
        """Enqueue an all-reduce of one member."""
        count = ctypes.c_size_t(16)
        done = self.nccl.ncclAllReduce(None, None, count, FLOAT32, SUM, comm, stream)
        assert done == 0

    def is_done(self, stream: ctypes.c_void_p) -> bool:
        """Return whether all work of a stream is done."""
        answer = self.cuda.cudaStreamQuery(stream)
        assert answer in {0, NOT_READY}
        return answer == 0

    def communicators(self, size: int) -> list[ctypes.c_void_p]:
        """Make one communicator a rank, each rank a thread."""
        unique_id = UniqueId()
        assert self.nccl.ncclGetUniqueId(ctypes.byref(unique_id)) == 0
        made = [ctypes.c_void_p() for _ in range(size)]

        def join(rank: int) -> None:
            out = ctypes.byref(made[rank])
            assert self.nccl.ncclCommInitRank(out, size, unique_id, rank) == 0

        on_every_rank(size, join)
        return made


def on_every_rank(size: int, act: Callable[[int], None]) -> None:
    threads = [threading.Thread(target=act, args=(rank,)) for rank in range(size)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(timeout=20)
    assert not any(each.is_alive() for each in threads)


@pytest.fixture(scope="module")
def gpu() -> Gpu:
    folder = build()
    return Gpu(
        cuda=ctypes.CDLL(str(folder / "libcudart.so.12")),
        nccl=ctypes.CDLL(str(folder / "libnccl.so.2")),
    )


def test_a_launch_returns_before_its_kernel_has_run(gpu: Gpu) -> None:
    stream = gpu.stream()

    gpu.launch(stream, LONG_NS)

    assert not gpu.is_done(stream)
    assert gpu.cuda.cudaStreamSynchronize(stream) == 0
    assert gpu.is_done(stream)


def test_an_event_is_done_when_what_came_before_it_is(gpu: Gpu) -> None:
    stream, event = gpu.stream(), gpu.event()

    gpu.launch(stream, 1_000_000)
    gpu.cuda.cudaEventRecord(event, stream)
    gpu.launch(stream, LONG_NS)

    assert gpu.cuda.cudaEventSynchronize(event) == 0
    assert gpu.cuda.cudaEventQuery(event) == 0
    assert not gpu.is_done(stream)


def test_a_stream_that_waits_for_an_event_runs_after_it(gpu: Gpu) -> None:
    first, second, event = gpu.stream(), gpu.stream(), gpu.event()

    gpu.launch(first, LONG_NS)
    gpu.cuda.cudaEventRecord(event, first)
    gpu.cuda.cudaStreamWaitEvent(second, event, 0)
    gpu.launch(second, 1)
    gpu.cuda.cudaStreamSynchronize(second)

    assert gpu.is_done(first)


def test_device_synchronisation_waits_for_every_stream(gpu: Gpu) -> None:
    streams = [gpu.stream() for _ in range(3)]

    for stream in streams:
        gpu.launch(stream, 20_000_000)
    gpu.cuda.cudaDeviceSynchronize()

    assert all(gpu.is_done(stream) for stream in streams)


def test_a_collective_ends_after_its_last_stream_has_come(gpu: Gpu) -> None:
    comms = gpu.communicators(3)
    streams = [gpu.stream() for _ in comms]

    gpu.launch(streams[1], LONG_NS)
    late = gpu.event()
    gpu.cuda.cudaEventRecord(late, streams[1])
    for comm, stream in zip(comms, streams, strict=True):
        gpu.all_reduce(comm, stream)
    is_early = [gpu.is_done(stream) for stream in streams]
    gpu.cuda.cudaStreamSynchronize(streams[0])

    assert is_early == [False, False, False]
    assert gpu.cuda.cudaEventQuery(late) == 0


def test_a_group_of_sends_and_receives_around_a_ring_completes(gpu: Gpu) -> None:
    comms = gpu.communicators(3)
    streams = [gpu.stream() for _ in comms]

    for rank, (comm, stream) in enumerate(zip(comms, streams, strict=True)):
        gpu.nccl.ncclGroupStart()
        count = ctypes.c_size_t(4)
        after, before = (rank + 1) % 3, (rank - 1) % 3
        gpu.nccl.ncclSend(None, count, FLOAT32, after, comm, stream)
        gpu.nccl.ncclRecv(None, count, FLOAT32, before, comm, stream)
        assert gpu.nccl.ncclGroupEnd() == 0
    gpu.cuda.cudaDeviceSynchronize()

    assert all(gpu.is_done(stream) for stream in streams)


def test_split_orders_members_by_key_and_then_by_rank(gpu: Gpu) -> None:
    comms = gpu.communicators(4)
    children = [ctypes.c_void_p() for _ in comms]
    colors, keys = (0, 1, 0, 0), (9, 5, 5, 5)

    def split(rank: int) -> None:
        out = ctypes.byref(children[rank])
        color, key = colors[rank], keys[rank]
        assert gpu.nccl.ncclCommSplit(comms[rank], color, key, out, None) == 0

    on_every_rank(4, split)

    placed = [places(gpu, child) for child in children]
    assert placed == [(2, 3), (0, 1), (0, 3), (1, 3)]


def places(gpu: Gpu, comm: ctypes.c_void_p) -> tuple[int, int]:
    rank, size = ctypes.c_int(), ctypes.c_int()
    gpu.nccl.ncclCommUserRank(comm, ctypes.byref(rank))
    gpu.nccl.ncclCommCount(comm, ctypes.byref(size))
    return rank.value, size.value


def test_a_member_without_colour_gets_no_child(gpu: Gpu) -> None:
    comms = gpu.communicators(2)
    children = [ctypes.c_void_p(1), ctypes.c_void_p(1)]

    def split(rank: int) -> None:
        out = ctypes.byref(children[rank])
        assert gpu.nccl.ncclCommSplit(comms[rank], rank - 1, 0, out, None) == 0

    on_every_rank(2, split)

    assert children[0].value is None
    assert places(gpu, children[1]) == (0, 1)


def test_a_captured_collective_runs_only_when_the_graph_is_launched(gpu: Gpu) -> None:
    (comm,) = gpu.communicators(1)
    stream, graph, executable = gpu.stream(), ctypes.c_void_p(), ctypes.c_void_p()

    gpu.cuda.cudaStreamBeginCapture(stream, 0)
    gpu.launch(stream, LONG_NS)
    gpu.all_reduce(comm, stream)
    gpu.cuda.cudaStreamEndCapture(stream, ctypes.byref(graph))
    was_idle = gpu.is_done(stream)
    flags = ctypes.c_ulonglong(0)
    gpu.cuda.cudaGraphInstantiateWithFlags(ctypes.byref(executable), graph, flags)
    gpu.cuda.cudaGraphLaunch(executable, stream)

    assert was_idle
    assert not gpu.is_done(stream)
    assert gpu.cuda.cudaStreamSynchronize(stream) == 0


def test_profiling_names_are_the_same_functions(gpu: Gpu) -> None:
    for name in ("ncclAllReduce", "ncclCommInitRank", "ncclGroupEnd"):
        plain = ctypes.cast(getattr(gpu.nccl, name), ctypes.c_void_p).value
        profiling = ctypes.cast(getattr(gpu.nccl, f"p{name}"), ctypes.c_void_p).value

        assert plain == profiling
