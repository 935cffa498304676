"""Claim: where there is no eBPF a sound bundle of facts is made, and it says why."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.capture.processes import CUDART, make_library, make_user, running
from tests.capture.recorder_run import (
    NOBODY,
    Recorder,
    as_user,
    bundle_content,
    recorder_for_all,
)
from tests.sql.standing import stand_on
from workbench.store.case import Case
from workbench.store.load import load_bundles

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.bpf,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("gcc") is None, reason="no compiler here"),
    pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv"),
]
COVERAGE = "select stream, state, reason from coverage order by stream"
WHY = "recorded without eBPF (--streams none)"


@pytest.fixture(scope="module")
def recorder() -> Iterator[Recorder]:
    """Return a recorder that every user can run."""
    with recorder_for_all() as found:
        yield found


def test_without_any_right_the_error_names_the_way_out(recorder: Recorder) -> None:
    folder = recorder.folder_of(NOBODY)

    done = recorder.run("record", "-o", folder, before=as_user(NOBODY))

    assert done.returncode == 1
    assert "error: no loader works here: core: cannot make BPF maps: " in done.stderr
    assert "CAP_BPF and CAP_PERFMON" in done.stderr
    assert "--streams none records facts without eBPF" in done.stderr
    assert list(folder.iterdir()) == []


def test_facts_alone_need_no_right_and_every_stream_says_why_it_is_absent(
    recorder: Recorder,
) -> None:
    program = make_user(
        recorder.folder, make_library(recorder.folder, "libcudart.so.12", CUDART)
    )
    folder = recorder.folder_of(NOBODY)
    env = {**os.environ, "RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "8"}
    words = ("--streams", "none", "--duration", "1.5s", "-o", folder)
    with running(program, env, before=as_user(NOBODY)) as child:
        words = ("record", "--pid", child.pid, *words)
        done = recorder.run(*words, before=as_user(NOBODY))
    verified = recorder.run("verify", *folder.glob("*.bundle"))
    shown = recorder.run("show", *folder.glob("*.bundle")).stdout

    manifest, facts = bundle_content(folder)
    why = f"{WHY}; the recorder had no CAP_BPF and no CAP_PERFMON"
    assert done.returncode == 0, done.stderr
    assert verified.returncode == 0, verified.stdout
    assert manifest["capture"]["loader"] == "none"
    assert manifest["streams"] == {}
    assert manifest["capture"]["absent_streams"] == [
        {"name": name, "reason": why} for name in ("collective", "gpu_call", "off_cpu")
    ]
    assert [row["pid"] for row in facts["process"]] == [child.pid]
    assert [row["rank"] for row in facts["rank"]] == [3]
    assert any(row["path"].endswith("libcudart.so.12") for row in facts["library"])
    assert f"note: no collective: {WHY}" in " ".join(shown.split())
    with Case.create(None) as made:
        load_bundles(made, list(folder.glob("*.bundle")), build=False)
        covered = stand_on(made, "coverage").frame(COVERAGE).rows()
    assert covered == [
        ("collective", "absent", f"collective: {why}"),
        ("gpu_call", "absent", f"gpu_call: {why}"),
        (
            "gpu_kernel",
            "absent",
            "gpu_kernel: GPU-side times are not recorded by this capture",
        ),
        ("off_cpu", "absent", f"off_cpu: {why}"),
    ]
