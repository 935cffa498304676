"""Claim: a libbpf is taken by trial, and a sentence says why one will not do."""

from __future__ import annotations

import ctypes.util
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from capture.loaders import LoaderError, LoaderSettings, libbpf
from capture.loaders.core import CoreLoader

FDS = Path("/proc/self/fd")
SELF_TEST = """
import sys
sys.path.insert(0, sys.argv[1])
from capture.loaders import LoaderError, LoaderSettings, libbpf
from capture.loaders.core import CoreLoader
try:
    print(libbpf.choose())
except LoaderError as error:
    print(type(error).__name__, error.message, error.hint)
"""


@pytest.mark.bpf
def test_the_hosts_own_libbpf_reads_this_kernels_types() -> None:
    library = libbpf.choose()

    assert library.path in libbpf.HOST_NAMES
    assert library.version[0].isdigit()
    assert library.reason() == ""


@pytest.mark.bpf
def test_the_self_test_leaves_no_program_behind() -> None:
    library = libbpf.Libbpf(libbpf.candidates()[0])
    before = list(FDS.iterdir())

    library.self_test()

    assert list(FDS.iterdir()) == before


@pytest.mark.bpf
def test_want_of_a_capability_is_told_from_want_of_a_library(root: Path) -> None:
    if shutil.which("setpriv") is None:
        pytest.skip("needs setpriv")
    command = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--reuid=65534"]
    command += ["--clear-groups", "/usr/bin/python3", "-B", "-c", SELF_TEST, str(root)]

    said = subprocess.check_output(command, text=True)

    assert said.startswith("NotPermittedError")
    assert "CAP_BPF and CAP_PERFMON" in said


def test_a_library_that_is_no_libbpf_is_refused_as_such() -> None:
    name = ctypes.util.find_library("c")
    assert name is not None

    with pytest.raises(LoaderError, match=f"{name} is no libbpf"):
        libbpf.Libbpf(name)


def test_an_object_that_was_not_compiled_is_named_with_the_way_to_get_it() -> None:
    with pytest.raises(LoaderError, match="no nothing-") as caught:
        libbpf.read_object("nothing")

    assert caught.value.hint is not None
    assert "make capture" in caught.value.hint


BESIDE = """
import sys
sys.path.insert(0, sys.argv[1])
from capture.loaders import libbpf
print(*libbpf.candidates())
"""


@pytest.fixture
def beside(root: Path, tmp_path: Path) -> Path:
    """Return an archive of the recorder with a libbpf beside it."""
    shutil.make_archive(str(tmp_path / "capture"), "zip", root, "capture")
    (tmp_path / "libbpf.so.1").write_bytes(b"")
    return tmp_path / "capture.zip"


def _candidates(archive: Path) -> list[str]:
    command = [sys.executable, "-I", "-S", "-c", BESIDE, str(archive)]
    return subprocess.check_output(command, text=True).split()


def test_a_libbpf_beside_the_archive_comes_after_the_hosts_own(beside: Path) -> None:
    assert _candidates(beside) == [
        *libbpf.HOST_NAMES,
        str(beside.parent / "libbpf.so.1"),
    ]


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o775])
def test_a_folder_in_which_others_may_write_is_not_looked_at(
    beside: Path, mode: int
) -> None:
    beside.parent.chmod(mode)

    assert _candidates(beside) == [*libbpf.HOST_NAMES]


@pytest.mark.parametrize("name", ["libbpf.so.1", "libelf.so.1"])
def test_a_file_that_others_may_write_is_not_taken(beside: Path, name: str) -> None:
    (beside.parent / name).touch()
    (beside.parent / name).chmod(0o666)

    assert _candidates(beside) == [*libbpf.HOST_NAMES]


@pytest.mark.bpf
def test_the_kernel_takes_what_was_made_for_arm64_and_reads_no_register(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    loader = CoreLoader()

    loader.load(LoaderSettings(streams=()))  # self_test and process
    attached = loader.attach_tracepoints()
    loader.close()

    assert [result.is_attached for result in attached] == [True] * 3


@pytest.mark.bpf
def test_a_refused_program_is_told_with_the_verifiers_own_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if platform.machine() != "x86_64":
        pytest.skip("needs x86-64, whose registers end before those of arm64")
    monkeypatch.setattr("platform.machine", lambda: "aarch64")

    with pytest.raises(LoaderError, match="cannot load programs 'calls'") as caught:
        CoreLoader().load(LoaderSettings(streams=("collective",)))

    assert caught.value.message.endswith(": invalid bpf_context access off=248 size=8")


@pytest.fixture(scope="module")
def old_libbpf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a library that answers as libbpf 0.5 does."""
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc")
    library = tmp_path_factory.mktemp("old") / "libbpf.so.0"
    source = Path(__file__).with_name("libbpf_05.c")
    flags = ["-shared", "-fPIC", "-Wall", "-Werror", "-Wl,-soname,libbpf.so.0"]
    subprocess.run(["gcc", *flags, "-o", library, source], check=True)
    return library


@pytest.mark.bpf
@pytest.mark.parametrize(
    ("refused", "said"),
    [
        ("kind", "read this kernel's types: Unsupported BTF_KIND:19"),
        (
            "type",
            "load a type of program that is needed: prog 'read_a_task': missing ",
        ),
        (
            "attach",
            "load and attach a program by the name of a tracepoint: No such process",
        ),
    ],
)
def test_record_says_what_an_old_libbpf_cannot_do(
    root: Path, tmp_path: Path, old_libbpf: Path, refused: str, said: str
) -> None:
    command = ["/usr/bin/python3", "-B", "-m", "capture", "record", "--loader", "core"]
    command += ["--libbpf", str(old_libbpf), "--duration", "1s", "-o", str(tmp_path)]

    done = subprocess.run(
        command,
        cwd=root,
        env={"PATH": "/usr/bin", "STANDIN_REFUSES": refused},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert f"error: no loader works here: core: libbpf 0.5 ({old_libbpf}) " in (
        done.stderr
    )
    assert f"cannot {said}" in done.stderr
    assert "hint: carry in a newer libbpf (1.0 or later)" in done.stderr
    assert not list(tmp_path.glob("*.spool"))


@pytest.mark.bpf
def test_a_libbpf_without_a_function_that_is_needed_is_told_so(
    old_libbpf: Path,
) -> None:
    library = libbpf.Libbpf(str(old_libbpf))

    with pytest.raises(LoaderError, match=r"libbpf 0\.5 .* has no function bpf_map__"):
        library.call("bpf_map__reuse_fd", 0, 0)
