"""Claim: no return probe is set before one was survived under a strict seccomp filter.

What is proved here: on this kernel a process of our own, under a filter that kills it
at any system call but a few, survives a return probe that was hit; a child that the
filter does kill is noticed; and recording then goes on with entries alone.  What cannot
be proved on this kernel: that kernels 6.11 to before 6.13.3 and 6.14 kill the child.
Their system call at such a return is not to be had here, so the child is killed by the
same filter at another call, through the code that a recording runs.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from capture.loaders import trial
from tests.capture.live import ROOT, Bundle, recording
from tests.capture.processes import CUDART, make_library, make_user, running
from tests.capture.recorder_run import bundle_content

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = [
    pytest.mark.bpf,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("gcc") is None, reason="no compiler here"),
]
KILLED = "a process of our own under a seccomp filter was killed by SIGSYS"
RECORD_WHERE_THE_CHILD_DIES = """
import functools, sys
from capture import record
from capture.__main__ import main
record.try_return_probe = functools.partial(record.try_return_probe, ())
sys.exit(main(sys.argv[1:]))
"""
CALLBACK = """
extern "C" void MPI_Barrier(void (*call)(void)) { call(); }
"""
THROWING = """
#include <cstdio>
extern "C" void MPI_Barrier(void (*call)(void));
static void thrower() { throw 7; }
int main() {
  puts("up"); fflush(stdout); getchar();
  try { MPI_Barrier(thrower); } catch (int number) { printf("caught %d\\n", number); }
  return 0;
}
"""


def test_this_kernel_lets_a_filtered_process_pass_a_return_probe() -> None:
    assert trial.try_return_probe() is None


def test_a_child_that_the_filter_kills_is_noticed() -> None:
    reason = trial.try_return_probe(allowed=())

    assert reason is not None
    assert reason.startswith(KILLED)


def test_a_trial_that_was_not_hit_is_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    class Elsewhere(trial.OwnCode):
        def function(self) -> Callable[[], int]:
            return lambda: 42

    monkeypatch.setattr(trial, "OwnCode", Elsewhere)

    reason = trial.try_return_probe()

    assert reason == "they could not be tried: the one of the trial was not hit"


def test_a_child_that_does_not_come_back_is_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Waiting(trial.OwnCode):
        def function(self) -> Callable[[], int]:
            signal.pause()
            return super().function()

    monkeypatch.setattr(trial, "OwnCode", Waiting)
    monkeypatch.setattr(trial, "_CHILD_S", 0.2)

    reason = trial.try_return_probe()

    assert reason is not None
    assert "did not come back" in reason
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


@pytest.mark.parametrize("with_multi", [True, False])
def test_a_program_on_our_own_code_tells_what_the_kernel_sees(
    *, with_multi: bool
) -> None:
    code = trial.OwnCode()
    probe = trial.TrialProbe(code, with_multi=with_multi, is_return=False, cookie=7)
    function = code.function()

    answers = [function() for _ in range(3)]
    seen = probe.seen()
    probe.close()
    after = function()
    code.close()

    assert (*answers, after) == (42, 42, 42, 42)
    assert seen == trial.Seen(count=3, pid=os.getpid(), cookie=7)


def test_where_the_child_dies_calls_are_recorded_by_entry_alone(tmp_path: Path) -> None:
    program = make_user(tmp_path, make_library(tmp_path, "libcudart.so.12", CUDART))
    command = ["/usr/bin/python3", "-B", "-c", RECORD_WHERE_THE_CHILD_DIES]
    with running(program) as child:
        words = ["record", "--pid", str(child.pid), "-o", str(tmp_path)]
        with subprocess.Popen(
            [*command, *words], cwd=ROOT, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stderr is not None
            said = process.stderr.readline()
            assert "recording (PID" in process.stderr.readline()
            child.tell("c 1009")
            process.send_signal(signal.SIGINT)
            rest = process.stderr.read()
        child.end()

    bundle = Bundle(tmp_path)
    has_duration = bundle.column("gpu_call", "has_duration_ns")
    bundle.close()
    manifest, facts = bundle_content(tmp_path)
    assert said.startswith("coldtrace-capture: no return probes, so calls have no ")
    assert KILLED in said
    assert "wrote " in rest
    assert manifest["capture"]["no_return_probes_reason"].startswith(KILLED)
    assert manifest["capture"]["return_probe_symbols"] == []
    assert not any(row["has_return"] for row in facts["probe"])
    assert (len(has_duration), int(has_duration.sum())) == (1009, 0)


@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler here")
@pytest.mark.parametrize(
    ("options", "ends"), [((), -signal.SIGABRT), (("--no-return-probes",), 0)]
)
def test_an_exception_passes_a_probed_call_only_without_return_probes(
    tmp_path: Path, options: tuple[str, ...], ends: int
) -> None:
    """What the README warns of is true here, and what it advises helps."""
    for name, text in (("mpi.cc", CALLBACK), ("user.cc", THROWING)):
        (tmp_path / name).write_text(text)
    library, program = tmp_path / "libmpi.so.40", tmp_path / "user"
    shared = ["g++", "-shared", "-fPIC", "-Wl,-soname,libmpi.so.40", "-o", library]
    subprocess.run([*shared, tmp_path / "mpi.cc"], check=True)
    linked = ["g++", "-o", program, tmp_path / "user.cc", library]
    subprocess.run([*linked, f"-Wl,-rpath,{tmp_path}"], check=True)
    with (
        running(program) as child,
        recording(tmp_path, "--pid", child.pid, *options) as recorder,
    ):
        said = child.tell("go")
        status = child.process.wait(10)
        recorder.stop()
        recorder.wait_for("wrote ")

    manifest, _ = bundle_content(tmp_path)
    assert status == ends
    assert said == ("caught 7" if ends == 0 else "")
    symbols = manifest["capture"]["return_probe_symbols"]
    assert symbols == ([] if options else ["MPI_Barrier"])
    assert manifest["streams"]["collective"]["hit_count"] > 0
