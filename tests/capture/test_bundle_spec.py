"""BUNDLE.md and the code say the same: columns, keys, identities, messages."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path

import pytest

from capture.columns import columns_of
from capture.fact_columns import CLOCK, FACTS
from capture.identity import child_mixes, id_mixes, mixes, origin_text, world_mixes
from capture.layout import LAYOUTS
from capture.manifest_check import _CAPTURE, _HOST, _REDACTION, _STREAM, _TOP
from tests.capture.spoilt_bundles import sound_bundle, unpack
from tests.capture.vectors import all_vectors

SPEC = Path(__file__).resolve().parents[2].joinpath("capture", "BUNDLE.md").read_text()


def _section(start: str, end: str) -> str:
    return SPEC.split(start, 1)[1].split(end, 1)[0]


@pytest.mark.parametrize("stream", LAYOUTS)
def test_columns_of_the_spec_are_those_of_the_code(stream: str) -> None:
    rows = [
        f"| `{column.name}` | `{column.dtype}` | {column.unit or '-'} | "
        f"{f'`{column.valid_by}`' if column.valid_by else 'always'} | "
        f"{column.meaning} |"
        for column in columns_of(stream)
    ]

    table = _section(f"<!-- columns {stream} -->\n", "<!-- end -->")

    assert table.splitlines()[2:] == rows


@pytest.mark.parametrize("fact", FACTS)
def test_keys_of_facts_in_the_spec_are_those_of_the_code(fact: str) -> None:
    row = next(
        line
        for line in _section("### Facts", "### Identity").splitlines()
        if line.startswith(f"| `{fact}` |")
    )
    listed = row.split("|")[2].rsplit("; key", 1)[0].rsplit("; one row", 1)[0]
    keys = re.findall(r"`(\w+[?*]?)`", re.sub(r"\([^)]*\)", "", listed))

    assert keys == [key.name + key.mark for key in FACTS[fact]]


def test_keys_of_the_clock_in_the_spec_are_those_of_the_code() -> None:
    table = _section("## Clocks", "## Loss accounting")

    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == [
        key.name for key in CLOCK
    ]


def test_fields_of_the_manifest_in_the_spec_are_those_of_the_code() -> None:
    text = _section("## Manifest", "### Facts")
    fields = {
        name
        for row in re.findall(r"^\| (`.+?) \|", text, re.MULTILINE)
        for name in re.findall(r"`([\w.]+)`", row)
    }
    optional = {"damaged_bytes", "damaged_frame_count", "unreadable_line_count"}
    optional |= {"budget_ppm", "budget_steps"}
    optional |= {"redaction", *_REDACTION}
    optional |= {"no_return_probes_reason", "absent_streams"}
    created_by = {"created_by.name", "created_by.version", "created_by.sha256"}

    known = {*_TOP, *_HOST, *_CAPTURE, *_STREAM} - {"created_by"}
    assert fields == known | optional | created_by


def test_identities_of_the_spec_come_out_of_the_code() -> None:
    zero, counted = id_mixes(bytes(128)), id_mixes(bytes(range(128)))
    world = world_mixes("prterun-hosta-1234@1")

    found = [
        origin_text(pair)
        for pair in (
            zero,
            counted,
            child_mixes(counted, 0, 1),
            child_mixes(counted, 1, -1),
            world,
            child_mixes(world, 0, 0),
        )
    ]

    table = _section("| Words from | Origin |", "## Streams")
    assert re.findall(r"`([0-9a-f]{32})`", table) == found
    assert mixes(struct.unpack("<16Q", bytes(128))) == zero


def test_every_message_of_a_vector_has_a_row_in_the_error_table() -> None:
    table = _section("## Errors", "## Test vectors")
    patterns = [
        re.compile(re.sub(r"\\\{.*?\\\}", ".+", re.escape(message)))
        for message in re.findall(r"`([^`]+)`", table)
    ]

    for vector in all_vectors():
        for error in vector.errors:
            place = re.sub(r"^\S+ line \d+: ", "", error)
            assert any(
                pattern.fullmatch(text)
                for pattern in patterns
                for text in (error, place)
            ), error


def test_the_example_of_the_spec_is_the_sound_vector() -> None:
    members = unpack(sound_bundle())
    tables = [data.decode() for name, data in members.items() if name.endswith("l")]
    header = members["events/off_cpu/000000/start_ns.npy"]
    manifest = json.loads(members["manifest.json"])

    example = _section("<!-- example -->", "<!-- end example -->")

    assert all(f"```\n{table}```" in example for table in tables)
    assert all(name in example.splitlines() for name in members)
    assert header[:16].hex(" ") in example
    assert header[128:144].hex(" ") in example
    for name, value in {**manifest["host"], **manifest["capture"]}.items():
        assert f'"{name}": {json.dumps(value)}' in example
    for line in members["SHA256SUMS"].decode().splitlines()[1:3]:
        assert line in example
