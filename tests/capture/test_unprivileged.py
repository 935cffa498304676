"""Claim: with exactly the capabilities that doctor names an ordinary user can record.

And with one of them less the recorder says which, or what it could not probe.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.capture.live import Bundle
from tests.capture.live import Recorder as Running
from tests.capture.processes import (
    CUDART,
    Child,
    make_library,
    make_user,
    running,
)
from tests.capture.recorder_run import NOBODY, Recorder, as_user, recorder_for_all

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.bpf,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("gcc") is None, reason="no compiler here"),
    pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv"),
]
SOMEBODY = 54_321
CALLS = 1_009


@pytest.fixture(scope="module")
def recorder() -> Iterator[Recorder]:
    """Return a recorder that every user can run."""
    with recorder_for_all() as found:
        yield found


@pytest.fixture(scope="module")
def sets(recorder: Recorder) -> dict[str, list[str]]:
    """Return the sets that doctor names on this kernel."""
    done = recorder.run("doctor", "--format", "json", "--pid", os.getpid())
    sets: list[dict[str, Any]] = json.loads(done.stdout)["capability_sets"]
    return {found["enough_for"]: found["capabilities"] for found in sets}


AS_BEFORE_6_6 = """
import errno
from capture.loaders import bpf_syscall
def refuse(*_, **__): raise OSError(errno.EINVAL, "Invalid argument")
bpf_syscall.attach_multi = refuse
"""
OWN, EVERY = "one's own processes", "the processes of every user"


@contextmanager
def somebodys(recorder: Recorder, uid: int) -> Iterator[tuple[Child, Path]]:
    """Yield a program of a user in a folder that nobody else may enter."""
    folder = recorder.folder_of(uid)
    library = make_library(folder, "libcudart.so.12", CUDART)
    program = make_user(folder, library)
    with running(program, before=as_user(uid)) as child:
        yield child, library


def record_calls(
    recorder: Recorder, child: Child, capabilities: list[str], *, patch: str = ""
) -> tuple[Path, str]:
    """Record calls of a process as an ordinary user, and return folder and talk."""
    folder = recorder.folder_of(NOBODY)
    words = ("record", "--pid", child.pid, "-o", folder)
    before = as_user(NOBODY, capabilities)
    command = recorder.command(*words, before=before, patch=patch)
    with subprocess.Popen(
        command, cwd=recorder.folder, stderr=subprocess.PIPE, text=True
    ) as process:
        at_work = Running(process)
        at_work.wait_for("recording (PID")
        child.tell(f"c {CALLS}")
        at_work.stop(signal.SIGINT)
        at_work.wait_for("wrote ")
    return folder, at_work.said


def call_count(folder: Path) -> int:
    """Return the calls in the bundle of a folder."""
    bundle = Bundle(folder)
    rows = bundle.manifest["streams"]["gpu_call"]["row_count"]
    bundle.close()
    return int(rows)


@pytest.mark.parametrize(("uid", "of"), [(NOBODY, OWN), (SOMEBODY, EVERY)])
def test_exactly_the_named_capabilities_are_enough(
    recorder: Recorder, sets: dict[str, list[str]], uid: int, of: str
) -> None:
    with somebodys(recorder, uid) as (child, _):
        folder, said = record_calls(recorder, child, sets[of])
    verified = recorder.run("verify", *folder.glob("*.bundle"))

    assert call_count(folder) == CALLS, said
    assert verified.returncode == 0, verified.stdout
    assert "not probed" not in said
    (bundle,) = folder.glob("*.bundle")
    assert (bundle.stat().st_uid, bundle.stat().st_mode & 0o777) == (NOBODY, 0o600)


@pytest.mark.parametrize(
    ("of", "without", "says"),
    [
        (OWN, "CAP_BPF", "CAP_BPF and CAP_PERFMON"),
        (OWN, "CAP_PERFMON", "CAP_BPF and CAP_PERFMON"),
        (EVERY, "CAP_SYS_PTRACE", "with CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH"),
    ],
)
def test_with_one_of_them_less_the_error_names_it(
    recorder: Recorder, sets: dict[str, list[str]], of: str, without: str, says: str
) -> None:
    uid = NOBODY if of == OWN else SOMEBODY
    left = [name for name in sets[of] if name != without]
    folder = recorder.folder_of(NOBODY)
    with somebodys(recorder, uid) as (child, _):
        words = ("record", "--pid", child.pid, "-o", folder)
        done = recorder.run(*words, before=as_user(NOBODY, left))

    assert done.returncode == 1
    assert says in done.stderr.splitlines()[-1]
    assert len(left) == len(sets[of]) - 1
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("without", "is_replaced"),
    [("CAP_DAC_READ_SEARCH", False), ("CAP_CHECKPOINT_RESTORE", True)],
)
def test_a_library_that_is_out_of_reach_is_named(
    recorder: Recorder, sets: dict[str, list[str]], without: str, *, is_replaced: bool
) -> None:
    left = [name for name in sets[EVERY] if name != without]
    with somebodys(recorder, SOMEBODY) as (child, library):
        if is_replaced:
            library.unlink()
            shutil.copy("/bin/true", library)
        folder, said = record_calls(recorder, child, left)

    assert call_count(folder) == 0
    assert f"library {library} is not probed: the file cannot be opened" in said


def test_where_probes_are_perf_events_the_set_has_one_more(recorder: Recorder) -> None:
    """Kernels before 6.6 refuse links of many probes; here our own code does."""
    asked = ("doctor", "--format", "json", "--pid", os.getpid())
    answer = json.loads(recorder.run(*asked, patch=AS_BEFORE_6_6).stdout)
    named = answer["capability_sets"][0]["capabilities"]
    rows = {row["capability"]: row for row in answer["rows"]}
    left = [name for name in named if name != "CAP_SYS_ADMIN"]

    with somebodys(recorder, NOBODY) as (child, _):
        whole, said = record_calls(recorder, child, named, patch=AS_BEFORE_6_6)
        less, told = record_calls(recorder, child, left, patch=AS_BEFORE_6_6)

    assert named == ["CAP_BPF", "CAP_PERFMON", "CAP_SYS_ADMIN"]
    assert rows["uprobe_multi"]["state"] == "partly"
    assert "as perf events" in rows["stop_time"]["sentence"]
    assert call_count(whole) == CALLS, said
    if rows["perf_uprobe"]["state"] == "ok" and "refused" not in told:
        pytest.skip("this kernel takes perf events without CAP_SYS_ADMIN")
    assert call_count(less) == 0
    assert " probes were refused: Permission denied" in told
