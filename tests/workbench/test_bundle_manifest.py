"""The claim: every fault of a manifest is named, with its place, in fixed words."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.builders import case
from workbench.bundle.manifest import parse_manifest
from workbench.bundle.strict_json import clean_text, parse_object
from workbench.errors import ManifestError, UnsupportedVersionError

if TYPE_CHECKING:
    from collections.abc import Callable

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


def faults(document: dict[str, Any]) -> list[str]:
    """Return the messages of everything that is wrong with a manifest."""
    with pytest.raises((ManifestError, ExceptionGroup)) as caught:
        parse_manifest(json.dumps(document).encode())
    error = caught.value
    errors = error.exceptions if isinstance(error, ExceptionGroup) else [error]
    return [str(each) for each in errors]


def test_a_manifest_is_parsed_whole(manifest: dict[str, Any]) -> None:
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


def test_a_newer_version_is_refused_by_naming_both(manifest: dict[str, Any]) -> None:
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
def test_what_is_no_json_object_is_one_fault(data: bytes) -> None:
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
            f"'{COLUMN}[3].name' has the impossible value \"start_ns\"",
        ),
        (
            f"{COLUMN}.1.valid_by",
            "start_ns",
            f"'{COLUMN}[1].valid_by' has the impossible value \"start_ns\"",
        ),
        (f"{COLUMN}.1", 3, "'streams.collective.columns[1]' is integer, not object"),
        ("planted", 3, "'planted' is integer, not object"),
        ("facts.host", -1, "'facts.host' has the impossible value -1"),
    ],
)
def test_a_fault_of_the_manifest_names_its_place(
    manifest: dict[str, Any], path: str, value: object, message: str
) -> None:
    change(path, value)(manifest)

    assert faults(manifest) == [message]


def test_every_fault_of_a_manifest_is_reported(manifest: dict[str, Any]) -> None:
    change("host.cpu_count", "two")(manifest)
    change("capture.loader", KeyError)(manifest)
    change("streams.off_cpu.kind", 5)(manifest)

    assert faults(manifest) == [
        "'host.cpu_count' is string, not integer",
        "missing required value in 'capture.loader'",
        "'streams.off_cpu.kind' is integer, not string",
    ]


def test_a_name_that_utf8_cannot_hold_is_mended(manifest: dict[str, Any]) -> None:
    manifest["host"]["host_name"] = "a\ud800b"

    parsed = parse_manifest(json.dumps(manifest).encode())

    assert parsed.host.host_name == "a\ufffdb"
    assert clean_text("\U0001f600") == "\U0001f600"


def test_an_integer_of_any_length_is_no_json() -> None:
    assert parse_object(b'{"a": ' + b"9" * 5_000 + b"}") is None
