"""Claim: targets and the files that they map are found, whoever comes and goes."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from capture import procfs
from capture.elf import ElfFile
from capture.errors import CaptureError
from capture.libraries import KNOWN_IN_MAPS, LibraryTable, kind_by_name
from capture.options import RecordOptions
from capture.targets import TargetFinder, cgroup_pids
from tests.capture.processes import CUDART, make_library, make_user, running

if TYPE_CHECKING:
    from collections.abc import Iterator

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="no compiler here")


@pytest.fixture
def user(tmp_path: Path) -> Path:
    """Return a program that maps a library by a known name."""
    return make_user(tmp_path, make_library(tmp_path, "libcudart.so.12", CUDART))


@pytest.fixture
def libraries() -> Iterator[LibraryTable]:
    """Return an empty table that is closed again."""
    table = LibraryTable()
    yield table
    table.close()


def finder(libraries: LibraryTable, **options: object) -> TargetFinder:
    return TargetFinder(RecordOptions(**options), libraries, (os.getpid(),))  # type: ignore[arg-type]


@needs_gcc
def test_user_of_a_known_library_is_found_with_the_library(
    user: Path, libraries: LibraryTable
) -> None:
    find = finder(libraries)
    before = find.poll()
    with running(user) as child:
        found = find.poll()
        again = find.poll()
        child.end()
        after = find.poll()

    pids = {target.pid for target in found.new_targets}
    library = next(
        library
        for library in found.new_libraries
        if library.path == str(user.with_name("libcudart.so.12"))
    )
    assert child.pid not in {target.pid for target in before.new_targets}
    assert child.pid in pids
    assert child.pid not in {target.pid for target in again.new_targets}
    assert library not in again.new_libraries
    assert child.pid in {target.pid for target in after.gone_targets}
    assert (library.kind, library.pids) == ("cudart", {child.pid})


@needs_gcc
def test_held_descriptor_is_the_mapped_file_even_after_its_name_is_taken(
    user: Path, libraries: LibraryTable
) -> None:
    path = user.with_name("libcudart.so.12")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    with ElfFile.open(path) as elf:
        offset = elf.functions()["cudaStreamSynchronize"]
    with running(user) as child:
        path.unlink()
        path.write_bytes(b"another file")
        found = finder(libraries, pids=(child.pid,)).poll()

        library = found.new_libraries[0]
        hashed = libraries.hash_next()
        with ElfFile.open(library.fd_path) as elf:
            functions = elf.functions()

    assert library.path == str(path)
    assert hashed is library
    assert library.sha256 == digest
    assert functions["cudaStreamSynchronize"] == offset


@needs_gcc
def test_children_born_before_and_after_are_targets_too(
    user: Path, libraries: LibraryTable
) -> None:
    with running(user) as child:
        elder = int(child.tell("f"))
        find = finder(libraries, pids=(child.pid,))
        first = find.poll()
        younger = int(child.tell("f"))
        second = find.poll()
        for pid in (elder, younger):
            os.kill(pid, 9)

    reasons = {target.pid: target.reason for target in first.new_targets}
    assert reasons == {child.pid: "pid", elder: "fork"}
    assert [(target.pid, target.reason) for target in second.new_targets] == [
        (younger, "fork")
    ]


@needs_gcc
def test_given_library_is_open_before_anybody_maps_it(tmp_path: Path) -> None:
    library = make_library(tmp_path, "libstatic_inside.so", CUDART)
    program = make_user(tmp_path, library)
    table = LibraryTable([library, library])
    find = finder(table)

    before = find.poll()
    with running(program) as child:
        after = find.poll()
    table.close()

    assert before.new_libraries[0].path == str(library)
    assert before.new_libraries[0].kind == "other"
    assert child.pid in {target.pid for target in after.new_targets}
    assert before.new_libraries[0] not in after.new_libraries
    assert before.new_libraries[0].pids == {child.pid}


def test_given_library_that_is_none_is_refused_in_words(tmp_path: Path) -> None:
    text = tmp_path / "libnccl.so"
    text.write_text("no library")

    with pytest.raises(CaptureError, match="no ELF file"):
        LibraryTable([text])
    with pytest.raises(CaptureError, match="cannot open library"):
        LibraryTable([tmp_path / "none.so"])


def test_pid_that_is_gone_is_refused_at_once(libraries: LibraryTable) -> None:
    with pytest.raises(CaptureError, match="there is no process 999999999"):
        finder(libraries, pids=(999_999_999,))


def test_control_groups_are_read_with_all_below(tmp_path: Path) -> None:
    (tmp_path / "step" / "task").mkdir(parents=True)
    (tmp_path / "cgroup.procs").write_text("")
    (tmp_path / "step" / "cgroup.procs").write_text("7\n11\n")
    (tmp_path / "step" / "task" / "cgroup.procs").write_text("13\n")

    assert sorted(cgroup_pids(tmp_path)) == [7, 11, 13]


@needs_gcc
def test_processes_of_a_control_group_are_targets(
    tmp_path: Path, user: Path, libraries: LibraryTable
) -> None:
    with running(user) as child:
        group = tmp_path / "job" / "step"
        group.mkdir(parents=True)
        (tmp_path / "job" / "cgroup.procs").write_text("")
        (group / "cgroup.procs").write_text(f"{child.pid}\n")

        found = finder(libraries, cgroups=(tmp_path / "job",)).poll()

    assert [(target.pid, target.reason) for target in found.new_targets] == [
        (child.pid, "cgroup")
    ]


def test_missing_control_group_is_refused(libraries: LibraryTable) -> None:
    with pytest.raises(CaptureError, match="there is no control group"):
        finder(libraries, cgroups=(Path("/none/such"),))


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/usr/lib/libmpi.so.40.30.4", "mpi"),
        ("/opt/nvidia/nccl/lib/libnccl.so.2", "nccl"),
        ("/usr/lib/librccl.so.1", "nccl"),
        ("/x/libcudart.so.12", "cudart"),
        ("/usr/lib/libcuda.so.580.159.04", "cuda"),
        ("/usr/lib/libcuda.so", "cuda"),
        ("/opt/rocm/libamdhip64.so.6", "other"),
        ("/usr/lib/libmpi_mpifh.so.40", None),
        ("/usr/lib/libcudadebugger.so.1", None),
        ("/opt/my-libmpi.so.40", None),
        ("/usr/lib/libmpi.so.txt", None),
    ],
)
def test_known_libraries_are_known_by_their_whole_name(
    path: str, kind: str | None
) -> None:
    line = f"7f00-7f10 r-xp 00000000 08:01 12345                      {path}\n"

    assert kind_by_name(path) == kind
    assert bool(KNOWN_IN_MAPS.search(line.encode())) == (kind is not None)


def test_mappings_are_parsed_with_their_offsets_and_odd_names() -> None:
    text = (
        b"55d0c0a00000-55d0c0a01000 r-xp 00002000 fd:03 4711   /a b/lib\\012x.so\n"
        b"7f0000000000-7f0000001000 rw-p 00000000 00:00 0 \n"
        b"7f0000002000-7f0000003000 r--p 00000000 08:01 12     /gone.so (deleted)\n"
        b"7ffe00000000-7ffe00001000 r-xp 00000000 00:00 0      [vdso]\n"
    )

    first, second = procfs.parse_maps(text)

    assert (first.path, first.file_offset, first.is_executable) == (
        "/a b/lib\nx.so",
        0x2000,
        True,
    )
    assert (first.device, first.inode) == (os.makedev(0xFD, 3), 4711)
    assert (second.path, second.is_executable) == ("/gone.so", False)


def test_process_that_is_gone_has_nothing_to_say() -> None:
    assert procfs.process_stat(999_999_999) is None
    assert procfs.tids(999_999_999) == []
    assert procfs.raw_maps(999_999_999) == b""
    assert procfs.namespace(999_999_999, "pid") is None
    assert procfs.cgroup(999_999_999) is None


def test_own_process_is_read_rightly() -> None:
    stat = procfs.process_stat(os.getpid())

    assert stat is not None
    assert stat.parent_pid == os.getppid()
    assert stat.state == "R"
    assert not stat.is_gone
    assert os.getpid() in procfs.tids(os.getpid())


ENDLESS = """
void _start(void) { for (;;) __asm__ volatile("int $0x80" : : "a"(29)); }
"""


@pytest.fixture
def program_of_32_bits(tmp_path: Path) -> Path:
    """Return a 32-bit program that waits, without any library."""
    if os.uname().machine != "x86_64":
        pytest.skip("makes a 32-bit program for x86")
    (tmp_path / "endless.c").write_text(ENDLESS)
    flags = ["-m32", "-nostdlib", "-static", "-fno-pie", "-no-pie"]
    command = ["gcc", *flags, "-o", "endless", "endless.c"]
    subprocess.run(command, cwd=tmp_path, check=True)
    return tmp_path / "endless"


@needs_gcc
def test_32_bit_process_is_refused_by_number_and_passed_over_in_a_group(
    tmp_path: Path, user: Path, program_of_32_bits: Path, libraries: LibraryTable
) -> None:
    with running(user) as child, subprocess.Popen([program_of_32_bits]) as process:
        (tmp_path / "cgroup.procs").write_text(f"{process.pid}\n{child.pid}")
        said: list[str] = []
        options = RecordOptions(cgroups=(tmp_path,))
        find = TargetFinder(options, libraries, (), said.append)
        find.poll()
        find.poll()
        with pytest.raises(CaptureError) as caught:
            finder(libraries, pids=(process.pid,))
        process.kill()

    why = f"process {process.pid} runs a 32-bit program, which cannot be recorded"
    assert caught.value.message == why
    assert said == [why]
    assert set(find.targets) == {child.pid}


@needs_gcc
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_known_library_that_cannot_be_opened_is_told_once(
    user: Path, libraries: LibraryTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("capture.libraries._open_mapped", lambda *_: None)
    said: list[str] = []
    with running(user) as child:
        options = RecordOptions(pids=(child.pid,))
        find = TargetFinder(options, libraries, (), said.append)
        find.poll()
        child.tell("t")
        find.look_at(child.pid)
        child.end()

    path = user.with_name("libcudart.so.12")
    assert said == [f"library {path} is not probed: the file cannot be opened"]
