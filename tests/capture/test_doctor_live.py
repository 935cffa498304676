"""Claim: what doctor says of this host and of running processes is what is there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.capture.processes import CUDART, make_library, make_user, running
from tests.capture.recorder_run import NOBODY, Recorder, as_user, recorder_for_all

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.bpf,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("gcc") is None, reason="no compiler here"),
    pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv"),
]
OF_32_BITS = 'void _start(void) { for (;;) __asm__("int $0x80" : : "a"(29)); }'
LINKED_IN = """
#include <stdio.h>
int ncclAllReduce(void) { return 0; }
int main(void) { puts("up"); fflush(stdout); return getchar(); }
"""


@pytest.fixture(scope="module")
def recorder() -> Iterator[Recorder]:
    """Return a recorder that every user can run."""
    with recorder_for_all() as found:
        yield found


@pytest.fixture(scope="module")
def program(recorder: Recorder) -> Path:
    """Return a program that maps a library by a known name."""
    library = make_library(recorder.folder, "libcudart.so.12", CUDART)
    return make_user(recorder.folder, library)


def ask(
    recorder: Recorder, *words: object, before: Iterable[str] = ()
) -> tuple[int, dict[str, Any], dict[tuple[str, int | None], dict[str, Any]]]:
    """Return exit status, the whole answer, and its rows by capability and process."""
    done = recorder.run("doctor", "--format", "json", *words, before=before)
    assert done.stderr == ""
    whole = json.loads(done.stdout)
    rows = {(row["capability"], row["pid"]): row for row in whole["rows"]}
    assert done.returncode == whole["verdict"]["exit_code"]
    return done.returncode, whole, rows


def test_root_can_record_all_of_a_process(recorder: Recorder, program: Path) -> None:
    with running(program) as child:
        code, whole, rows = ask(recorder, "--pid", child.pid)

    states = {name: row["state"] for (name, _), row in rows.items()}
    library = rows["library", child.pid]["sentence"]
    assert code == 0
    assert whole["verdict"]["can_record"] == "all"
    assert states["ring_buffer"] == states["attach_cookie"] == states["btf"] == "ok"
    assert states["return_probe"] == states["pid_namespace"] == "ok"
    assert states["collective"] == states["gpu_call"] == states["off_cpu"] == "ok"
    assert str(program.with_name("libcudart.so.12")) in library
    assert library.endswith(", 2 places to probe")
    assert "an estimate: 4 probes " in rows["stop_time", None]["sentence"]


def test_without_any_right_facts_are_left_and_the_reason_is_named(
    recorder: Recorder,
) -> None:
    code, whole, rows = ask(recorder, before=as_user(NOBODY))

    assert code == 5
    assert whole["verdict"]["can_record"] == "facts_only"
    for stream in whole["verdict"]["streams"].values():
        assert stream["reason"].startswith("CAP_BPF: not held")
    assert rows["ring_buffer", None]["state"] == "unknown"
    assert rows["CAP_PERFMON", None]["state"] == "missing"
    assert rows["disk", None]["state"] == "missing"


def test_another_user_without_the_right_to_look_records_part(
    recorder: Recorder, program: Path
) -> None:
    before = as_user(NOBODY, ("CAP_BPF", "CAP_PERFMON"))
    with running(program) as foreign, running(program, before=as_user(NOBODY)) as own:
        both = ask(recorder, "--pid", foreign.pid, "--pid", own.pid, before=before)
        alone, _, _ = ask(recorder, "--pid", own.pid, before=before)

    code, whole, rows = both
    assert (code, alone) == (1, 0)
    assert rows["program", foreign.pid]["state"] == "missing"
    assert "CAP_SYS_PTRACE" in rows["program", foreign.pid]["advice"]
    assert {s["state"] for s in whole["verdict"]["streams"].values()} == {"partly"}


def test_a_32_bit_program_is_refused(recorder: Recorder) -> None:
    if os.uname().machine != "x86_64":
        pytest.skip("makes a 32-bit program for x86")
    source, program = recorder.folder / "old.c", recorder.folder / "old"
    source.write_text(OF_32_BITS)
    flags = ["-m32", "-nostdlib", "-static", "-fno-pie", "-no-pie"]
    subprocess.run(["gcc", *flags, "-o", program, source], check=True)
    with subprocess.Popen([program]) as process:
        code, _, rows = ask(recorder, "--pid", process.pid)
        process.kill()

    said = rows["program", process.pid]
    assert code == 5
    assert said["state"] == "missing"
    assert said["sentence"] == "it runs a 32-bit program, which cannot be recorded"


def test_a_replaced_library_and_one_that_is_linked_in_are_told(
    recorder: Recorder, tmp_path: Path
) -> None:
    library = make_library(tmp_path, "libcudart.so.12", CUDART)
    program = make_user(tmp_path, library)
    source, static = tmp_path / "static.c", tmp_path / "static"
    source.write_text(LINKED_IN)
    subprocess.run(["gcc", "-o", static, source], check=True)
    with running(program) as child, running(static) as other:
        library.unlink()
        shutil.copy("/bin/true", library)
        _, _, rows = ask(recorder, "--pid", child.pid, "--pid", other.pid)

    assert "was replaced or deleted since" in rows["file", child.pid]["sentence"]
    assert "2 places to probe" in rows["library", child.pid]["sentence"]
    linked = rows["library", other.pid]
    assert linked["state"] == "partly"
    assert linked["sentence"] == (
        "static maps no known library but has ncclAllReduce linked in"
    )
    assert "--library" in linked["advice"]


def test_in_a_pid_namespace_of_its_own_it_says_what_the_kernel_sees(
    recorder: Recorder,
) -> None:
    if shutil.which("unshare") is None:
        pytest.skip("needs unshare")
    inside = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]

    code, whole, rows = ask(recorder, before=inside)

    told = rows["pid_namespace", None]
    assert code == 5
    assert told["state"] == "missing"
    assert "BPF programs see it as" in told["sentence"]
    assert whole["verdict"]["streams"]["off_cpu"]["reason"].startswith("pid_namespace")


def test_it_runs_on_a_bare_python(recorder: Recorder) -> None:
    """Whatever bcc there is belongs to another Python, and nothing misses it."""
    archive = recorder.folder / "capture.zip"
    command = [sys.executable, "-I", "-S", archive, "doctor", "--pid", os.getpid()]

    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=False
    )

    assert done.stderr == ""
    assert done.returncode == 1
    assert "python" in done.stdout
    assert "maps no known library" in " ".join(done.stdout.split())
