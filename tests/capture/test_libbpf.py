"""Claim: a libbpf is taken by trial, and a sentence says why one will not do."""

from __future__ import annotations

import ctypes.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from capture.loaders import LoaderError, libbpf

FDS = Path("/proc/self/fd")
SELF_TEST = """
import sys
sys.path.insert(0, sys.argv[1])
from capture.loaders import LoaderError, libbpf
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


def test_a_file_that_others_may_write_is_not_taken(beside: Path) -> None:
    (beside.parent / "libbpf.so.1").chmod(0o666)

    assert _candidates(beside) == [*libbpf.HOST_NAMES]
