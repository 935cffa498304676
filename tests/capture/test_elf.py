"""Claim: ELF files are read rightly, and no bytes make the reader do anything else."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capture.elf import ElfError, ElfFile

if TYPE_CHECKING:
    from collections.abc import Mapping

SOURCE = """
int first(void) { return 1; }
int second(void) __attribute__((alias("first")));
int old_third(void) { return 3; }
int new_third(void) { return 33; }
__asm__(".symver old_third,third@OLD_1");
__asm__(".symver new_third,third@@NEW_2");
static __attribute__((used, noinline)) int hidden(void) { return 4; }
int world = 5;
int caller(void) { return hidden() + world; }
"""
VERSIONS = """
OLD_1 { global: first; second; third; world; caller; local: *; };
NEW_2 { global: third; } OLD_1;
"""

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="no compiler here")


def compiled(folder: Path, *flags: str) -> Path:
    (folder / "made.c").write_text(SOURCE)
    (folder / "made.map").write_text(VERSIONS)
    command = ["gcc", "-shared", "-fPIC", "-Wl,--build-id=0x0123456789abcdef"]
    command += ["-Wl,--version-script=made.map", "made.c", "-o", "libmade.so", *flags]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "libmade.so"


@lru_cache(maxsize=1)
def sound() -> bytes:
    with TemporaryDirectory() as folder:
        return compiled(Path(folder)).read_bytes()


def read(data: bytes) -> tuple[str | None, Mapping[str, int], int | None]:
    """Read everything there is to read, out of a file in memory."""
    fd = os.memfd_create("elf")
    try:
        os.write(fd, data)
        with ElfFile.open(fd) as elf:
            elf.load_bias(4096)
            return elf.build_id, elf.functions(), elf.data_symbol("world")
    finally:
        os.close(fd)


@needs_gcc
def test_functions_stand_where_nm_says(tmp_path: Path) -> None:
    path = compiled(tmp_path)
    text = subprocess.check_output(["nm", path], text=True)
    addresses = {
        name: int(address, 16)
        for address, kind, name in re.findall(r"([0-9a-f]+) (\w) (\S+)", text)
    }

    with ElfFile.open(path) as elf:
        functions = elf.functions()
        expected = elf.file_offset(addresses["caller"])
        world = elf.data_symbol("world")

    assert functions["caller"] == expected
    assert functions["hidden"] == elf.file_offset(addresses["hidden"])
    assert functions["first"] == functions["second"]
    assert world == addresses["world"]
    assert "world" not in functions


@needs_gcc
def test_default_version_has_the_plain_name_and_others_say_theirs(
    tmp_path: Path,
) -> None:
    with ElfFile.open(compiled(tmp_path, "-s")) as elf:
        functions = elf.functions()

    assert "third" in functions
    assert "third@OLD_1" in functions
    assert functions["third"] != functions["third@OLD_1"]
    assert "hidden" not in functions


@needs_gcc
def test_build_id_machine_and_class_are_read(tmp_path: Path) -> None:
    with ElfFile.open(compiled(tmp_path)) as elf:
        assert elf.build_id == "0123456789abcdef"
        assert elf.machine == os.uname().machine
        assert elf.is_64


def test_functions_of_the_running_c_library_are_where_they_run() -> None:
    mappings = Path("/proc/self/maps").read_text().splitlines()
    path = next(line.split()[-1] for line in mappings if "/libc.so.6" in line)

    with ElfFile.open(path) as elf:
        functions = elf.functions()
        build_id = elf.build_id

    assert len(functions) > 1_000
    assert functions["getpid"] < Path(path).stat().st_size
    assert build_id is not None


def test_an_interpreter_is_read_as_well() -> None:
    with ElfFile.open(sys.executable) as elf:
        assert elf.machine == os.uname().machine


def test_a_descriptor_stays_the_callers() -> None:
    fd = os.open(sys.executable, os.O_RDONLY)

    ElfFile.open(fd).close()

    assert os.fstat(fd).st_size > 0
    os.close(fd)


def test_32_bit_files_are_refused_by_their_class() -> None:
    data = bytearray(64)
    data[:6] = b"\x7fELF\x01\x01"

    with pytest.raises(ElfError, match="made for 32 bits"):
        read(bytes(data))


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"#!/bin/sh\n" * 20])
def test_other_files_are_no_elf(data: bytes) -> None:
    with pytest.raises(ElfError):
        read(data)


def test_a_missing_file_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(ElfError, match="cannot open"):
        ElfFile.open(tmp_path / "none")


@needs_gcc
@pytest.mark.parametrize(("at", "shape"), [(32, "<Q"), (40, "<Q"), (60, "<H")])
def test_header_that_points_outside_is_named(at: int, shape: str) -> None:
    data = bytearray(sound())
    struct.pack_into(shape, data, at, 2 ** (8 * struct.calcsize(shape)) - 8)

    with pytest.raises(ElfError, match=r"outside of the file|too many"):
        read(bytes(data))


@needs_gcc
@settings(max_examples=150, deadline=None)
@given(st.data())
def test_damaged_files_end_in_a_result_or_an_elf_error(data: st.DataObject) -> None:
    damaged = bytearray(sound())
    size = len(damaged)
    places = st.one_of(
        st.integers(0, 63),
        st.integers(64, 1_000),
        st.integers(max(0, size - 2_000), size - 9),
        st.integers(0, size - 9),
    )
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(places)
        value = data.draw(st.one_of(st.binary(max_size=8), st.just(b"\xff" * 8)))
        damaged[at : at + len(value)] = value
    cut = data.draw(st.one_of(st.just(size), st.integers(0, size)))

    try:
        _, functions, _ = read(bytes(damaged[:cut]))
    except ElfError:
        return

    assert all(offset >= 0 for offset in functions.values())
