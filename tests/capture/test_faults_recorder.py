"""Claim: whatever breaks the recorder, its bundle is sound and the kernel left clean.

Real recorders, real eBPF; counts are primes and must match exactly.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from capture.verify import verify_bundle
from tests.capture.live import (
    Bundle,
    changed_bytes,
    eventually,
    kernel_objects,
    left_behind,
    recording,
    seal,
    spooled,
)
from tests.capture.processes import make_library, make_user, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.bpf,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("gcc") is None, reason="no compiler here"),
]

LIBRARY = "int cudaStreamSynchronize(void *stream) { return stream ? 1 : 0; }\n"
USER = """
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

int cudaStreamSynchronize(void *stream);

static void *yield_on(void *unused) { for (;;) sched_yield(); return unused; }

/* Commands by line: c N calls, y two threads that yield to each other on one CPU. */
int main(void) {
  char line[64];
  cpu_set_t one;
  pthread_t thread;
  puts("up"); fflush(stdout);
  while (fgets(line, sizeof line, stdin)) {
    if (line[0] == 'c')
      for (int i = atoi(line + 1); i > 0; i--) cudaStreamSynchronize(0);
    if (line[0] == 'y') {
      CPU_ZERO(&one); CPU_SET(0, &one);
      sched_setaffinity(0, sizeof one, &one);
      for (int i = 0; i < 2; i++) pthread_create(&thread, 0, yield_on, 0);
    }
    puts("ok"); fflush(stdout);
  }
  return 0;
}
"""
CALLS = ("--streams", "gpu_call")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    library = make_library(tmp_path, "libcudart.so.12", LIBRARY)
    return make_user(tmp_path, library, USER, "-D_GNU_SOURCE")


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """Mount a file system of a few megabytes."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder]
    subprocess.run(command, check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def fill(disk: Path) -> None:
    """Leave no byte free."""
    with (disk / "filler").open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))


def told(folder: Path, stream: str = "gpu_call") -> tuple[int, int, int]:
    """Return what a sound bundle says of a stream: rows, hits and losses."""
    with closing(Bundle(folder)) as bundle:
        assert verify_bundle(bundle.path).problems == []
        entry = bundle.manifest["streams"][stream]
    return entry["row_count"], entry["hit_count"], entry["lost_count"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_leaves_a_bundle_and_nothing_in_the_kernel(
    tmp_path: Path, program: Path, number: signal.Signals
) -> None:
    library = program.with_name("libcudart.so.12")
    with running(program) as child:
        with recording(tmp_path, "--pid", child.pid) as recorder:
            held = kernel_objects(recorder.process.pid)
            probed = changed_bytes(child.pid, library)
            child.tell("c 499")
            eventually(lambda: spooled(tmp_path, "gpu_call") == 499)
            recorder.stop(number)
        left = left_behind(held)
        still_probed = changed_bytes(child.pid, library)
        child.end()
    if number == signal.SIGKILL:
        (spool,) = tmp_path.glob("*.spool")
        assert seal(spool, tmp_path).returncode == 0

    assert {word for word, _ in held} == {b"prog_id:", b"map_id:", b"link_id:"}
    assert probed > 0
    assert (left, still_probed) == (set(), 0)
    assert told(tmp_path)[0] == 499


def test_a_disk_that_gets_full_ends_the_recording_while_there_is_room_to_seal(
    tmp_path: Path, program: Path
) -> None:
    with small_disk(tmp_path / "disk", "257m") as disk, running(program) as child:
        with recording(disk, "--pid", child.pid, *CALLS) as recorder:
            child.tell("c 20011")
            status = recorder.end()
        child.end()

        with closing(Bundle(disk)) as bundle:
            reason = bundle.manifest["capture"]["stop_reason"]
        rows, hits, lost = told(disk)

    assert (status, reason) == (0, "disk_low")
    assert (rows, hits, lost) == (20011, 20011, 0)


def test_a_disk_that_is_full_at_once_costs_what_did_not_fit_and_no_more(
    tmp_path: Path, program: Path
) -> None:
    with small_disk(tmp_path / "disk", "512k") as disk, running(program) as child:
        with recording(disk, "--pid", child.pid, "--no-seal", *CALLS) as recorder:
            child.tell("c 20011")
            status = recorder.end()
        child.end()
        fill(disk)
        (spool,) = disk.glob("*.spool")

        refused = seal(spool, disk)
        sealed = seal(spool, tmp_path)

    rows, hits, lost = told(tmp_path)
    with closing(Bundle(tmp_path)) as bundle:
        reasons = {row["reason"] for row in bundle.facts["loss"]}
        reason = bundle.manifest["capture"]["stop_reason"]
    assert (status, reason, reasons) == (0, "disk_low", {"disk_full"})
    assert refused.returncode == 1
    assert "No space left on device" in refused.stderr
    assert sealed.returncode == 0
    assert rows > 0
    assert rows + lost == hits


def test_a_recording_whose_bundle_finds_no_room_says_how_to_seal_it(
    tmp_path: Path, program: Path
) -> None:
    spool = tmp_path / "kept.spool"
    with small_disk(tmp_path / "disk", "512k") as disk, running(program) as child:
        fill(disk)
        words = ("--pid", child.pid, "--spool", spool, *CALLS)
        with recording(disk, *words) as recorder:
            child.tell("c 1009")
            recorder.process.send_signal(signal.SIGINT)
            status = recorder.end()
        child.end()

    assert status == 1
    assert "error: recorded, but not sealed: " in recorder.said
    assert f"then run: coldtrace-capture seal {spool}" in recorder.said
    assert seal(spool, tmp_path).returncode == 0
    assert told(tmp_path) == (1009, 1009, 0)


def test_two_recorders_on_one_host_see_the_same_and_end_apart(
    tmp_path: Path, program: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    with running(program) as child:
        words = ("--pid", child.pid, *CALLS)
        with recording(first, *words) as one, recording(second, *words) as two:
            child.tell("c 1009")
            held = kernel_objects(one.process.pid)
            one.stop()
            left = left_behind(held)
            child.tell("c 503")
            two.stop()
        child.end()

    assert left == set()
    assert told(first) == (1009, 1009, 0)
    assert told(second) == (1512, 1512, 0)


def test_a_ring_that_overflows_counts_what_it_lost_by_cpu(
    tmp_path: Path, program: Path
) -> None:
    with running(program) as child:
        words = ("--pid", child.pid, "--ring-size", "4K", *CALLS)
        with recording(tmp_path, *words) as recorder:
            child.tell("c 20011")
            recorder.stop()
        child.end()

    rows, hits, lost = told(tmp_path)
    with closing(Bundle(tmp_path)) as bundle:
        losses = bundle.facts["loss"]
        (ring,) = [row for row in bundle.facts["ring"] if row["stream"] == "gpu_call"]
        capture = bundle.manifest["capture"]
    assert lost > 0
    assert rows + lost == hits == 20011
    assert sum(row["lost_count"] for row in losses) == lost
    assert {row["reason"] for row in losses} == {"ring_full"}
    assert len({row["cpu"] for row in losses}) == len(losses)
    assert all(
        capture["start_ns"] < row["first_ns"] <= row["last_ns"] < capture["stop_ns"]
        for row in losses
    )
    assert ring["size_bytes"] - 80 <= ring["most_used_bytes"] <= ring["size_bytes"]


def test_a_budget_too_small_for_a_flood_thins_and_then_stops(
    tmp_path: Path, program: Path
) -> None:
    with running(program) as child:
        child.tell("y")
        words = ("--pid", child.pid, "--streams", "off_cpu", "--budget", "0.1")
        with recording(tmp_path, *words) as recorder:
            status = recorder.end()

    with closing(Bundle(tmp_path)) as bundle:
        capture = bundle.manifest["capture"]
        steps = bundle.facts["budget_step"]
        starts = bundle.column("off_cpu", "start_ns")
        lengths = bundle.column("off_cpu", "duration_ns")
        is_span = bundle.column("off_cpu", "has_duration_ns")
        skipped = int(bundle.column("off_cpu", "skipped_count").sum())
        (switch,) = [r for r in bundle.facts["probe"] if r["symbol"] == "sched_switch"]
        counted = [r for r in bundle.facts["probe"] if r["hit_count"]]
        (cost,) = bundle.facts["cost"]
        (ran,) = [r for r in bundle.facts["program"] if r["program"] == "on_switch"]
        open_count = bundle.manifest["streams"]["off_cpu"]["open_count"]
    names = [row["step"] for row in steps]
    coarse_ns, totals_ns = (row["time_ns"] for row in steps[:2])
    assert status == 0
    assert names == ["off_cpu_min_1ms", "off_cpu_totals", "stop"]
    assert (capture["stop_reason"], capture["budget_steps"]) == ("budget", names)
    assert capture["budget_ppm"] == 1_000
    assert all(row["share_ppm"] > 1_000 for row in steps)
    # A switch that was under way when the threshold rose may still have the old one.
    slack_ns = 5_000_000
    is_coarse = is_span & (starts > coarse_ns + slack_ns)
    assert bool((lengths[is_coarse] >= 1_000_000).all())
    assert not bool((is_span & (starts > totals_ns + slack_ns)).any())
    # Its own time and that of its programs stand in the bundle.
    assert cost["user_ns"] + cost["system_ns"] > cost["drain_ns"] + cost["write_ns"] > 0
    assert 0 < cost["rss_without_rings_bytes"] < cost["rss_bytes"]
    assert ran["window_ns"] >= 300_000_000
    assert ran["run_count"] > 1_000
    assert 10 < ran["run_ns"] / ran["run_count"] < 100_000
    # Thinned, the totals are still exact.
    (counts,) = counted
    assert switch["is_attached"]
    assert counts["hit_count"] == (
        int(is_span.sum()) + skipped + open_count + counts["unmatched_return_count"]
    )
