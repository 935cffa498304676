"""The claim: the loader reads what a reviewer's ZIP tool shows, or nothing."""

from __future__ import annotations

import struct
import zipfile
from typing import TYPE_CHECKING

import pytest

from tests.builders import case
from tests.bundle_writer import read_zip, write_zip
from workbench.bundle.reader import BundleReader
from workbench.bundle.verify import verify_bundle
from workbench.errors import BundleError, IntegrityError

if TYPE_CHECKING:
    from pathlib import Path

CENTRAL, LOCAL, END = b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06"


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    builder = case().host("a").rank(0).collective(start_ns=1_000, duration_ns=7)
    return builder.write(tmp_path)[0]


def messages(path: Path) -> list[tuple[str, str]]:
    return [(each.kind, each.message) for each in verify_bundle(path).damage]


def patched(path: Path, offset: int, data: bytes) -> Path:
    content = bytearray(path.read_bytes())
    content[offset : offset + len(data)] = data
    path.write_bytes(content)
    return path


def central_entry(path: Path, name: bytes) -> int:
    """Return where the directory's entry of a member begins."""
    return path.read_bytes().rindex(name) - 46


def end_record(path: Path) -> int:
    return path.read_bytes().rindex(END)


def test_a_sound_bundle_has_no_damage(bundle: Path) -> None:
    checked = verify_bundle(bundle)

    assert not checked.is_refused
    assert checked.damage == ()
    assert checked.row_count == 1
    assert checked.host_name == "a"


def test_a_file_that_is_no_zip_is_not_a_zip(tmp_path: Path) -> None:
    path = tmp_path / "x.bundle"
    path.write_bytes(b"hello, world\n" * 9)

    assert messages(path) == [("not_a_zip", "not a ZIP file")]


@pytest.mark.parametrize("content", [b"", b"P", b"PK\x03"])
def test_a_file_shorter_than_a_header_is_not_a_zip(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "x.bundle"
    path.write_bytes(content)

    assert messages(path) == [("not_a_zip", "not a ZIP file")]


def test_a_file_that_is_not_there_is_unreadable(tmp_path: Path) -> None:
    assert messages(tmp_path / "none") == [
        ("unreadable", "cannot read: No such file or directory")
    ]


def test_a_folder_is_unreadable(tmp_path: Path) -> None:
    assert messages(tmp_path) == [("unreadable", "cannot read: Is a directory")]


def test_a_zip_without_manifest_is_foreign(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "x.bundle", {"word/document.xml": b"<a/>"})

    assert messages(path) == [
        ("foreign_zip", "a ZIP file without manifest.json, not a bundle")
    ]


def test_a_manifest_of_another_format_is_foreign(tmp_path: Path) -> None:
    members = {"manifest.json": b'{"format": "web-extension", "version": 99}'}
    path = write_zip(tmp_path / "x.bundle", members)

    assert messages(path)[0] == (
        "foreign_zip",
        'manifest.json has format "web-extension", not "coldtrace-bundle"',
    )


@pytest.mark.parametrize(
    ("at", "data", "field"),
    [
        (8, b"\x00\x08", "flags 0x0800 against 0x0000"),
        (10, b"\x00\x00", "method 0 against 8"),
        (16, b"\x00\x00\x00\x00", "crc 00000000 against "),
        (20, b"\x01\x00\x00\x00", "compressed size 1 against "),
        (24, b"\x01\x00\x00\x00", "size 1 against "),
        (46, b"klock", 'name "klock.jsonl" against "clock.jsonl"'),
    ],
)
def test_a_directory_that_disagrees_is_refused_by_field(
    bundle: Path, at: int, data: bytes, field: str
) -> None:
    entry = central_entry(bundle, b"clock.jsonl")
    name = "klock.jsonl" if b"klock" in data else "clock.jsonl"

    [(kind, message)] = messages(patched(bundle, entry + at, data))

    assert kind == "directory_mismatch"
    start = f"directory disagrees with the local header of {name}: {field}"
    assert message.startswith(start)


def test_a_lost_local_signature_is_refused(bundle: Path) -> None:
    offset = bundle.read_bytes().index(b"clock.jsonl") - 30

    [(kind, message)] = messages(patched(bundle, offset, b"XXXX"))

    assert kind == "directory_mismatch"
    assert message == (
        "directory disagrees with the local header of clock.jsonl: "
        'name "clock.jsonl" against no header'
    )


def with_end(path: Path, **changes: int) -> Path:
    """Return the file with fields of its end record changed."""
    at = end_record(path)
    names = ("magic", "disk", "start", "here", "count", "size", "offset", "comment")
    fields = dict(
        zip(names, struct.unpack("<4s4H2IH", path.read_bytes()[at:]), strict=True)
    )
    return patched(path, at, struct.pack("<4s4H2IH", *(fields | changes).values()))


def test_a_directory_of_fewer_members_than_it_says_is_broken(bundle: Path) -> None:
    [(kind, message)] = messages(with_end(bundle, count=99))

    assert kind == "truncated"
    assert message.startswith("truncated: no central directory, ")


def test_a_directory_of_more_members_than_it_says_is_refused(bundle: Path) -> None:
    [(kind, message)] = messages(with_end(bundle, count=3))

    assert kind == "directory_mismatch"
    assert message.endswith("bytes before the end of the directory belong to no member")


def test_a_directory_with_a_broken_entry_is_no_directory(bundle: Path) -> None:
    entry = central_entry(bundle, b"manifest.json")

    [(kind, message)] = messages(patched(bundle, entry, b"XX"))

    assert kind == "truncated"
    assert message.startswith("truncated: no central directory, ")


def test_bytes_after_the_end_are_refused(bundle: Path) -> None:
    bundle.write_bytes(bundle.read_bytes() + b"tail")

    assert messages(bundle) == [
        ("directory_mismatch", "4 bytes after the end of the directory")
    ]


def test_a_comment_is_refused(bundle: Path) -> None:
    with zipfile.ZipFile(bundle, "a") as file:
        file.comment = b"trust me"

    assert messages(bundle) == [
        ("directory_mismatch", "8 bytes after the end of the directory")
    ]


def test_bytes_before_the_first_member_are_refused(bundle: Path) -> None:
    content = bundle.read_bytes()
    bundle.write_bytes(b"#!/bin/sh\n" + content)
    shifted = with_end(
        bundle, offset=struct.unpack_from("<I", content, len(content) - 6)[0] + 10
    )
    data = bytearray(shifted.read_bytes())
    at = struct.unpack_from("<I", data, len(data) - 6)[0]
    while data[at : at + 4] == CENTRAL:
        lengths = struct.unpack_from("<3H", data, at + 28)
        (offset,) = struct.unpack_from("<I", data, at + 42)
        struct.pack_into("<I", data, at + 42, offset + 10)
        at += 46 + sum(lengths)
    shifted.write_bytes(data)

    assert messages(shifted) == [
        ("directory_mismatch", "10 bytes before manifest.json belong to no member")
    ]


def test_a_member_that_the_directory_hides_is_refused(bundle: Path) -> None:
    data = bytearray(bundle.read_bytes())
    start = central_entry(bundle, b"clock.jsonl")
    del data[start : start + 46 + len("clock.jsonl")]
    at = data.rindex(END)
    count, size = struct.unpack_from("<HI", data, at + 10)
    struct.pack_into("<HHI", data, at + 8, count - 1, count - 1, size - 57)
    bundle.write_bytes(data)

    [(kind, message)] = messages(bundle)

    assert kind == "directory_mismatch"
    assert message.endswith("bytes before facts/host.jsonl belong to no member")


def test_one_name_twice_is_refused(tmp_path: Path, bundle: Path) -> None:
    members = read_zip(bundle)
    path = tmp_path / "twice.bundle"
    with zipfile.ZipFile(path, "w") as file:
        for name, data in members.items():
            file.writestr(name, data)
        with pytest.warns(UserWarning, match="Duplicate"):
            file.writestr("clock.jsonl", b"")

    assert messages(path) == [("directory_mismatch", "clock.jsonl appears twice")]


@pytest.mark.parametrize(
    "name", ["../clock.jsonl", "/etc/passwd", "a//b", "a b", "./a", "a\\b", "x/.."]
)
def test_a_name_that_leaves_the_bundle_is_refused(
    tmp_path: Path, bundle: Path, name: str
) -> None:
    path = write_zip(tmp_path / "x.bundle", read_zip(bundle) | {name: b"x"})

    [(kind, message)] = messages(path)

    assert kind == "directory_mismatch"
    assert message.startswith("member name ")
    assert message.endswith(" is not allowed")


def test_a_data_descriptor_is_refused(bundle: Path) -> None:
    entry = central_entry(bundle, b"clock.jsonl")
    offset = bundle.read_bytes().index(b"clock.jsonl") - 30
    patched(bundle, entry + 8, b"\x08\x00")

    assert messages(patched(bundle, offset + 6, b"\x08\x00")) == [
        (
            "directory_mismatch",
            "clock.jsonl has flags 0x0008, only 0x0000 and 0x0800 are allowed",
        )
    ]


def test_another_compression_is_refused(tmp_path: Path, bundle: Path) -> None:
    path = tmp_path / "x.bundle"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_BZIP2) as file:
        for name, data in read_zip(bundle).items():
            file.writestr(name, data)

    assert messages(path) == [
        (
            "directory_mismatch",
            "manifest.json has compression method 12, only 0 and 8 are allowed",
        )
    ]


def test_a_stored_bundle_is_sound(tmp_path: Path, bundle: Path) -> None:
    path = tmp_path / "stored.bundle"
    with zipfile.ZipFile(path, "w") as file:
        for name, data in read_zip(bundle).items():
            file.writestr(name, data)

    assert messages(path) == []


def test_zip64_headers_are_read(tmp_path: Path, bundle: Path) -> None:
    path = tmp_path / "wide.bundle"
    with zipfile.ZipFile(path, "w") as file:
        for name, data in read_zip(bundle).items():
            with file.open(zipfile.ZipInfo(name), "w", force_zip64=True) as member:
                member.write(data)

    assert messages(path) == []


def test_a_bundle_without_directory_is_walked_and_says_so(bundle: Path) -> None:
    content = bundle.read_bytes()
    bundle.write_bytes(content[: content.index(CENTRAL)])

    with BundleReader.open(bundle) as reader:
        count = len(reader.container.members)

        assert reader.is_directory_missing
        message = f"truncated: no central directory, {count} whole members found by"
        assert [each.message for each in reader.damage] == [
            f"{message} their local headers"
        ]


def test_a_cut_member_is_named(bundle: Path) -> None:
    content = bundle.read_bytes()
    bundle.write_bytes(content[: content.index(b"facts/host.jsonl") + 20])

    found = [message for _, message in messages(bundle)]

    assert "truncated: facts/host.jsonl is not whole" in found
    assert "SHA256SUMS is missing" in found


def test_a_bundle_cut_in_its_manifest_is_not_loaded(bundle: Path) -> None:
    bundle.write_bytes(bundle.read_bytes()[:100])

    assert messages(bundle) == [("truncated", "truncated: manifest.json is not whole")]


def test_a_directory_cannot_be_hidden_in_a_member_that_claims_the_rest(
    bundle: Path,
) -> None:
    """A local header with a huge size must not turn a whole file into a torn one."""
    offset = bundle.read_bytes().index(b"clock.jsonl") - 30

    [(kind, message)] = messages(patched(bundle, offset + 18, b"\xff\xff\xff\x00"))

    assert kind == "directory_mismatch"
    assert "compressed size" in message


def test_the_magic_of_the_end_within_data_does_not_make_a_directory(
    tmp_path: Path, bundle: Path
) -> None:
    """Compressed data holds any four bytes now and then."""
    path = tmp_path / "x.bundle"
    with zipfile.ZipFile(path, "w") as file:
        for name, data in read_zip(bundle).items():
            if name == "SHA256SUMS":
                file.writestr("x_random", END + b"\x00" * 40)
            file.writestr(name, data)
    content = path.read_bytes()
    path.write_bytes(content[: content.index(CENTRAL)])

    assert messages(path)[0][0] == "truncated"


def test_errors_carry_path_and_kind(tmp_path: Path, bundle: Path) -> None:
    entry = central_entry(bundle, b"clock.jsonl")
    patched(bundle, entry + 16, b"\x00\x00\x00\x00")

    with pytest.raises(IntegrityError) as mismatch:
        BundleReader.open(bundle)
    with pytest.raises(BundleError) as missing:
        BundleReader.open(tmp_path / "none")

    assert mismatch.value.path == bundle
    assert mismatch.value.file == "clock.jsonl"
    assert mismatch.value.expected == "0"
    assert missing.value.path == tmp_path / "none"


def with_end64(path: Path) -> Path:
    """Return the file with a ZIP64 end record, as for more members than 65534."""
    data = path.read_bytes()
    at = data.rindex(END)
    count, size, offset = struct.unpack_from("<HII", data, at + 10)
    end64 = struct.pack(
        "<4sQ2H2I4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, count, count, size, offset
    )
    locator = struct.pack("<4sIQI", b"PK\x06\x07", 0, at, 1)
    end = struct.pack("<4s4H2IH", END, 0, 0, 0xFFFF, 0xFFFF, 2**32 - 1, 2**32 - 1, 0)
    path.write_bytes(data[:at] + end64 + locator + end)
    return path


def test_a_zip64_end_record_is_read(bundle: Path) -> None:
    assert messages(with_end64(bundle)) == []


def test_a_size_that_needs_zip64_and_has_none_is_refused(bundle: Path) -> None:
    entry = central_entry(bundle, b"manifest.json")

    [(kind, message)] = messages(patched(bundle, entry + 24, b"\xff\xff\xff\xff"))

    assert kind == "directory_mismatch"
    assert "manifest.json: size 4294967295 against " in message
