"""Claim: whatever becomes of a target, the bundle says so and no call is miscounted.

Targets die, become another program, have their library replaced while they run it,
leave their number to somebody else, or have ten thousand threads; and the wall clock
is set.  Real programs and recorders; counts are primes and must match exactly.
"""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import time
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZipFile

import pytest

from capture.verify import verify_bundle
from tests.capture.live import Bundle, eventually, frames, recording, spooled
from tests.capture.processes import Child, make_library, make_user, running

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.bpf,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("gcc") is None, reason="no compiler here"),
]

LIBRARY = """
#include <unistd.h>
int cudaStreamSynchronize(void *stream) { return stream ? 1 : 0; }
int cudaDeviceSynchronize(void) { pause(); return 0; }
"""
NEWER = "int cudaMalloc(void **p, unsigned long size) { return size != 0; }" + LIBRARY
USER = """
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int cudaStreamSynchronize(void *stream);
int cudaDeviceSynchronize(void);

static void *stuck(void *unused) { cudaDeviceSynchronize(); return unused; }
static void *one_call(void *unused) {
  cudaStreamSynchronize(0);
  pause();
  return unused;
}

/* Commands by line: c N calls, s a thread that hangs in one, e the program anew, t N
 * threads that make a call each and stay. */
int main(int argc, char **argv) {
  char line[64];
  pthread_t thread;
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 1 << 14);
  puts("up"); fflush(stdout);
  while (fgets(line, sizeof line, stdin)) {
    int done = 0;
    if (line[0] == 'c')
      for (; done < atoi(line + 1); done++) cudaStreamSynchronize(0);
    if (line[0] == 's') pthread_create(&thread, 0, stuck, 0);
    if (line[0] == 'e') execv("/proc/self/exe", argv);
    if (line[0] == 't')
      while (done < atoi(line + 1) && !pthread_create(&thread, &small, one_call, 0))
        done++;
    printf("%d\\n", done); fflush(stdout);
  }
  return 0;
}
"""
REUSE = """
#define _GNU_SOURCE
#include <linux/sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Run a program under a process number that is free: reuse PID PROGRAM. */
int main(int argc, char **argv) {
  pid_t pid = atoi(argv[1]);
  struct clone_args args;
  memset(&args, 0, sizeof args);
  args.exit_signal = SIGCHLD;
  args.set_tid = (__u64)(unsigned long)&pid;
  args.set_tid_size = 1;
  pid_t child = syscall(SYS_clone3, &args, sizeof args);
  if (child == 0) { execv(argv[2], argv + 2); _exit(127); }
  if (child < 0) return 3;
  return waitpid(child, 0, 0) == child ? 0 : 4;
}
"""
CALLS = ("--streams", "gpu_call")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return make_user(tmp_path, make_library(tmp_path, "libcudart.so.12", LIBRARY), USER)


@contextmanager
def sound(folder: Path) -> Iterator[Bundle]:
    """Give the one bundle of a folder, once it is verified."""
    with closing(Bundle(folder)) as bundle:
        assert verify_bundle(bundle.path).problems == []
        yield bundle


def calls_of(bundle: Bundle, pid: int) -> int:
    return int((bundle.column("gpu_call", "pid") == pid).sum())


def is_probed(folder: Path, library: Path) -> bool:
    """Tell whether a spool has the library by its file: written once it is probed."""
    return f'"inode": {library.stat().st_ino},'.encode() in frames(folder)


def test_a_target_that_is_killed_in_a_call_ends_with_its_calls(
    tmp_path: Path, program: Path
) -> None:
    with running(program) as child:
        words = ("--pid", child.pid, "--until-exit")
        with recording(tmp_path, *words) as recorder:
            child.tell("c 211")
            child.tell("s")
            time.sleep(0.1)
            child.process.kill()
            status = recorder.end()

    with sound(tmp_path) as bundle:
        process = next(r for r in bundle.facts["process"] if r["pid"] == child.pid)
        assert (status, bundle.manifest["capture"]["stop_reason"]) == (
            0,
            "targets_gone",
        )
        assert calls_of(bundle, child.pid) == 211
        # A call that died with its thread is no call that hangs.
        assert bundle.manifest["streams"]["gpu_call"]["open_count"] == 0
        assert process["exit_ns"] > process["first_ns"]


def test_a_target_that_becomes_another_program_stays_one(
    tmp_path: Path, program: Path
) -> None:
    with running(program) as child:
        with recording(tmp_path, "--pid", child.pid, *CALLS) as recorder:
            child.tell("c 101")
            assert child.tell("e") == "up"
            child.tell("c 103")
            recorder.stop()
        child.end()

    with sound(tmp_path) as bundle:
        assert calls_of(bundle, child.pid) == 101 + 103
        assert [r["exit_ns"] for r in bundle.facts["process"]] == [None]


def test_of_an_upgraded_library_the_mapped_file_is_probed_and_then_the_new_one(
    tmp_path: Path, program: Path
) -> None:
    library = program.with_name("libcudart.so.12")
    newer = tmp_path / "newer"
    newer.mkdir()
    with running(program) as old:
        make_library(newer, library.name, NEWER).rename(library)
        with recording(tmp_path, *CALLS) as recorder:
            old.tell("c 307")
            with running(program) as new:
                eventually(lambda: is_probed(tmp_path, library))
                old.tell("c 2")
                new.tell("c 311")
                new.end()
            recorder.stop()
        old.end()

    with sound(tmp_path) as bundle:
        mapped = {
            row["pid"]: row["library_ref"]
            for row in bundle.facts["mapping"]
            if library.name in bundle.facts["library"][row["library_ref"]]["path"]
        }
        hashes = {
            bundle.facts["library"][mapped[child.pid]]["sha256"] for child in (old, new)
        }
        assert calls_of(bundle, old.pid) == 309
        assert calls_of(bundle, new.pid) == 311
    assert len(hashes) == 2


def reborn(tmp_path: Path, program: Path, pid: int) -> subprocess.Popen[str]:
    """Return a launcher whose child has this number, or skip."""
    (tmp_path / "reuse.c").write_text(REUSE)
    launcher = tmp_path / "reuse"
    if not launcher.exists():
        subprocess.run(
            ["gcc", "-O1", launcher.with_suffix(".c"), "-o", launcher], check=True
        )
    process = subprocess.Popen(
        [launcher, str(pid), program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    if Child(process).line() != "up":
        process.communicate()
        pytest.skip(f"nobody may choose a process number here ({process.returncode})")
    return process


@pytest.mark.parametrize("asks", ["pid", "library"])
def test_a_number_that_comes_back_is_another_process(
    tmp_path: Path, program: Path, asks: str
) -> None:
    with running(program) as first:
        words = ("--pid", first.pid, *CALLS) if asks == "pid" else CALLS
        with recording(tmp_path, *words) as recorder:
            first.tell("c 11")
            first.end()
            with reborn(tmp_path, program, first.pid) as launcher:
                second = Child(launcher)
                second.tell("c 13")
                if asks == "library":
                    eventually(lambda: spooled(tmp_path, "gpu_call") >= 24)
                    eventually(lambda: lives(tmp_path, first.pid) == 2)
                second.end()
            recorder.stop()

    with sound(tmp_path) as bundle:
        processes = [r for r in bundle.facts["process"] if r["pid"] == first.pid]
        expected = (11, 1) if asks == "pid" else (11 + 13, 2)
        assert (calls_of(bundle, first.pid), len(processes)) == expected
        assert len({row["start_ticks"] for row in processes}) == len(processes)


def lives(folder: Path, pid: int) -> int:
    """Return how many processes of one number a spool knows."""
    mark = f'"process", "pid": {pid}, "start_ticks": '.encode()
    rows = frames(folder).split(mark)[1:]
    return len({row.split(b",", 1)[0] for row in rows})


def test_ten_thousand_threads_are_recorded_each(tmp_path: Path, program: Path) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NPROC)
    most = 1 << 20 if most == resource.RLIM_INFINITY else most
    ids = int(Path("/proc/sys/kernel/pid_max").read_text())
    # Two mappings a thread: its stack and the guard before it.
    maps = int(Path("/proc/sys/vm/max_map_count").read_text()) // 2
    asked = min(10_007, most // 2, ids // 3, maps - 1_000)
    with running(program) as child:
        with recording(tmp_path, "--pid", child.pid) as recorder:
            made = int(child.tell(f"t {asked}"))
            eventually(lambda: spooled(tmp_path, "gpu_call") == made)
            child.tell("c 17")
            recorder.stop()
        child.process.kill()

    with sound(tmp_path) as bundle:
        tids = bundle.column("gpu_call", "tid")
        away = bundle.column("off_cpu", "tid")[bundle.column("off_cpu", "is_open")]
        known = {row["tid"] for row in bundle.facts["thread"]}
        streams = bundle.manifest["streams"]
    assert made > 1_000, f"this host lets a program have {made} threads"
    assert len(tids) == made + 17
    assert len(set(tids.tolist())) == made + 1
    assert set(tids.tolist()) <= known
    # All of them sleep, and each is an absence that is still open.
    assert set(tids.tolist()) <= set(away.tolist())
    assert [stream["lost_count"] for stream in streams.values()] == [0] * len(streams)


def test_a_step_of_the_wall_clock_moves_no_event_and_is_on_record(
    tmp_path: Path, program: Path
) -> None:
    with running(program) as child:
        with recording(tmp_path, "--pid", child.pid, *CALLS) as recorder:
            child.tell("c 61")
            with wall_clock_ahead(7.0):
                child.tell("c 67")
                time.sleep(1.2)
            child.tell("c 71")
            time.sleep(1.2)
            recorder.stop()
        child.end()

    with sound(tmp_path) as bundle:
        starts = bundle.column("gpu_call", "start_ns")
        lengths = bundle.column("gpu_call", "duration_ns")
        with ZipFile(bundle.path) as archive:
            lines = archive.read("clock.jsonl").splitlines()
        rows = [json.loads(line) for line in lines]
        capture = bundle.manifest["capture"]
    offsets = [row["realtime_ns"] - row["monotonic_ns"] for row in rows]
    assert len(starts) == 61 + 67 + 71
    assert bool((starts[1:] >= starts[:-1]).all())
    assert bool((lengths > 0).all())
    assert capture["start_ns"] < int(starts[0])
    assert int(starts[-1]) < capture["stop_ns"] < capture["start_ns"] + 60 * 10**9
    # There and back: seven seconds that no monotonic clock has seen.
    assert max(offsets) - offsets[0] == pytest.approx(7e9, abs=0.5e9)
    assert offsets[-1] == pytest.approx(offsets[0], abs=0.5e9)
    times = [row["monotonic_ns"] for row in rows]
    assert times == sorted(times)


@contextmanager
def wall_clock_ahead(seconds: float) -> Iterator[None]:
    """Set the wall clock forward, and back by as much."""
    try:
        time.clock_settime(
            time.CLOCK_REALTIME, time.clock_gettime(time.CLOCK_REALTIME) + seconds
        )
    except PermissionError:
        pytest.skip("nobody may set the clock here")
    try:
        yield
    finally:
        time.clock_settime(
            time.CLOCK_REALTIME, time.clock_gettime(time.CLOCK_REALTIME) - seconds
        )
