"""What every loader of BPF programs offers the recorder, and the words they share.

``core`` loads objects compiled ahead of time, ``bcc`` compiles the same sources on
the host.  Both read the same maps (:mod:`capture.loaders.kernel`), so all that a
loader does by itself is to bring programs into the kernel and to attach them.

The order of a recording: ``load``, then ``add_target`` / ``attach`` /
``attach_tracepoints`` in any order and again for libraries found later, drain
``rings()``, ``quiesce``, drain once more, ``last_totals``, ``in_flight``,
``probe_counters``, and ``close`` last: detaching can be slow, so everything is on disk
before it.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from capture.errors import CaptureError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from capture.loaders.run_time import ProgramRuns
    from capture.probes import ProbeSite
    from capture.ring import Ring

RING_BYTES = {
    "collective": 8 << 20,
    "gpu_call": 64 << 20,
    "off_cpu": 64 << 20,
    "facts": 1 << 20,
}
"""Default ring sizes: 16 MB lost records whenever a write stalled for 160 ms, 64 MB
did not; a ring of its own keeps a flood of switches from starving the rare records."""


class LoaderError(CaptureError):
    """A loader cannot work here; the message says what is missing."""


@dataclass(frozen=True)
class LoaderSettings:
    """What the kernel part has to know before it is loaded."""

    streams: tuple[str, ...]
    off_cpu_min_ns: int = 100_000
    force_totals_ns: int = 100_000_000
    """A thread's short absences are written at least this often."""
    follow_fork: bool = True
    """A child of a target is a target from its first instruction."""
    adopt_library_users: bool = True
    """The first hit of a library probe makes its process a target."""
    nested_driver_calls: bool = False
    """Record driver calls inside a recorded runtime call (probe set ``full``)."""
    can_thin: bool = False
    """Parts of a stream may be muted: each is attached so that it can go by itself,
    which costs a link each, and detaching takes 40 ms a link."""
    own_pid: int = field(default_factory=os.getpid)
    """Never a target."""
    ring_bytes: Mapping[str, int] = field(default_factory=lambda: dict(RING_BYTES))
    libbpf: Path | None = None


@dataclass(frozen=True)
class AttachResult:
    """What became of one asked probe; ``probe_id`` is None for a tracepoint."""

    probe_id: int | None
    stream: str
    symbol: str
    is_attached: bool
    refused_reason: str | None = None


class CpuLoss(NamedTuple):
    """Records of one probe that one CPU could not keep."""

    cpu: int
    lost_count: int
    map_full_count: int
    """The part of ``lost_count`` that a full map refused; the ring refused the rest."""
    first_ns: int
    last_ns: int


@dataclass(frozen=True)
class ProbeCounter:
    """What the kernel counted for one probe (tracepoint streams: probe_id None)."""

    probe_id: int | None
    stream: str
    hit_count: int
    unmatched_return_count: int
    losses: tuple[CpuLoss, ...] = ()

    @property
    def lost_count(self) -> int:
        """Return the records that were lost, on all CPUs."""
        return sum(loss.lost_count for loss in self.losses)


class Loader(Protocol):
    """One way to bring the programs into the kernel."""

    name: str
    detail: str
    missing_columns: dict[str, dict[str, str]]

    def load(self, settings: LoaderSettings) -> None:
        """Make the maps and load the programs; raises LoaderError."""
        ...

    def attach(self, sites: Sequence[ProbeSite]) -> list[AttachResult]:
        """Attach library probes, all those that can be; may be called again."""
        ...

    def attach_tracepoints(self) -> list[AttachResult]:
        """Attach what watches processes and the scheduler."""
        ...

    def add_target(self, pid: int) -> None:
        """Record this process from now on."""
        ...

    def remove_target(self, pid: int) -> None:
        """Stop recording this process."""
        ...

    def set_world(self, pid: int, address: int) -> dict[str, object] | None:
        """Tell where ``MPI_COMM_WORLD`` of a process is (Open MPI only).

        ``address`` is that of ``ompi_mpi_comm_world`` as the program sees it: most
        executables carry a copy relocation, so the symbol defined in the executable
        counts, and the one in the library only if there is none.  Had the process
        used that handle already, the communicator fact that corrects what was told
        before (``how`` is then ``world``) comes back, to be written as it is.
        """
        ...

    def rings(self) -> dict[str, Ring]:
        """Return the mapped ring of each asked stream, and ``facts``."""
        ...

    def in_flight(self, older_than_ns: int) -> dict[str, bytes]:
        """Return calls and absences not yet over, as ring-shaped records by stream.

        Only those at least ``older_than_ns`` old.
        """
        ...

    def last_totals(self) -> bytes:
        """Return the totals of short absences that no record carries, ring-shaped.

        Only after ``quiesce``: until then the kernel may still write them itself.
        """
        ...

    def probe_counters(self) -> list[ProbeCounter]:
        """Return what the kernel counted so far."""
        ...

    def mute(self, part: str) -> int:
        """Record no more calls of a part (``probes.PARTS``); return its probes."""
        ...

    def set_off_cpu_min(self, off_cpu_min_ns: int) -> None:
        """Set the shortest absence with a record of its own, from now on."""
        ...

    def program_runs(self) -> dict[str, ProgramRuns]:
        """Return runs and run time of the programs so far, by name."""
        ...

    def count_run_time(self) -> int:
        """Let the kernel count run time until the descriptor returned is closed.

        Raises OSError where it may not.
        """
        ...

    def quiesce(self) -> None:
        """Make every program return at once; nothing is recorded after this."""
        ...

    def close(self) -> None:
        """Detach and unload everything."""
        ...


# Facts: what the kernel tells once, read record by record (struct fact, record.h).

FACT = struct.Struct("<QQQIiiiiiiiiiBBH4x")

FACT_KINDS = {
    1: "communicator",
    2: "destroyed",
    3: "exec",
    4: "fork",
    5: "exit",
    6: "target",
    7: "thread",
}
"""target: a process became one by the first hit of a library probe; fork: a target's
child, a target too; thread: a new thread of a target; exit: a target ended; exec: a
target runs another program, and while library users are looked for, any process does.
Nothing tells of mappings: kernels that let programs watch them are not everywhere."""

_VENDORS = {0: "nccl", 1: "mpi"}
_HOW = {
    1: "seen",
    2: "world",
    3: "init",
    4: "init_all",
    5: "split",
    6: "dup",
    7: "create",
    8: "shrink",
    9: "grow",
    10: "split_type",
}
_HAS_ORIGIN, _HAS_PARENT, _HAS_COLOR, _HAS_KEY = 1, 2, 4, 8
_HAS_SIZE, _HAS_RANK, _BASE_KNOWN = 16, 32, 64


def decode_fact(record: bytes) -> dict[str, object]:
    """Return one record of the facts ring; ``fact`` names its kind.

    A ``communicator`` has the columns of facts/communicator but origin and
    generation, and ``mix1`` and ``mix2`` (None without an origin of its own) instead.
    A ``target`` is the sign to read a process's maps; for the others see FACT_KINDS.
    """
    return read_fact(FACT.unpack_from(record))


def read_fact(row: tuple[int, ...]) -> dict[str, object]:
    """Return the fact in the numbers of one record."""
    time_ns, _, _, kind, pid, tid, ref, parent = row[:8]
    fact = FACT_KINDS.get(kind, f"kind_{kind}")
    if fact == "communicator":
        return _communicator(row)
    if fact == "destroyed":
        return {
            "fact": fact,
            "communicator_ref": ref,
            "pid": pid,
            "destroyed_ns": time_ns,
        }
    return {
        "fact": fact,
        "pid": pid,
        "tid": tid,
        "parent_pid": parent or None,
        "time_ns": time_ns,
    }


def _communicator(row: tuple[int, ...]) -> dict[str, object]:
    """Return the communicator fact of one unpacked record."""
    time_ns, mix1, mix2, _, pid, _, ref, parent = row[:8]
    child_index, color, key, size, rank, how, vendor, flags = row[8:]

    def given(value: int, bit: int) -> int | None:
        return value if flags & bit else None

    return {
        "fact": "communicator",
        "communicator_ref": ref,
        "pid": pid,
        "kind": _VENDORS.get(vendor, "other"),
        "mix1": given(mix1, _HAS_ORIGIN),
        "mix2": given(mix2, _HAS_ORIGIN),
        "parent_ref": given(parent, _HAS_PARENT),
        "child_index": given(child_index, _HAS_PARENT),
        "color": given(color, _HAS_COLOR),
        "key": given(key, _HAS_KEY),
        "size": given(size, _HAS_SIZE),
        "rank": given(rank, _HAS_RANK),
        "how": _HOW.get(how, f"how_{how}"),
        "is_base_known": bool(flags & _BASE_KNOWN),
        "first_ns": time_ns,
    }
