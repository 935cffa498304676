"""The claim: a damaged member costs itself or its chunk, and is named in fixed words."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.builders import case
from tests.bundle_writer import npy, read_zip, with_sums, write_zip
from workbench.bundle.manifest import parse_manifest
from workbench.bundle.npy import parse_column
from workbench.bundle.reader import BundleReader
from workbench.bundle.strict_json import clean_text, parse_object
from workbench.bundle.verify import verify_bundle
from workbench.errors import BundleError, ManifestError, UnsupportedVersionError

if TYPE_CHECKING:
    from collections.abc import Callable
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


def faults(document: dict[str, Any]) -> list[str]:
    """Return the messages of everything that is wrong with a manifest."""
    with pytest.raises((ManifestError, ExceptionGroup)) as caught:
        parse_manifest(json.dumps(document).encode())
    error = caught.value
    errors = error.exceptions if isinstance(error, ExceptionGroup) else [error]
    return [str(each) for each in errors]


def test_a_manifest_is_parsed_whole(manifest: dict[str, Any]):
    manifest["x_site_note"] = {"kept": True}

    parsed = parse_manifest(json.dumps(manifest).encode())

    assert parsed.version == 1
    assert parsed.host.host_name == "a"
    assert parsed.host.ticks_per_second == 100
    assert parsed.streams["collective"].chunk_rows == (2, 1)
    assert parsed.operations == {1: "all_reduce"}
    assert parsed.capture.damaged_bytes == 0
    assert parsed.planted is None
    assert parsed.document["x_site_note"] == {"kept": True}


def test_a_newer_version_is_refused_by_naming_both(manifest: dict[str, Any]):
    manifest = {"format": "coldtrace-bundle", "version": 7, "all_else": "unknown"}

    with pytest.raises(UnsupportedVersionError) as caught:
        parse_manifest(json.dumps(manifest).encode())

    assert str(caught.value) == (
        "format version 7 is newer than version 1, the newest this reader opens"
    )
    assert (caught.value.found, caught.value.supported) == (7, 1)


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{", b'{"a": NaN}', b"\xff\xfe{}", b"[" * 100_000]
)
def test_what_is_no_json_object_is_one_fault(data: bytes):
    with pytest.raises(ManifestError, match=r"^manifest.json is not a JSON object$"):
        parse_manifest(data)


def change(path: str, value: object) -> Callable[[dict[str, Any]], None]:
    """Return what sets the value at a path such as ``streams.off_cpu.row_count``."""

    def apply(document: dict[str, Any]) -> None:
        *parents, last = [int(p) if p.isdigit() else p for p in path.split(".")]
        holder: Any = document
        for part in parents:
            holder = holder[part]
        if value is KeyError:
            del holder[last]
        else:
            holder[last] = value

    return apply


COLUMN = "streams.collective.columns"


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("host.boot_id", KeyError, "missing required value in 'host.boot_id'"),
        ("format", KeyError, "missing required value in 'format'"),
        ("version", KeyError, "missing required value in 'version'"),
        ("version", "1", "'version' is string, not integer"),
        ("version", True, "'version' is boolean, not integer"),
        ("version", 0, "'version' has the impossible value 0"),
        ("capture_id", "xyz", "'capture_id' has the impossible value \"xyz\""),
        ("host", [], "'host' is array, not object"),
        ("capture.is_recovered", None, "'capture.is_recovered' is null, not boolean"),
        ("capture.start_ns", 1.5, "'capture.start_ns' is number, not integer"),
        ("capture.start_ns", -1, "'capture.start_ns' has the impossible value -1"),
        ("capture.job_ids", "job", "'capture.job_ids' is string, not array"),
        ("capture.job_ids", [7], "'capture.job_ids[0]' is integer, not string"),
        (
            "capture.stop_ns",
            2**63,
            "'capture.stop_ns' has the impossible value 9223372036854775808",
        ),
        (
            "streams.collective.chunk_rows",
            [2, 2],
            "'streams.collective.chunk_rows' has the impossible value [2, 2]",
        ),
        (
            "streams.collective.chunk_rows",
            [0, 3],
            "'streams.collective.chunk_rows' has the impossible value [0, 3]",
        ),
        (
            f"{COLUMN}.3.dtype",
            KeyError,
            "missing required value in 'streams.collective.columns[3].dtype'",
        ),
        (
            f"{COLUMN}.3.dtype",
            "<f8",
            "'streams.collective.columns[3].dtype' has the impossible value \"<f8\"",
        ),
        (
            f"{COLUMN}.3.name",
            "start_ns",
            "'streams.collective.columns[3].name' has the impossible value \"start_ns\"",
        ),
        (
            f"{COLUMN}.1.valid_by",
            "start_ns",
            "'streams.collective.columns[1].valid_by' has the impossible value "
            '"start_ns"',
        ),
        (f"{COLUMN}.1", 3, "'streams.collective.columns[1]' is integer, not object"),
        ("planted", 3, "'planted' is integer, not object"),
        ("facts.host", -1, "'facts.host' has the impossible value -1"),
    ],
)
def test_a_fault_of_the_manifest_names_its_place(
    manifest: dict[str, Any], path: str, value: object, message: str
):
    change(path, value)(manifest)

    assert faults(manifest) == [message]


def test_every_fault_of_a_manifest_is_reported(manifest: dict[str, Any]):
    change("host.cpu_count", "two")(manifest)
    change("capture.loader", KeyError)(manifest)
    change("streams.off_cpu.kind", 5)(manifest)

    assert faults(manifest) == [
        "'host.cpu_count' is string, not integer",
        "missing required value in 'capture.loader'",
        "'streams.off_cpu.kind' is integer, not string",
    ]


def test_a_bundle_with_many_faults_is_refused_with_a_row_each(
    tmp_path: Path, members: dict[str, bytes], manifest: dict[str, Any]
):
    del manifest["host"], manifest["capture_id"]
    members["manifest.json"] = json.dumps(manifest).encode()

    assert found(tmp_path, with_sums(members)) == [
        ("bad_manifest", "missing required value in 'capture_id'"),
        ("bad_manifest", "missing required value in 'host'"),
    ]


def test_a_name_that_utf8_cannot_hold_is_mended(manifest: dict[str, Any]):
    manifest["host"]["host_name"] = "a\ud800b"

    parsed = parse_manifest(json.dumps(manifest).encode())

    assert parsed.host.host_name == "a\ufffdb"
    assert clean_text("\U0001f600") == "\U0001f600"


def test_an_integer_of_any_length_is_no_json():
    assert parse_object(b'{"a": ' + b"9" * 5_000 + b"}") is None


def test_a_column_keeps_its_values():
    for dtype in ("<i8", "<i4", "<i2", "|i1", "<u8", "|b1"):
        array = np.array([0, 1, 1, 0, 1], dtype)

        parsed = parse_column(npy(array))

        assert parsed is not None
        assert parsed.dtype == array.dtype
        assert parsed.tolist() == array.tolist()


def test_any_byte_but_zero_is_true():
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
def test_what_is_no_plain_column_is_refused(data: bytes):
    assert parse_column(data) is None


def test_a_flipped_byte_costs_one_chunk(tmp_path: Path, members: dict[str, bytes]):
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
):
    members[START] = npy(np.array([1, 2], "<i4"))

    assert found(tmp_path, with_sums(members)) == [
        ("bad_column", f"{START} has dtype <i4, the manifest says <i8")
    ]


def test_a_column_of_another_length_is_named(tmp_path: Path, members: dict[str, bytes]):
    members[START] = npy(np.array([1], "<i8"))

    assert found(tmp_path, with_sums(members)) == [
        ("bad_column", f"{START} has 1 rows, the manifest says 2")
    ]


def test_a_column_that_is_no_column_is_named(tmp_path: Path, members: dict[str, bytes]):
    members[START] = b"\x80\x04\x95pickle"

    assert found(tmp_path, with_sums(members)) == [
        ("bad_column", f"{START} is not a column of NumPy format 1.0")
    ]


def test_a_column_that_is_gone_is_named(tmp_path: Path, members: dict[str, bytes]):
    del members[START]

    assert found(tmp_path, with_sums(members)) == [
        ("missing_column", f"{START} is missing")
    ]
    assert found(tmp_path, members)[0] == (
        "bad_checksum",
        f"{START} is listed in SHA256SUMS but missing",
    )


def test_missing_check_sums_are_noted(tmp_path: Path, members: dict[str, bytes]):
    del members["SHA256SUMS"]

    assert found(tmp_path, members) == [("bad_checksum", "SHA256SUMS is missing")]


def test_a_bad_line_of_check_sums_is_noted(tmp_path: Path, members: dict[str, bytes]):
    members["SHA256SUMS"] += b"not a sum\n"
    count = members["SHA256SUMS"].count(b"\n")

    assert found(tmp_path, members) == [
        ("bad_checksum", f"SHA256SUMS line {count} is not a checksum and a name")
    ]


def test_an_unlisted_member_is_not_used(tmp_path: Path, members: dict[str, bytes]):
    extra = {"facts/gpu.jsonl": b"{}\n"} | members

    assert found(tmp_path, extra) == [
        ("bad_checksum", "facts/gpu.jsonl is not listed in SHA256SUMS")
    ]
    assert found(tmp_path, with_sums(extra)) == []


def test_a_manifest_that_is_not_what_the_sums_say_refuses_the_bundle(
    tmp_path: Path, members: dict[str, bytes]
):
    members["manifest.json"] += b"\n"
    path = write_zip(tmp_path / "x.bundle", members)

    with pytest.raises(BundleError, match=r"^SHA-256 mismatch in manifest.json"):
        BundleReader.open(path)


def test_bad_lines_of_facts_cost_themselves(tmp_path: Path, members: dict[str, bytes]):
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
):
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


def test_facts_that_are_gone_are_named(tmp_path: Path, members: dict[str, bytes]):
    del members["facts/process.jsonl"], members["clock.jsonl"]

    assert found(tmp_path, with_sums(members)) == [
        ("bad_fact", "clock.jsonl is missing"),
        ("bad_fact", "facts/process.jsonl is missing"),
    ]


def test_a_fact_that_is_damaged_costs_itself(tmp_path: Path, members: dict[str, bytes]):
    members["facts/rank.jsonl"] += b"\n"

    [(kind, message)] = found(tmp_path, members)

    assert kind == "bad_checksum"
    assert message.startswith("SHA-256 mismatch in facts/rank.jsonl: ")


def test_unknown_streams_are_checked_and_ignored(
    tmp_path: Path, members: dict[str, bytes], manifest: dict[str, Any]
):
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
