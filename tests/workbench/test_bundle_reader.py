"""The claim: a damaged member costs itself or its chunk, and is named."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.builders import case
from tests.bundle_writer import npy, with_sums, write_zip
from workbench.bundle.npy import parse_column
from workbench.bundle.reader import BundleReader
from workbench.bundle.verify import verify_bundle
from workbench.errors import BundleError

if TYPE_CHECKING:
    from pathlib import Path

START = "events/collective/000000/start_ns.npy"


@pytest.fixture
def members() -> dict[str, bytes]:
    host = case().host("a", chunk_rows=2)
    rank = host.rank(0)
    for number in range(3):
        rank.collective(start_ns=1_000 + number, duration_ns=7)
    return host.members()


@pytest.fixture
def manifest(members: dict[str, bytes]) -> dict[str, Any]:
    return json.loads(members["manifest.json"])


def found(tmp_path: Path, members: dict[str, bytes]) -> list[tuple[str, str]]:
    path = write_zip(tmp_path / "x.bundle", members)
    return [(each.kind, each.message) for each in verify_bundle(path).damage]


def test_a_bundle_with_many_faults_is_refused_with_a_row_each(
    tmp_path: Path, members: dict[str, bytes], manifest: dict[str, Any]
) -> None:
    del manifest["host"], manifest["capture_id"]
    members["manifest.json"] = json.dumps(manifest).encode()

    assert found(tmp_path, with_sums(members)) == [
        ("bad_manifest", "missing required value in 'capture_id'"),
        ("bad_manifest", "missing required value in 'host'"),
    ]


def test_a_column_keeps_its_values() -> None:
    for dtype in ("<i8", "<i4", "<i2", "|i1", "<u8", "|b1"):
        array = np.array([0, 1, 1, 0, 1], dtype)

        parsed = parse_column(npy(array))

        assert parsed is not None
        assert parsed.dtype == array.dtype
        assert parsed.tolist() == array.tolist()


def test_any_byte_but_zero_is_true() -> None:
    data = npy(np.array([False, True, True]))[:-2] + b"\x02\xff"

    parsed = parse_column(data)

    assert parsed is not None
    assert parsed.sum() == 2


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x93NUMPY\x01\x00",
        npy(np.zeros(3))[:40],
        npy(np.zeros(3)),
        npy(np.zeros((3, 1), "<i8")),
        npy(np.zeros(3, "<i8"))[:-1],
        npy(np.zeros(3, "<i8")) + b"\x00",
        npy(np.zeros(3, "<i8")).replace(b"\x01\x00", b"\x02\x00", 1),
        npy(np.zeros(3, ">i8")),
        npy(np.zeros(3, "<i8")).replace(b"(3,)", b"(3e)"),
        npy(np.zeros(3, "<i8")).replace(b"False", b"True "),
        npy(np.zeros(3, "<i8")).replace(b"(3,)", b"(99999999999999,)"),
    ],
)
def test_what_is_no_plain_column_is_refused(data: bytes) -> None:
    assert parse_column(data) is None


def test_a_flipped_byte_costs_one_chunk(
    tmp_path: Path, members: dict[str, bytes]
) -> None:
    flipped = bytearray(members[START])
    flipped[-1] ^= 1
    members[START] = bytes(flipped)
    path = write_zip(tmp_path / "x.bundle", members)

    with BundleReader.open(path) as reader:
        first, second = reader.chunk("collective", 0), reader.chunk("collective", 1)

    assert first.columns is None
    assert first.damage[0].kind == "bad_checksum"
    assert first.damage[0].message.startswith(f"SHA-256 mismatch in {START}: ")
    assert second.columns is not None
    assert second.columns["start_ns"].tolist() == [1_002]


def test_the_column_of_another_dtype_is_named(
    tmp_path: Path, members: dict[str, bytes]
) -> None:
    members[START] = npy(np.array([1, 2], "<i4"))

    assert found(tmp_path, with_sums(members)) == [
        ("bad_column", f"{START} has dtype <i4, the manifest says <i8")
    ]


def test_a_column_of_another_length_is_named(
    tmp_path: Path, members: dict[str, bytes]
) -> None:
    members[START] = npy(np.array([1], "<i8"))

    assert found(tmp_path, with_sums(members)) == [
        ("bad_column", f"{START} has 1 rows, the manifest says 2")
    ]


def test_a_column_that_is_no_column_is_named(
    tmp_path: Path, members: dict[str, bytes]
) -> None:
    members[START] = b"\x80\x04\x95pickle"

    assert found(tmp_path, with_sums(members)) == [
        ("bad_column", f"{START} is not a column of NumPy format 1.0")
    ]


def test_a_column_that_is_gone_is_named(
    tmp_path: Path, members: dict[str, bytes]
) -> None:
    del members[START]

    assert found(tmp_path, with_sums(members)) == [
        ("missing_column", f"{START} is missing")
    ]
    assert found(tmp_path, members)[0] == (
        "bad_checksum",
        f"{START} is listed in SHA256SUMS but missing",
    )


def test_missing_check_sums_are_noted(
    tmp_path: Path, members: dict[str, bytes]
) -> None:
    del members["SHA256SUMS"]

    assert found(tmp_path, members) == [("bad_checksum", "SHA256SUMS is missing")]


def test_a_bad_line_of_check_sums_is_noted(
    tmp_path: Path, members: dict[str, bytes]
) -> None:
    members["SHA256SUMS"] += b"not a sum\n"
    count = members["SHA256SUMS"].count(b"\n")

    assert found(tmp_path, members) == [
        ("bad_checksum", f"SHA256SUMS line {count} is not a checksum and a name")
    ]


def test_an_unlisted_member_is_not_used(
    tmp_path: Path, members: dict[str, bytes]
) -> None:
    extra = {"facts/gpu.jsonl": b"{}\n"} | members

    assert found(tmp_path, extra) == [
        ("bad_checksum", "facts/gpu.jsonl is not listed in SHA256SUMS")
    ]
    assert found(tmp_path, with_sums(extra)) == []


def test_a_manifest_that_is_not_what_the_sums_say_refuses_the_bundle(
    tmp_path: Path, members: dict[str, bytes]
) -> None:
    members["manifest.json"] += b"\n"
    path = write_zip(tmp_path / "x.bundle", members)

    with pytest.raises(BundleError, match=r"^SHA-256 mismatch in manifest.json"):
        BundleReader.open(path)


def test_bad_lines_of_facts_cost_themselves(
    tmp_path: Path, members: dict[str, bytes]
) -> None:
    sound = json.loads(members["facts/process.jsonl"])
    lines = [
        json.dumps(sound),
        "[]",
        json.dumps(sound | {"pid": "7"}),
        json.dumps({k: v for k, v in sound.items() if k != "first_ns"}),
        json.dumps(sound | {"pid": 2**31, "process_name": None}),
        json.dumps(sound | {"x_site_note": 1}),
    ]
    members["facts/process.jsonl"] = "\n".join(lines).encode() + b"\n"
    path = write_zip(tmp_path / "x.bundle", with_sums(members))

    with BundleReader.open(path) as reader:
        table = reader.fact("process")

    assert [row["pid"] for row in table.rows] == [1_000, 1_000]
    member = "facts/process.jsonl"
    assert [(each.kind, each.message) for each in table.damage] == [
        ("bad_fact", f"{member} line 2 is not a JSON object"),
        ("bad_fact", f"{member} line 3: 'pid' is string, not integer"),
        ("bad_fact", f"{member} line 4: missing required value in 'first_ns'"),
        ("bad_fact", f"{member} line 5: 'pid' has the impossible value 2147483648"),
        ("bad_fact", f"{member} line 5: 'process_name' is null, not string"),
        ("bad_fact", f"{member} has 6 rows, the manifest says 1"),
    ]


def test_addresses_of_mappings_are_hexadecimal(
    tmp_path: Path, members: dict[str, bytes], manifest: dict[str, Any]
) -> None:
    row: dict[str, Any] = {"pid": 7, "library_ref": 1, "file_offset": 0, "seen_ns": 5}
    rows = [
        row | {"start_address": "7f0000001000", "end_address": "7f0000002000"},
        row | {"start_address": "nowhere", "end_address": "7f0000002000"},
    ]
    members["facts/mapping.jsonl"] = b"".join(
        json.dumps(each).encode() + b"\n" for each in rows
    )
    manifest["facts"]["mapping"] = 2
    members["manifest.json"] = json.dumps(manifest).encode()
    path = write_zip(tmp_path / "x.bundle", with_sums(members))

    with BundleReader.open(path) as reader:
        table = reader.fact("mapping")

    assert [row["start_address"] for row in table.rows] == [0x7F0000001000]
    assert table.damage[0].message.endswith(
        "'start_address' has the impossible value \"nowhere\""
    )


def test_facts_that_are_gone_are_named(
    tmp_path: Path, members: dict[str, bytes]
) -> None:
    del members["facts/process.jsonl"], members["clock.jsonl"]

    assert found(tmp_path, with_sums(members)) == [
        ("bad_fact", "clock.jsonl is missing"),
        ("bad_fact", "facts/process.jsonl is missing"),
    ]


def test_a_fact_that_is_damaged_costs_itself(
    tmp_path: Path, members: dict[str, bytes]
) -> None:
    members["facts/rank.jsonl"] += b"\n"

    [(kind, message)] = found(tmp_path, members)

    assert kind == "bad_checksum"
    assert message.startswith("SHA-256 mismatch in facts/rank.jsonl: ")


def test_unknown_streams_are_checked_and_ignored(
    tmp_path: Path, members: dict[str, bytes], manifest: dict[str, Any]
) -> None:
    stream = copy.deepcopy(manifest["streams"]["gpu_call"])
    manifest["streams"]["x_site_stream"] = stream | {
        "row_count": 1,
        "chunk_rows": [1],
        "columns": stream["columns"][:1],
    }
    name = "events/x_site_stream/000000/start_ns.npy"
    extra = members | {name: npy(np.array([5], "<i8"))}
    extra["manifest.json"] = json.dumps(manifest).encode()

    assert found(tmp_path, with_sums(extra)) == []
    del extra[name]
    assert found(tmp_path, with_sums(extra)) == [
        ("missing_column", f"{name} is missing")
    ]
