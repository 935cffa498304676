"""Small cases for tests, written in a line or two and loaded by the real loader.

::

    built = (
        case()
        .host("a")
        .rank(0)
        .collective(start_ns=1_000, duration_ns=500)
        .rank(1)
        .collective(start_ns=1_300, duration_ns=200)
        .host("b", offset_ns=7_000_000, rate=20e-6)
        .rank(2)
        .collective(start_ns=1_100, duration_ns=400)
        .rank(2)
        .off_cpu(start_ns=500, duration_ns=300, off_state="disk")
        .build(tmp_path)
    )
    built.frame("select * from raw.collective")

Times are true time; what a host's bundle holds is its own clock, true time plus
``offset_ns`` plus ``rate`` times true time.  Facts (process, thread, rank,
communicator, probe, host, clock readings) follow from the events.  ``host``, ``rank``
and ``thread`` return what is there already when asked again, and can be called from any
link of the chain.
"""

# ruff: noqa: ANN401 - columns of every type pass through
from __future__ import annotations

import uuid
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from tests.bundle_writer import MAX_CHUNK_ROWS, write_zip
from tests.made_bundle import OFF_STATES, SECOND, STREAMS, MadeBundle
from workbench.store.case import Case, open_case
from workbench.store.load import load_bundles

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import ArrayLike, NDArray

__all__ = ["OFF_STATES", "SECOND", "STREAMS", "case"]


def case() -> CaseBuilder:
    """Return a builder of an empty case."""
    return CaseBuilder()


class CaseBuilder:
    """Hosts, and the communicators that their processes share."""

    def __init__(self) -> None:
        self.hosts: dict[str, HostBuilder] = {}
        self.communicators: dict[str, dict[str, Any]] = {}
        self.members: dict[str, set[int]] = defaultdict(set)

    def host(self, name: str, **options: Any) -> HostBuilder:
        """Return the host of that name; options are those of :class:`HostBuilder`."""
        if name not in self.hosts:
            self.hosts[name] = HostBuilder(self, name, **options)
        return self.hosts[name]

    def communicator(self, label: str, **columns: Any) -> Self:
        """Set columns of fact ``communicator`` that differ from the defaults."""
        self.communicators.setdefault(label, {}).update(columns)
        return self

    def write(self, folder: Path) -> list[Path]:
        """Write a bundle for each host and return their paths."""
        folder.mkdir(exist_ok=True)
        return [host.write(folder) for host in self.hosts.values()]

    def build(self, folder: Path, *, library: bool = True) -> Case:
        """Return the loaded case, open for reading; `library` also builds the views."""
        paths = self.write(folder)
        path = folder / "case.duckdb"
        with Case.create(path) as made:
            load_bundles(made, paths, build=library)
        return open_case(path)


class _Link:
    """What every link of the chain offers."""

    case: CaseBuilder

    def host(self, name: str, **options: Any) -> HostBuilder:
        """Return a host of the case."""
        return self.case.host(name, **options)

    def write(self, folder: Path) -> list[Path]:
        """Write the case's bundles."""
        return self.case.write(folder)

    def build(self, folder: Path, *, library: bool = True) -> Case:
        """Write and load the case."""
        return self.case.build(folder, library=library)


class HostBuilder(_Link):
    """One host and its one capture.

    Parameters
    ----------
    offset_ns, rate
        The host's clock against true time.
    start_ns, stop_ns
        The capture in true time; a second around the events if not given.
    streams
        What was recorded.
    manifest
        Values of ``capture``, ``host`` or the manifest itself that differ, by key.
    stream_facts
        Values of a stream's object of the manifest that differ, by stream.
    without_columns
        Columns that the loader could not give, by stream.
    reading
        Changes a clock reading, a dict that holds what the host's clocks show.
    """

    def __init__(
        self,
        owner: CaseBuilder,
        name: str,
        *,
        offset_ns: int = 0,
        rate: float = 0.0,
        start_ns: int | None = None,
        stop_ns: int | None = None,
        streams: Sequence[str] = STREAMS,
        job_id: str | None = "job",
        world_size: int | None = None,
        chunk_rows: int = MAX_CHUNK_ROWS,
        manifest: Mapping[str, Any] | None = None,
        stream_facts: Mapping[str, Mapping[str, Any]] | None = None,
        without_columns: Mapping[str, Sequence[str]] | None = None,
        reading: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    ) -> None:
        self.case = owner
        self.name = name
        self.offset_ns, self.rate = offset_ns, rate
        self.window = (start_ns, stop_ns)
        self.streams = tuple(streams)
        self.job_id, self.world_size = job_id, world_size
        self.chunk_rows = chunk_rows
        self.changes = dict(manifest or {})
        self.stream_facts = dict(stream_facts or {})
        self.without_columns = dict(without_columns or {})
        self.reading = reading
        self.rows: dict[str, list[dict[str, Any]]] = {stream: [] for stream in STREAMS}
        self.bulk: dict[str, list[dict[str, NDArray[Any]]]] = defaultdict(list)
        self.facts: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.threads: dict[int, ThreadBuilder] = {}
        self.names: dict[str, dict[str, int]] = {"operations": {}, "syscalls": {}}
        self.refs: dict[tuple[str, int], int] = {}
        self.boot_id = str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{name}.boot"))

    def clock(self, true_ns: int) -> int:
        """Return the host's MONOTONIC at a true time."""
        return true_ns + self.offset_ns + round(true_ns * self.rate)

    def rank(self, rank: int, *, pid: int | None = None, **fact: Any) -> ThreadBuilder:
        """Return the main thread of the process that is `rank`."""
        pid = 1_000 + rank if pid is None else pid
        if pid not in self.threads:
            local = sum(
                thread.rank_number is not None for thread in self.threads.values()
            )
            thread = self.thread(pid, pid=pid)
            thread.rank_number = rank
            row = {
                "pid": pid,
                "start_ticks": thread.start_ticks,
                "rank": rank,
                "local_rank": local,
                "world_size": self.world_size,
                "source": "openmpi",
                "job_id": self.job_id,
            }
            self.facts["rank"].append(row | fact)
        return self.threads[pid]

    def thread(
        self,
        tid: int,
        *,
        pid: int | None = None,
        name: str = "python",
        start_ticks: int = 0,
    ) -> ThreadBuilder:
        """Return a thread; its process is that of `tid` unless `pid` says otherwise."""
        pid = tid if pid is None else pid
        if tid not in self.threads:
            self.threads[tid] = ThreadBuilder(self, pid, tid, start_ticks)
            fact = {
                "pid": pid,
                "tid": tid,
                "start_ticks": start_ticks,
                "thread_name": name,
                "first_ns": None,
                "state_at_start": None,
            }
            self.facts["thread"].append(fact)
            self._process(pid, name, start_ticks)
        return self.threads[tid]

    def _process(self, pid: int, name: str, start_ticks: int) -> None:
        if any(row["pid"] == pid for row in self.facts["process"]):
            return
        fact = {
            "pid": pid,
            "start_ticks": start_ticks,
            "pid_namespace": 4026531836,
            "parent_pid": 1,
            "process_name": name,
            "target_reason": "library",
            "first_ns": None,
            "exit_ns": None,
            "job_id": self.job_id,
            "cgroup": None,
        }
        self.facts["process"].append(fact)

    def fact(self, name: str, **columns: Any) -> Self:
        """Add a row to a fact as it stands; the caller gives every key."""
        self.facts[name].append(columns)
        return self

    def events(self, stream: str, **columns: ArrayLike) -> Self:
        """Add many events at once, a column an array, in true time.

        Names (`operation`, `syscall`) are arrays of codes from :meth:`code`; a column
        left out is null, or 0 where it cannot be.  Threads are not made: call
        :meth:`rank` or :meth:`thread` for them.
        """
        arrays = {name: np.asarray(values) for name, values in columns.items()}
        true_ns = arrays["start_ns"].astype("<i8")
        if self.offset_ns or self.rate:
            arrays["start_ns"] = self._clocks(true_ns)
            if "duration_ns" in arrays:
                ends = self._clocks(true_ns + arrays["duration_ns"])
                arrays["duration_ns"] = ends - arrays["start_ns"]
        self.bulk[stream].append(arrays)
        return self

    def _clocks(self, true_ns: NDArray[Any]) -> NDArray[Any]:
        slewed = np.rint(true_ns * self.rate).astype("<i8")
        return true_ns + self.offset_ns + slewed

    def code(self, name: str, table: str = "operations") -> int:
        """Return the code of an operation or a system call in this bundle."""
        return self.names[table].setdefault(name, len(self.names[table]) + 1)

    def communicator_ref(self, label: str, thread: ThreadBuilder) -> int:
        """Return the process's row of facts/communicator for a communicator."""
        if thread.rank_number is not None:
            self.case.members[label].add(thread.rank_number)
        return self.refs.setdefault((label, thread.pid), len(self.refs) + 1)

    def members(self) -> dict[str, bytes]:
        """Return the members of this host's bundle, check sums included."""
        return MadeBundle(self).members()

    def write(self, folder: Path) -> Path:  # type: ignore[override]
        """Write this host's bundle and return its path."""
        return write_zip(folder / f"{self.name}.bundle", self.members())


class ThreadBuilder(_Link):
    """One thread; its methods add events and return it."""

    def __init__(
        self, owner: HostBuilder, pid: int, tid: int, start_ticks: int
    ) -> None:
        self.owner = owner
        self.case = owner.case
        self.pid, self.tid, self.start_ticks = pid, tid, start_ticks
        self.rank_number: int | None = None
        self.sequences: dict[tuple[Any, ...], int] = defaultdict(int)

    def rank(self, rank: int, **fact: Any) -> ThreadBuilder:
        """Return another rank of the same host."""
        return self.owner.rank(rank, **fact)

    def thread(self, tid: int, **options: Any) -> ThreadBuilder:
        """Return another thread of the same host."""
        return self.owner.thread(tid, **options)

    def collective(
        self,
        operation: str = "all_reduce",
        *,
        start_ns: int,
        duration_ns: int | None = None,
        communicator: str | None = "world",
        collective_seq: int | None = None,
        **columns: Any,
    ) -> Self:
        """Add a call; without `duration_ns` it is open, its number counts itself."""
        row: dict[str, Any] = {"element_count": 1, "return_code": 0, "data_type": 7}
        row |= {"depth": 0, "is_open": duration_ns is None, "is_base_known": True}
        if duration_ns is None:
            del row["return_code"]
        if communicator is not None:
            row["communicator_ref"] = self.owner.communicator_ref(communicator, self)
            peer = columns.get("peer_rank") if operation in ("send", "recv") else None
            key = (communicator, peer, operation if peer is not None else None)
            number = self.sequences[key] if collective_seq is None else collective_seq
            self.sequences[key] = number + 1
            row["collective_seq"] = number
        if (child := columns.pop("child", None)) is not None:
            row["child_ref"] = self.owner.communicator_ref(child, self)
        return self._event(
            "collective", operation, start_ns, duration_ns, row | columns
        )

    def gpu_call(
        self,
        operation: str = "launch",
        *,
        start_ns: int,
        duration_ns: int | None = None,
        **columns: Any,
    ) -> Self:
        """Add a call of the driver; without `duration_ns` it is an entry alone."""
        row: dict[str, Any] = {"stream_handle": 0, "layer": 0, "depth": 0}
        if duration_ns is not None:
            row["return_code"] = 0
        return self._event("gpu_call", operation, start_ns, duration_ns, row | columns)

    def off_cpu(
        self, *, start_ns: int, duration_ns: int | None = None, **columns: Any
    ) -> Self:
        """Add an absence; `off_state` and `syscall` are names."""
        row: dict[str, Any] = {"is_open": duration_ns is None, "off_state": "sleep"}
        if duration_ns is not None:
            row["runq_latency_ns"] = 0
        row |= {"is_iowait": False, **columns}
        return self._event("off_cpu", None, start_ns, duration_ns, row)

    def _event(
        self,
        stream: str,
        operation: str | None,
        start_ns: int,
        duration_ns: int | None,
        row: dict[str, Any],
    ) -> Self:
        host = self.owner
        if stream not in host.streams:
            message = f"host {host.name} does not record {stream}"
            raise ValueError(message)
        row |= {"start_ns": host.clock(start_ns), "pid": self.pid, "tid": self.tid}
        if duration_ns is not None:
            end = host.clock(start_ns + duration_ns)
            row["duration_ns"] = end - row["start_ns"]
        if operation is not None:
            row["operation"] = host.code(operation)
        if isinstance(row.get("syscall"), str):
            row["syscall"] = host.code(row["syscall"], "syscalls")
        if isinstance(row.get("off_state"), str):
            row["off_state"] = OFF_STATES.index(row["off_state"])
        host.rows[stream].append(row)
        return self
