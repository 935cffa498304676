"""Verify finds every change of a bundle, whatever byte it is in."""

from __future__ import annotations

import io
import struct
import zipfile
from typing import TYPE_CHECKING

import pytest

from capture.archive_reader import read_member, read_members
from capture.verify import Verified, verify_bundle
from tests.capture.spoilt_bundles import pack, sound_bundle, unpack

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def bundle() -> bytes:
    return sound_bundle()


def _verify(tmp_path: Path, data: bytes) -> Verified:
    path = tmp_path / "x.bundle"
    path.write_bytes(data)
    return verify_bundle(path)


def test_a_sound_bundle_has_no_problems(tmp_path: Path, bundle: bytes) -> None:
    found = _verify(tmp_path, bundle)

    assert found.problems == []
    assert found.manifest is not None


def test_text_nested_too_deep_to_be_read_is_refused_in_words(
    tmp_path: Path, bundle: bytes
) -> None:
    members = unpack(bundle)
    fact = next(name for name in members if name.startswith("facts/"))
    deep = b"[" * 200_000

    manifest = _verify(tmp_path, pack(members | {"manifest.json": deep}))
    row = _verify(tmp_path, pack(members | {fact: deep + b"\n"}))

    assert [problem.kind for problem in manifest.problems] == ["bad_manifest"]
    assert "bad_fact" in {problem.kind for problem in row.problems}


@pytest.mark.slow
def test_a_flipped_byte_is_found_or_changes_no_content(
    tmp_path: Path, bundle: bytes
) -> None:
    content = unpack(bundle)
    found = 0

    # Dates, versions and the last bits of a deflate stream are free to differ.
    for place in range(0, len(bundle), 11):
        changed = bytearray(bundle)
        changed[place] ^= 0x10
        if _verify(tmp_path, bytes(changed)).problems:
            found += 1
        else:
            assert unpack(bytes(changed)) == content, place

    assert found > len(bundle) // 11 * 0.7


def test_a_bundle_cut_anywhere_is_named_as_such(tmp_path: Path, bundle: bytes) -> None:
    manifest_end = len(b"PK") + bundle.index(b"PK\x03\x04", 1)

    for length in range(4, len(bundle), 41):
        found = _verify(tmp_path, bundle[:length])

        assert found.problems[0].message.startswith("truncated: "), length
        assert found.is_refused == (length < manifest_end - 2), length


def test_a_file_that_is_not_there_is_unreadable(tmp_path: Path) -> None:
    (problem,) = verify_bundle(tmp_path / "absent").problems

    assert problem.kind == "unreadable"
    assert problem.message == "cannot read: No such file or directory"


def test_a_member_that_lies_about_its_size_is_not_unpacked(tmp_path: Path) -> None:
    bomb = pack({"manifest.json": bytes(5_000_000)}, sums=False)
    changed = bytearray(bomb)
    for place in (22, bomb.index(b"PK\x01\x02") + 24):
        struct.pack_into("<I", changed, place, 97)

    (problem,) = _verify(tmp_path, bytes(changed)).problems

    assert problem.message == "cannot decompress manifest.json"


def test_a_member_larger_than_a_block_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    content = bytes(range(256)) * 9_001
    path.write_bytes(pack({"a": content, "b": b"after"}, sums=False))

    with path.open("rb") as file:
        members = read_members(file, path.stat().st_size)
        contents = [read_member(file, member) for member in members]

    assert contents == [content, b"after"]


def test_zip64_records_are_understood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ZIP64_LIMIT", "ZIP_FILECOUNT_LIMIT"):
        monkeypatch.setattr(zipfile, name, 3)
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for number in range(7):
            archive.writestr(zipfile.ZipInfo(f"m/{number}"), b"content")
    path = tmp_path / "x.zip"
    path.write_bytes(target.getvalue())

    with path.open("rb") as file:
        members = read_members(file, path.stat().st_size)
        contents = [read_member(file, member) for member in members]

    assert contents == [b"content"] * 7
    assert b"PK\x06\x06" in target.getvalue()


def test_two_directories_cannot_show_two_contents(
    tmp_path: Path, bundle: bytes
) -> None:
    members = unpack(bundle)
    other = pack({**members, "clock.jsonl": b""})

    found = _verify(tmp_path, bundle + other)

    assert found.is_refused
    assert found.problems[0].kind == "directory_mismatch"
