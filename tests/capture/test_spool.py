"""Whatever ends a recording, every whole frame of its spool can be read back."""

from __future__ import annotations

import os
import shutil
import stat
import threading
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capture import spool as spool_module
from capture.spool import (
    FRAME_HEADER_SIZE,
    FRAMES_NAME,
    HEADER_NAME,
    SpoolDamage,
    SpoolError,
    SpoolReader,
    SpoolWriter,
)
from tests.capture.spools import HEADER, spool

if TYPE_CHECKING:
    from pathlib import Path

FRAMES = [
    ("clock", b"tick\n"),
    ("events/off_cpu", b"x" * 29),
    ("facts", b""),
    ("end", b"{}"),
]


def _read(folder: Path) -> tuple[list[tuple[str, bytes]], SpoolDamage]:
    reader = SpoolReader(folder)
    damage = SpoolDamage()
    try:
        return [(f.kind, bytes(f.payload)) for f in reader.frames(damage)], damage
    finally:
        reader.close()


def _ends() -> list[int]:
    """Return where each frame ends."""
    ends, place = [], 0
    for _, payload in FRAMES:
        place += FRAME_HEADER_SIZE + len(payload)
        ends.append(place)
    return ends


def test_frames_come_back_in_order(tmp_path: Path) -> None:
    frames, damage = _read(spool(tmp_path / "s", *FRAMES))

    assert frames == FRAMES
    assert damage == SpoolDamage()


def test_folder_and_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        folder = spool(tmp_path / "s", *FRAMES)
    finally:
        os.umask(old)

    modes = [
        stat.S_IMODE(path.stat().st_mode)
        for path in (folder, folder / HEADER_NAME, folder / FRAMES_NAME)
    ]
    assert modes == [0o700, 0o600, 0o600]


def test_a_folder_that_exists_is_never_taken_over(tmp_path: Path) -> None:
    with pytest.raises(SpoolError, match="exists"):
        SpoolWriter(tmp_path, HEADER)


def test_a_spool_that_is_being_written_is_not_read(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path / "s", HEADER)

    with pytest.raises(SpoolError, match="still being written"):
        SpoolReader(tmp_path / "s")

    writer.close()
    assert _read(tmp_path / "s") == ([], SpoolDamage())


def test_a_folder_without_header_is_no_spool(tmp_path: Path) -> None:
    with pytest.raises(SpoolError, match="is not a spool"):
        SpoolReader(tmp_path)


def test_another_spool_version_is_named(tmp_path: Path) -> None:
    folder = spool(tmp_path / "s", *FRAMES)
    (folder / HEADER_NAME).write_text('{"spool_version": 2}')

    with pytest.raises(SpoolError, match="has spool version 2, this recorder reads 1"):
        SpoolReader(folder)


def test_a_spool_cut_at_any_byte_keeps_its_whole_frames(tmp_path: Path) -> None:
    folder = spool(tmp_path / "s", *FRAMES)
    whole = (folder / FRAMES_NAME).read_bytes()
    ends = _ends()

    for length in range(len(whole)):
        (folder / FRAMES_NAME).write_bytes(whole[:length])
        frames, damage = _read(folder)

        kept = sum(end <= length for end in ends)
        assert frames == FRAMES[:kept], length
        assert damage.torn_bytes == length - ([0, *ends][kept])
        assert damage.damaged_frame_count == 0


def test_a_flipped_byte_costs_its_own_frame_only(tmp_path: Path) -> None:
    folder = spool(tmp_path / "s", *FRAMES)
    whole = (folder / FRAMES_NAME).read_bytes()
    ends = _ends()

    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 0x40
        (folder / FRAMES_NAME).write_bytes(changed)
        frames, damage = _read(folder)

        hit = sum(end <= place for end in ends)
        assert frames == FRAMES[:hit] + FRAMES[hit + 1 :], place
        is_torn = damage.torn_bytes > 0
        assert damage.damaged_frame_count + is_torn == 1


@settings(max_examples=40, deadline=None)
@given(
    payloads=st.lists(st.binary(max_size=60), min_size=1, max_size=6),
    garbage=st.binary(max_size=40),
)
def test_any_payloads_survive_garbage_at_the_end(
    tmp_path_factory: pytest.TempPathFactory, payloads: list[bytes], garbage: bytes
) -> None:
    folder = tmp_path_factory.mktemp("any") / "s"
    spool(folder, *(("facts", payload) for payload in payloads))
    with (folder / FRAMES_NAME).open("ab") as file:
        file.write(garbage)

    frames, damage = _read(folder)

    assert [payload for _, payload in frames] == payloads
    assert damage.torn_bytes == len(garbage)
    shutil.rmtree(folder)


def test_frames_of_many_threads_are_whole(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path / "s", HEADER)

    def work(number: int) -> None:
        for size in range(53):
            writer.append("facts", bytes([number]) * size)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.close()

    frames, damage = _read(tmp_path / "s")
    assert sorted(payload for _, payload in frames) == sorted(
        bytes([number]) * size for number in range(7) for size in range(53)
    )
    assert damage == SpoolDamage()


def test_an_error_of_the_disk_leaves_no_part_of_a_frame(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = SpoolWriter(tmp_path / "s", HEADER)
    writer.append("clock", b"before\n")

    write = os.write

    def first_bytes(fd: int, parts: list[memoryview]) -> int:
        return write(fd, parts[0][:11])

    def nothing(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(spool_module.os, "writev", first_bytes)
        patched.setattr(spool_module.os, "write", nothing)
        with pytest.raises(OSError, match="No space left"):
            writer.append("clock", b"lost\n")
    writer.append("end", b"{}")
    writer.close()

    frames, damage = _read(tmp_path / "s")
    assert frames == [("clock", b"before\n"), ("end", b"{}")]
    assert damage == SpoolDamage()


@pytest.mark.parametrize(("free_mib", "is_low"), [(255, True), (257, False)])
def test_free_space_is_low_below_the_room_that_seal_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free_mib: int, *, is_low: bool
) -> None:
    writer = SpoolWriter(tmp_path / "s", HEADER)

    class Disk:
        f_bavail = free_mib
        f_frsize = 1024 * 1024

    with monkeypatch.context() as patched:
        patched.setattr(spool_module.os, "statvfs", lambda _: Disk)
        found = writer.free_space_is_low()
    writer.close()

    assert found == is_low
