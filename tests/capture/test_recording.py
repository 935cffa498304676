"""Claim: a recording writes all it has in the right order, whatever ends it.

The kernel side is a stand-in here, so that order and stop conditions can be told apart
from eBPF; the live test is test_record_live.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest

from capture import record, recording
from capture.errors import CaptureError
from capture.layout import LAYOUTS
from capture.loaders import FACT, AttachResult, CpuLoss, ProbeCounter
from capture.loaders.run_time import ProgramRuns
from capture.options import RecordOptions
from capture.probes import ProbeSite, rows_for
from capture.ring import ring_shaped
from capture.spool import SpoolReader, SpoolWriter
from tests.capture.processes import CUDART, make_library, make_user, running

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from capture.libraries import MappedLibrary
    from tests.capture.processes import Child

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="no compiler here")

STREAM = "gpu_call"


class StandInRing:
    """Gives out what it was given."""

    stride = LAYOUTS[STREAM].stride
    size_bytes = mapped_bytes = 1 << 16
    most_used_bytes = 0

    def __init__(self) -> None:
        self.regions: list[bytes] = []

    def drain(self) -> memoryview | None:
        """Return the next region."""
        return memoryview(self.regions.pop(0)) if self.regions else None


class StandInLoader:
    """Notes what it is asked to do; its rings are filled by the test."""

    name = "core"
    detail = "stand-in"
    missing_columns: dict[str, dict[str, str]] = {STREAM: {"layer": "not here"}}  # noqa: RUF012

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.ring = StandInRing()
        self.facts = StandInRing()
        self.targets: list[int] = []
        self.open = b""

    def load(self, settings: object) -> None:
        """Load nothing."""

    def attach(self, sites: Sequence[ProbeSite]) -> list[AttachResult]:
        """Attach each probe, or so it says."""
        self.calls.append(f"attach {len(sites)}")
        return [
            AttachResult(site.probe_id, STREAM, site.symbol, is_attached=True)
            for site in sites
        ]

    def attach_tracepoints(self) -> list[AttachResult]:
        """Attach nothing."""
        return []

    def add_target(self, pid: int) -> None:
        """Note a target."""
        self.targets.append(pid)

    def remove_target(self, pid: int) -> None:
        """Forget nothing."""

    def set_world(self, pid: int, address: int) -> dict[str, object] | None:
        """Know of no world."""

    def rings(self) -> dict[str, Any]:
        """Return both rings."""
        return {STREAM: self.ring, "facts": self.facts}

    def in_flight(self, older_than_ns: int) -> dict[str, bytes]:
        """Return the open calls; those of this test are old."""
        self.calls.append(f"in_flight {older_than_ns}")
        return {STREAM: self.open}

    def last_totals(self) -> bytes:
        """Have no totals."""
        return b""

    def probe_counters(self) -> list[ProbeCounter]:
        """Return one probe's counts."""
        return [ProbeCounter(1, STREAM, 17, 0, (CpuLoss(3, 2, 0, 5, 7),))]

    def mute(self, part: str) -> int:
        """Note what is to be left out; there is nothing of it."""
        self.calls.append(f"mute {part}")
        return 0

    def set_off_cpu_min(self, off_cpu_min_ns: int) -> None:
        """Note the threshold."""
        self.calls.append(f"off_cpu_min {off_cpu_min_ns}")

    def count_run_time(self) -> int:
        """Refuse, as the kernel does without the right to it."""
        raise PermissionError

    def program_runs(self) -> dict[str, ProgramRuns]:
        """Return what is counted at all times."""
        return {"on_enter": ProgramRuns(0, 0, 3)}

    def quiesce(self) -> None:
        """Stop; what still lies in the ring comes after this."""
        self.calls.append("quiesce")
        self.ring.regions.append(region(1))

    def close(self) -> None:
        """Detach."""
        self.calls.append("close")


def region(count: int) -> bytes:
    return ring_shaped([bytes(LAYOUTS[STREAM].size)] * count)


def plan(libraries: Sequence[MappedLibrary], _probe_set: str) -> list[ProbeSite]:
    probe = next(p for p in rows_for("cudart") if "cudaStreamSynchronize" in p.symbols)
    return [
        ProbeSite(1, probe, each.library_ref, each.fd_path, 64, probe.symbols[0])
        for each in libraries
        if each.path.endswith("/libcudart.so.12")
    ]


@pytest.fixture
def loader(monkeypatch: pytest.MonkeyPatch) -> StandInLoader:
    """Put the stand-in where loaders are chosen."""
    stand_in = StandInLoader()

    def chosen(_options: RecordOptions, _say: object) -> StandInLoader:
        return stand_in

    monkeypatch.setattr(record, "open_loader", chosen)
    monkeypatch.setattr(recording.probes, "plan", plan)
    return stand_in


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """Return a program that maps a library to probe."""
    return make_user(tmp_path, make_library(tmp_path, "libcudart.so.12", CUDART))


def options(folder: Path, child: Child, **values: object) -> RecordOptions:
    given: dict[str, Any] = {
        "out_dir": folder,
        "pids": (child.pid,),
        "streams": (STREAM,),
        "spool": folder / "spool",
        "seal": False,
    }
    return RecordOptions(**{**given, **values})


def frames(folder: Path) -> list[tuple[str, bytes]]:
    reader = SpoolReader(folder / "spool")
    found = [(frame.kind, bytes(frame.payload)) for frame in reader.frames()]
    reader.close()
    return found


def facts_of(folder: Path, fact: str) -> list[dict[str, Any]]:
    rows = [
        json.loads(line)
        for kind, payload in frames(folder)
        if kind == "facts"
        for line in payload.splitlines()
    ]
    return [row for row in rows if row["fact"] == fact]


def after(seconds: float, action: Callable[[], object]) -> threading.Timer:
    timer = threading.Timer(seconds, action)
    timer.start()
    return timer


@needs_gcc
def test_last_frames_stand_in_the_order_that_survives_a_kill(
    tmp_path: Path, loader: StandInLoader, program: Path
) -> None:
    loader.ring.regions = [region(3), region(2)]
    loader.open = region(4)
    with running(program) as child:
        chosen = options(tmp_path, child, duration_ns=300_000_000)
        result = record.record(chosen)

    found = frames(tmp_path)
    kinds = [kind for kind, _ in found]
    end = json.loads(found[-1][1])
    assert (result.stop_reason, result.record_count) == ("duration", 6)
    assert result.lost_count == 2
    assert kinds[-1] == "end"
    assert kinds.index("inflight/gpu_call") > max(
        at for at, kind in enumerate(kinds) if kind == "events/gpu_call"
    )
    assert found[kinds.index("inflight/gpu_call")][1] == region(4)
    assert end["stop_reason"] == "duration"
    told = {"probe", "loss", "cost", "ring", "program"}
    assert {row["fact"] for row in end["facts"]} == told
    assert loader.calls == ["attach 1", "quiesce", "in_flight 0", "close"]
    assert loader.targets == [child.pid]
    header = json.loads((tmp_path / "spool" / "header.json").read_bytes())
    assert header["missing_columns"] == loader.missing_columns
    assert header["syscalls"]["1"]
    assert kinds.count("clock") >= 2


@needs_gcc
def test_recording_of_a_program_ends_with_it(
    tmp_path: Path, loader: StandInLoader, program: Path
) -> None:
    with running(program) as child:
        timer = after(0.4, child.end)
        result = record.record(options(tmp_path, child, until_exit=True))
        timer.join()

    ends = [row["exit_ns"] for row in facts_of(tmp_path, "process")]
    assert result.stop_reason == "targets_gone"
    assert ends[0] is None
    assert ends[-1] is not None
    assert loader.calls[-1] == "close"


@needs_gcc
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_stops_soundly_and_handlers_are_put_back(
    tmp_path: Path, loader: StandInLoader, program: Path, number: signal.Signals
) -> None:
    before = signal.getsignal(number)
    with running(program) as child:
        timer = after(0.3, lambda: os.kill(os.getpid(), number))
        result = record.record(options(tmp_path, child))
        timer.join()

    assert result.stop_reason == "signal"
    assert frames(tmp_path)[-1][0] == "end"
    assert signal.getsignal(number) == before
    assert loader.calls[-1] == "close"


@needs_gcc
def test_low_disk_stops_the_recording_while_seal_has_room(
    tmp_path: Path,
    loader: StandInLoader,
    program: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SpoolWriter, "free_space_is_low", lambda _: True)
    with running(program) as child:
        result = record.record(options(tmp_path, child))

    assert result.stop_reason == "disk_low"
    assert json.loads(frames(tmp_path)[-1][1])["stop_reason"] == "disk_low"
    assert "quiesce" in loader.calls


@needs_gcc
def test_full_disk_leaves_a_spool_that_can_be_read(
    tmp_path: Path,
    loader: StandInLoader,
    program: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    append = SpoolWriter.append
    loader.ring.regions = [region(3)]

    def full(self: SpoolWriter, kind: str, payload: bytes, count: int = 0) -> None:
        if kind.startswith("events"):
            raise OSError(errno.ENOSPC, "No space left on device")
        append(self, kind, payload, count)

    monkeypatch.setattr(SpoolWriter, "append", full)
    with running(program) as child:
        result = record.record(options(tmp_path, child))

    assert result.stop_reason == "disk_low"
    assert "facts" in {kind for kind, _ in frames(tmp_path)}


@needs_gcc
def test_an_error_of_the_writer_ends_the_recording_and_says_where_the_rest_is(
    tmp_path: Path,
    loader: StandInLoader,
    program: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    append = SpoolWriter.append
    loader.ring.regions = [region(3)]

    def broken(self: SpoolWriter, kind: str, payload: bytes, count: int = 0) -> None:
        if kind.startswith("events"):
            raise OSError(errno.EIO, "Input/output error")
        append(self, kind, payload, count)

    monkeypatch.setattr(SpoolWriter, "append", broken)
    with running(program) as child, pytest.raises(CaptureError) as caught:
        record.record(options(tmp_path, child))

    assert caught.value.message == "the recording broke off: Input/output error"
    assert str(caught.value.hint).endswith(f"seal {tmp_path / 'spool'}")
    assert loader.calls[-1] == "close"


@needs_gcc
def test_kernel_facts_become_targets_threads_and_communicators(
    tmp_path: Path,
    loader: StandInLoader,
    program: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def tell(*facts: dict[str, object]) -> None:
        numbered = [
            bytes([number]) + bytes(FACT.size - 1) for number in range(len(facts))
        ]
        loader.facts.regions = [ring_shaped(numbered)]
        monkeypatch.setattr(recording, "decode_fact", lambda record: facts[record[0]])

    with running(program) as child:
        grandchild = int(child.tell("f"))
        made: dict[str, object] = {"how": "split", "first_ns": 5}
        made.update(communicator_ref=4, parent_ref=3, child_index=2)
        tell(
            {"fact": "fork", "pid": grandchild, "tid": grandchild},
            {
                "fact": "communicator",
                "pid": child.pid,
                "how": "split",
                "first_ns": 5,
                **made,
            },
            {
                "fact": "destroyed",
                "pid": child.pid,
                "communicator_ref": 4,
                "destroyed_ns": 99,
            },
            {"fact": "exit", "pid": child.pid, "time_ns": 101},
        )
        record.record(options(tmp_path, child, duration_ns=200_000_000))
        os.kill(grandchild, signal.SIGKILL)

    processes = facts_of(tmp_path, "process")
    reasons = {row["pid"]: row["target_reason"] for row in processes}
    made_row = facts_of(tmp_path, "communicator")[-1]
    assert reasons == {child.pid: "pid", grandchild: "fork"}
    assert (made_row["how"], made_row["child_index"]) == ("split", 2)
    assert (made_row["parent_ref"], made_row["destroyed_ns"]) == (3, 99)
    assert 101 in {row["exit_ns"] for row in processes}


@needs_gcc
def test_result_is_one_sealed_bundle_and_one_line(
    tmp_path: Path,
    loader: StandInLoader,
    program: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with running(program) as child:
        chosen = options(tmp_path, child, seal=True, duration_ns=100_000_000)
        result = record.record(chosen)

    said = capsys.readouterr()
    assert result.bundle is not None
    assert result.bundle.exists()
    assert result.spool is None
    assert said.out == ""
    assert f"recording (PID {os.getpid()})" in said.err
    assert f"wrote {result.bundle}: 1 record, 2 lost" in said.err
    assert loader.calls[-1] == "close"


@needs_gcc
def test_spool_that_exists_is_refused_and_nothing_stays_attached(
    tmp_path: Path, loader: StandInLoader, program: Path
) -> None:
    (tmp_path / "spool").mkdir()
    with running(program) as child, pytest.raises(CaptureError, match="exists"):
        record.record(options(tmp_path, child))

    assert loader.calls == ["close"]


def test_missing_folder_is_said_before_anything_is_recorded(
    tmp_path: Path, loader: StandInLoader
) -> None:
    with pytest.raises(CaptureError, match="there is no folder"):
        record.record(RecordOptions(out_dir=tmp_path / "none"))

    assert loader.calls == []


def test_spool_names_are_safe_whatever_the_host_is_called() -> None:
    header = {
        "capture_id": "0a1b2c3d",
        "host": {"host_name": "../ho st\n"},
        "capture": {"start_utc": "2026-11-30T20:00:00Z"},
    }

    name = record.spool_name(header)

    assert name == ".._ho_st_-20261130T200000Z-0a1b2c3d.spool"
