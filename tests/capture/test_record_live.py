"""Claim: the real recorder counts every call, finds late comers, and survives SIGKILL.

Real programs, real eBPF, the recorder as its own process under the distribution's
Python; call counts are primes, and the numbers must match exactly.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from tests.capture.live import (
    DEADLINE_S,
    PYTHON,
    ROOT,
    Bundle,
    eventually,
    frames,
    recording,
    spool_has,
)
from tests.capture.processes import make_library, make_user, running

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.bpf,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("gcc") is None, reason="no compiler here"),
]

CUDART = """
#include <unistd.h>
int cudaStreamSynchronize(void *stream) { return stream ? 1 : 0; }
int cudaDeviceSynchronize(void) { pause(); return 0; }
"""

USER = """
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int cudaStreamSynchronize(void *stream);
int cudaDeviceSynchronize(void);

static void *stuck(void *unused) { cudaDeviceSynchronize(); return unused; }

/* Commands by line: c N calls, s a thread that never returns, f N calls by a child. */
int main(void) {
  char line[64];
  pthread_t thread;
  puts("up"); fflush(stdout);
  while (fgets(line, sizeof line, stdin) && line[0] != 'q') {
    if (line[0] == 's') pthread_create(&thread, 0, stuck, 0);
    if (line[0] == 'c' || (line[0] == 'f' && fork() == 0)) {
      for (int i = atoi(line + 1); i > 0; i--) cudaStreamSynchronize(0);
      if (line[0] == 'f') _exit(0);
    }
    puts("ok"); fflush(stdout);
  }
  return 0;
}
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """Return a program with a library of a known name, never mapped before."""
    return make_user(tmp_path, make_library(tmp_path, "libcudart.so.12", CUDART), USER)


def test_every_call_of_a_process_and_of_its_child_is_recorded(
    tmp_path: Path, program: Path
) -> None:
    with running(program) as child:
        with recording(tmp_path, "--pid", child.pid) as recorder:
            child.tell("c 1009")
            child.tell("f 503")
            time.sleep(0.5)
            child.tell("c 211")
            status = recorder.stop()
            recorder.wait_for("wrote ")
        child.end()

    bundle = Bundle(tmp_path)
    pids = bundle.column("gpu_call", "pid")
    stream = bundle.manifest["streams"]["gpu_call"]
    durations = bundle.column("gpu_call", "duration_ns")
    processes = {row["pid"]: row["target_reason"] for row in bundle.facts["process"]}
    probes = [row for row in bundle.facts["probe"] if row["stream"] == "gpu_call"]
    bundle.close()
    assert status == 0
    assert int((pids == child.pid).sum()) == 1009 + 211
    assert len(pids) == 1009 + 211 + 503
    assert (stream["lost_count"], stream["open_count"]) == (0, 0)
    assert bool((durations > 0).all())
    assert bundle.manifest["capture"]["stop_reason"] == "signal"
    assert bundle.manifest["streams"]["off_cpu"]["row_count"] > 0
    assert processes[child.pid] == "pid"
    assert sum(row["hit_count"] for row in probes) >= len(pids)
    assert not list(tmp_path.glob("*.spool"))


def test_program_started_while_recording_is_found_by_its_library(
    tmp_path: Path, program: Path
) -> None:
    # Other programs on this host may map known libraries too: only ours is counted.
    with recording(tmp_path, "--streams", "gpu_call") as recorder:
        with running(program) as child:
            eventually(lambda: probed(tmp_path, child.pid))
            child.tell("c 307")
            child.end()
        eventually(lambda: is_ended(tmp_path, child.pid))
        status = recorder.stop(signal.SIGTERM)
        recorder.wait_for("wrote ")

    bundle = Bundle(tmp_path)
    pids = bundle.column("gpu_call", "pid")
    library = next(
        row
        for row in bundle.facts["library"]
        if row["path"] == str(program.with_name("libcudart.so.12"))
    )
    process = next(row for row in bundle.facts["process"] if row["pid"] == child.pid)
    bundle.close()
    assert status == 0
    assert int((pids == child.pid).sum()) == 307
    assert len(library["sha256"]) == 64
    assert process["target_reason"] == "library"
    assert process["exit_ns"] > process["first_ns"]
    assert bundle.manifest["capture"]["stop_reason"] == "signal"
    assert set(bundle.manifest["streams"]) == {"gpu_call"}


def probed(folder: Path, pid: int) -> bool:
    """Tell whether a process and its probes stand in the spool."""
    text = frames(folder)
    return f'"process", "pid": {pid},'.encode() in text and b'"symbol": "cuda' in text


def is_ended(folder: Path, pid: int) -> bool:
    """Tell whether the end of a process stands in the spool."""
    rows = [line for line in frames(folder).splitlines() if b'"exit_ns": ' in line]
    named = [line for line in rows if f'"process", "pid": {pid},'.encode() in line]
    return any(b'"exit_ns": null' not in line for line in named)


def test_killed_recorder_leaves_every_whole_frame_and_the_open_call(
    tmp_path: Path, program: Path
) -> None:
    with running(program) as child:
        with recording(tmp_path, "--pid", child.pid) as recorder:
            child.tell("c 499")
            child.tell("s")
            eventually(lambda: spool_has(tmp_path, "inflight/gpu_call"))
            status = recorder.stop(signal.SIGKILL)
        child.process.kill()
    (spool,) = tmp_path.glob("*.spool")
    sealed = subprocess.run(
        [PYTHON, "-m", "capture", "seal", spool, "-o", tmp_path],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )

    bundle = Bundle(tmp_path)
    is_open = bundle.column("gpu_call", "is_open")
    tids = bundle.column("gpu_call", "tid")
    bundle.close()
    assert status == -signal.SIGKILL
    assert "wrote " in sealed.stderr
    assert bundle.manifest["capture"]["stop_reason"] == "killed"
    assert bundle.manifest["capture"]["is_recovered"]
    assert int((~is_open).sum()) == 499
    assert int(is_open.sum()) == 1
    assert int(tids[is_open][0]) != child.pid
    assert bundle.manifest["streams"]["gpu_call"]["open_count"] == 1


def test_without_anything_to_record_it_waits_and_stops_soundly(tmp_path: Path) -> None:
    (tmp_path / "cgroup.procs").write_text("")
    words = ("--cgroup", tmp_path, "--duration", "1s")
    with recording(tmp_path, *words) as recorder:
        recorder.wait_for("wrote ")
        status = recorder.process.wait(DEADLINE_S)

    bundle = Bundle(tmp_path)
    bundle.close()
    assert status == 0
    assert bundle.manifest["capture"]["stop_reason"] == "duration"
    assert {stream["row_count"] for stream in bundle.manifest["streams"].values()} == {
        0
    }
