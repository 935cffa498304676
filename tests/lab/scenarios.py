"""The labelled runs of the lab: what is injected, and what must be found.

A label is true because of how the job is built, not because of what was measured: a
late rank sleeps or waits for input for a stated time, and a rank beside a hog is pinned
to the hog's core while everything else runs on the other one.  Ranks sleep through most
of a step, so that eight of them on two cores do not make each other wait.
"""

from __future__ import annotations

import contextlib
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from tests.lab.building import build
from tests.lab.jobs import start_mpi_job, start_nccl_job
from tests.lab.namespaces import lab
from tests.lab.recording import recorders

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

HOSTS = ("hosta", "hostb")
_JOB_S = 120.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Truth:
    """What a run must be told to be; no rank: nobody is to be accused."""

    verdict: Literal["found", "clear", "not_observed"]
    rank: int | None = None
    host_name: str | None = None
    cause: str | None = None
    magnitude_ns: int | None = None
    tolerance_ns: int | None = None
    period_steps: int | None = None
    affected_step_count: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Hog:
    """A real-time program on one core: busy and idle by turns."""

    core: int
    busy_us: int
    idle_us: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Scenario:
    """One labelled run."""

    name: str
    kind: Literal["mpi", "nccl"]
    ranks_a_host: int
    options: Mapping[str, object]
    truth: Truth
    hosts: tuple[str, ...] = HOSTS
    hog: Hog | None = None
    record_words: Sequence[str] = field(default=())


@dataclass(frozen=True, kw_only=True, slots=True)
class Recording:
    """What a scenario left: a bundle a host, and the label."""

    bundles: Sequence[Path]
    truth: Truth


def run_scenario(scenario: Scenario, out_dir: Path) -> Recording:
    """Run a scenario under one recorder a host, and return bundles and label."""
    libraries = [word for path in _libraries(scenario) for word in ("--library", path)]
    words = [*libraries, *scenario.record_words]
    with lab(*scenario.hosts) as made, recorders(made, out_dir, words=words) as running:
        with _hogging(scenario.hog):
            start = start_mpi_job if scenario.kind == "mpi" else start_nccl_job
            job = start(
                made, ranks_a_host=scenario.ranks_a_host, options=scenario.options
            )
            try:
                job.wait(_JOB_S)
            finally:
                job.end()
        bundles = [each.stop() for each in running]
    return Recording(bundles=bundles, truth=scenario.truth)


def _libraries(scenario: Scenario) -> list[str]:
    """Return the libraries to be probed before the first rank starts.

    Real programs take seconds to import what they need before they communicate; the
    lab's take one, so the probes had better be there already.
    """
    if scenario.kind == "mpi":
        linked = subprocess.run(
            ["ldd", build() / "mpi_job"], check=True, capture_output=True, text=True
        )
        lines = [line.split() for line in linked.stdout.splitlines()]
        return [words[2] for words in lines if words[0].startswith("libmpi.so")]
    names = ("libnccl.so.2", "libcudart.so.12", "libcuda.so.1")
    return [str(build() / name) for name in names]


@contextlib.contextmanager
def _hogging(hog: Hog | None) -> Iterator[None]:
    """Run the hog while the block runs; it ends when its input closes."""
    if hog is None:
        yield
        return
    numbers = [str(number) for number in (hog.core, hog.busy_us, hog.idle_us)]
    process = subprocess.Popen([build() / "hog", *numbers], stdin=subprocess.PIPE)
    try:
        yield
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait()


def late_rank(*, steps: int) -> Scenario:
    """Make rank 5 of 8 wait 290 ms for its input at each 14th step."""
    return Scenario(
        name="late-rank",
        kind="mpi",
        ranks_a_host=4,
        options={
            "steps": steps,
            "prologue": 2,
            "sleep_us": 15_000,
            "jitter_us": 500,
            "read_us": 2_000,
            "fault": "read",
            "fault_rank": 5,
            "fault_every": 14,
            "fault_us": 290_000,
        },
        truth=Truth(
            verdict="found",
            rank=5,
            host_name="hostb",
            cause="blocked_read",
            magnitude_ns=290_000_000,
            tolerance_ns=5_000_000,
            period_steps=14,
            affected_step_count=steps // 14,
        ),
        record_words=("--off-cpu-min", "1ms"),
    )


def always_late(*, steps: int) -> Scenario:
    """Make rank 2 of 8 sleep 50 ms more than the others at every step."""
    return Scenario(
        name="always-late",
        kind="mpi",
        ranks_a_host=4,
        options={
            "steps": steps,
            "prologue": 2,
            "sleep_us": 15_000,
            "jitter_us": 500,
            "fault": "sleep",
            "fault_rank": 2,
            "fault_us": 50_000,
        },
        truth=Truth(
            verdict="found",
            rank=2,
            host_name="hosta",
            cause="timed_sleep",
            magnitude_ns=50_000_000,
            tolerance_ns=1_000_000,
        ),
        record_words=("--off-cpu-min", "1ms"),
    )


def healthy(*, steps: int) -> Scenario:
    """Give eight ranks the same work."""
    return Scenario(
        name="healthy",
        kind="mpi",
        ranks_a_host=4,
        options={
            "steps": steps,
            "prologue": 2,
            "sleep_us": 15_000,
            "jitter_us": 500,
            "read_us": 2_000,
        },
        truth=Truth(verdict="clear"),
        record_words=("--off-cpu-min", "1ms"),
    )


def slow_input(*, steps: int) -> Scenario:
    """Make rank 1 of 4 GPU ranks wait 30 ms longer for each batch."""
    return Scenario(
        name="slow-input",
        kind="nccl",
        ranks_a_host=2,
        options={
            "steps": steps,
            "start_us": 1_000_000,
            "prologue": 1,
            "sleep_us": 5_000,
            "jitter_us": 500,
            "read_us": 2_000,
            "fault": "read",
            "fault_rank": 1,
            "fault_us": 30_000,
        },
        truth=Truth(
            verdict="found",
            rank=1,
            host_name="hosta",
            cause="blocked_read",
            magnitude_ns=30_000_000,
            tolerance_ns=2_000_000,
        ),
    )


def slow_stream(*, steps: int) -> Scenario:
    """Slow the GPU stream of rank 3 of 4 by 50 ms; its host issues in time."""
    return Scenario(
        name="slow-stream",
        kind="nccl",
        ranks_a_host=2,
        options={
            "steps": steps,
            "start_us": 1_000_000,
            "prologue": 1,
            "sleep_us": 5_000,
            "jitter_us": 500,
            "fault": "gpu",
            "fault_rank": 3,
            "fault_us": 50_000,
        },
        truth=Truth(verdict="not_observed"),
    )


def cpu_hog(*, steps: int) -> Scenario:
    """Put a real-time hog on the core of rank 3 of 4, which wants to compute."""
    return Scenario(
        name="cpu-hog",
        kind="nccl",
        ranks_a_host=2,
        options={
            "steps": steps,
            "start_us": 1_000_000,
            "prologue": 1,
            "sleep_us": 15_000,
            "jitter_us": 500,
            "compute_us": 1_000,
            "pin_rank": 3,
            "pin_core": 1,
            "others_core": 0,
        },
        truth=Truth(verdict="found", rank=3, host_name="hostb", cause="run_queue"),
        hog=Hog(core=1, busy_us=45_000, idle_us=5_000),
    )
