"""Claim: on a host with nothing but a Python, the one file records a job to a bundle.

The root file system has no bcc, clang, headers, iproute or libbpf; what is carried in
is the archive, and in a folder a libbpf with its libelf.  Two ranks of a stand-in job
make a known number of calls, and the bundle has exactly those.
"""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from capture.exit_code import ExitCode
from tests.capture import bare_root
from tests.capture.bare_root import BareRoot, make_bare_root
from tests.lab import building

if TYPE_CHECKING:
    from collections.abc import Iterator

PYZ, LIBBPF = "/carried/capture.pyz", "/carried/lib/libbpf.so.1"
LIBRARIES = ("libcuda.so.1", "libcudart.so.12", "libnccl.so.2")
STEPS, COLLECTIVES, KERNELS, RANKS = 7, 11, 3, 2
ALL_REDUCE, LAUNCH = 1, 100
DEADLINE_S = 60
WAIT_THEN_RUN = (
    "import os, sys; sys.stdin.readline(); os.execv(sys.argv[1], sys.argv[1:])"
)
LEFT_OVER = """
import ctypes, importlib.util, shutil
tools = "bcc bpftrace bpftool clang gcc cc ip ld make mount sh"
print([tool for tool in tools.split() if shutil.which(tool)])
print(importlib.util.find_spec("bcc"))
for name in ("libbpf.so.1", "libbpf.so.0", "libelf.so.1"):
    try:
        print(ctypes.CDLL(name))
    except OSError as error:
        print("none:", error)
"""


def why_not_here() -> str | None:
    """Return why no such root can be made and recorded in, or nothing."""
    missing = [tool for tool in bare_root.TOOLS if shutil.which(tool) is None]
    if missing:
        return f"needs {', '.join(missing)}"
    if host_library("libbpf.so.1") is None:
        return "needs libbpf.so.1, to carry it in"
    return building.why_not_built()


def host_library(name: str) -> Path | None:
    """Return where this host's dynamic loader finds a library."""
    told = subprocess.run(
        ["ldconfig", "-p"], capture_output=True, text=True, check=False
    )
    lines = [line for line in told.stdout.splitlines() if line.strip().startswith(name)]
    return Path(lines[0].split(" => ")[1]) if lines else None


pytestmark = [
    pytest.mark.bpf,
    pytest.mark.slow,
    pytest.mark.skipif(why_not_here() is not None, reason=why_not_here() or ""),
]


@pytest.fixture(scope="module")
def bare(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BareRoot]:
    """Return a mounted bare root with the archive, a libbpf and a job in it."""
    root = make_bare_root(tmp_path_factory.mktemp("bare") / "root")
    for file in built.iterdir():
        root.take(file, "/carried")
    (root.path / "out").mkdir()
    for name in ("libbpf.so.1", "libelf.so.1"):
        library = host_library(name)
        assert library is not None
        root.take(library, "/carried/lib")
    job = building.build()
    for name in ("nccl_job", "feeder", *LIBRARIES):
        root.take(job / name, "/job")
    with root.mounted():
        yield root


def capture(bare: BareRoot, *words: object) -> subprocess.CompletedProcess[str]:
    return bare.run("/usr/bin/python3", PYZ, *words)


def test_the_root_has_nothing_to_lean_on(bare: BareRoot) -> None:
    found = bare.run("/usr/bin/python3", "-c", LEFT_OVER).stdout.splitlines()

    assert found[:2] == ["[]", "None"]
    assert [line[:5] for line in found[2:]] == ["none:"] * 3
    for folder in ("usr/include", "usr/src", "lib/modules"):
        assert not (bare.path / folder).exists()


def test_without_a_libbpf_it_says_what_to_carry_in(bare: BareRoot) -> None:
    done = capture(bare, "record", "--duration", "1s", "-o", "/out")

    assert done.returncode == 1
    assert "core: cannot open libbpf.so.1" in done.stderr
    assert "bcc: cannot import bcc" in done.stderr
    assert "or name one with --libbpf" in done.stderr
    assert not list((bare.path / "out").iterdir())


def test_doctor_says_that_nothing_but_a_libbpf_is_wanting(bare: BareRoot) -> None:
    without, with_one = (
        capture(bare, "doctor", "--format", "json", *words)
        for words in ((), ("--libbpf", LIBBPF))
    )

    assert without.returncode == ExitCode.FACTS_ONLY, without.stderr
    assert with_one.returncode == ExitCode.DONE, with_one.stderr
    for done, state in ((without, "missing"), (with_one, "ok")):
        told = json.loads(done.stdout)
        rows = {row["capability"]: row["state"] for row in told["rows"]}
        streams = told["verdict"]["streams"]
        assert rows["libbpf"] == state
        assert {rows[name] for name in ("headers", "bcc", "tracefs")} == {"missing"}
        assert {stream["state"] for stream in streams.values()} == {state}


CHOOSE = """
import sys
sys.path.insert(0, sys.argv[1])
from capture.loaders import libbpf
print(libbpf.choose().path)
"""


def test_a_libbpf_beside_the_archive_is_found_with_what_it_stands_on(
    bare: BareRoot, built: Path
) -> None:
    archive = bare.take(built / "capture.pyz", "/beside")
    for file in sorted((bare.path / "carried/lib").iterdir()):
        bare.take(file, "/beside")

    chosen = bare.run("/usr/bin/python3", "-c", CHOOSE, archive)

    assert chosen.stdout == "/beside/libbpf.so.1\n", chosen.stderr


def test_a_libbpf_without_its_libelf_says_which_file_is_missing(
    bare: BareRoot,
) -> None:
    alone = bare.take(bare.path / LIBBPF.lstrip("/"), "/alone")

    done = capture(bare, "record", "--duration", "1s", "--libbpf", alone)

    assert done.returncode == 1
    assert f"core: cannot open {alone}: libelf.so.1: cannot open" in done.stderr


def start_rank(bare: BareRoot, rank: int) -> subprocess.Popen[str]:
    """Return a process that becomes a rank of the job once it reads a line."""
    words = ["/job/nccl_job", "--feeder", "/job/feeder", "--id-file", "/out/id"]
    words += ["--steps", str(STEPS), "--collectives", str(COLLECTIVES)]
    words += ["--kernels", str(KERNELS), "--kernel-us", "100", "--sleep-us", "1000"]
    numbers = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": RANKS}
    return bare.start(
        "/usr/bin/python3",
        "-c",
        WAIT_THEN_RUN,
        *words,
        env={name: str(value) for name, value in numbers.items()},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )


def hear(recorder: subprocess.Popen[str], words: str) -> str:
    """Return what the recorder said until it said this."""
    assert recorder.stderr is not None
    said, deadline = "", time.monotonic() + DEADLINE_S
    while words not in said:
        left = max(0, deadline - time.monotonic())
        ready = select.select([recorder.stderr], [], [], left)[0]
        heard = os.read(recorder.stderr.fileno(), 1 << 16) if ready else b""
        assert heard, said
        said += heard.decode()
    return said


@pytest.fixture(scope="module")
def spool(bare: BareRoot) -> Path:
    """Return the spool of the whole job, recorded from inside the bare root."""
    with ExitStack() as stack:
        ranks = [stack.enter_context(start_rank(bare, n)) for n in range(RANKS)]
        record(bare, ranks)
    assert [rank.returncode for rank in ranks] == [0] * RANKS
    return next((bare.path / "out").glob("*.spool"))


def record(bare: BareRoot, ranks: list[subprocess.Popen[str]]) -> None:
    """Record the ranks from their first call to their last."""
    pids = [word for rank in ranks for word in ("--pid", rank.pid)]
    libraries = [word for name in LIBRARIES for word in ("--library", f"/job/{name}")]
    options = ["--libbpf", LIBBPF, "--no-seal", "--until-exit", "-o", "/out"]
    command = ["/usr/bin/python3", PYZ, "record", *options, *pids, *libraries]
    with bare.start(*command, stderr=subprocess.PIPE) as recorder:
        try:
            hear(recorder, "recording (PID")
            for rank in ranks:
                assert rank.stdin is not None
                rank.stdin.write("go\n")
                rank.stdin.flush()
            hear(recorder, "wrote ")
        finally:
            for process in (recorder, *ranks):
                process.kill()


@pytest.fixture(scope="module")
def bundle(bare: BareRoot, spool: Path) -> Path:
    """Return the bundle, sealed in the bare root."""
    done = capture(bare, "seal", f"/out/{spool.name}", "-o", "/out")
    assert done.returncode == 0, done.stderr
    return next((bare.path / "out").glob("*.bundle"))


def test_the_bundle_holds_every_call_of_the_job(bundle: Path) -> None:
    columns: Any = np.load(bundle)

    collectives = columns["events/collective/000000/operation"].tolist()
    gpu_calls = columns["events/gpu_call/000000/operation"].tolist()

    assert collectives.count(ALL_REDUCE) == STEPS * COLLECTIVES * RANKS
    assert columns["events/collective/000000/has_duration_ns"].all()
    # Each collective of the stand-in is a kernel too, launched through the driver.
    assert gpu_calls.count(LAUNCH) == STEPS * (KERNELS + COLLECTIVES) * RANKS
    assert len(columns["events/off_cpu/000000/start_ns"]) > STEPS


def test_the_bundle_is_verified_where_it_was_made(bare: BareRoot, bundle: Path) -> None:
    done = capture(bare, "verify", f"/out/{bundle.name}")

    assert done.returncode == 0, done.stderr
    assert ": sound, " in done.stdout


def test_the_bundle_names_the_archive_that_wrote_it(
    bare: BareRoot, bundle: Path
) -> None:
    shown = capture(bare, "show", f"/out/{bundle.name}").stdout

    digest = (bare.path / "carried/capture.pyz.sha256").read_text().split()[0]
    assert re.search(rf"^  recorder +sha256 {digest}$", shown, re.MULTILINE)
    assert re.search(r"^  loader +core \(libbpf ", shown, re.MULTILINE)
