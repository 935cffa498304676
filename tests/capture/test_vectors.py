"""Every vector in samples/vectors is judged as it says, by the recorder's reader."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest

from capture.archive_reader import ArchiveError
from capture.verify import parse_manifest, verify_bundle
from tests.capture.vectors import FOLDER, all_vectors, parse_vector

if TYPE_CHECKING:
    from pathlib import Path

VECTORS = sorted(FOLDER.glob("*.vector"))
KEYS = {"expect", "error", "rows", "comment", "payload", "encoding"}


def _payload(keys: dict[str, list[str]], payload: bytes) -> bytes:
    is_base64 = keys.get("encoding") == ["base64"]
    return base64.b64decode(payload) if is_base64 else payload


def _manifest_errors(payload: bytes) -> list[str]:
    try:
        _, faults = parse_manifest(payload)
    except ArchiveError as error:
        return [error.message]
    return [fault.message for fault in faults]


@pytest.mark.parametrize("path", VECTORS, ids=lambda path: path.stem)
def test_vector_is_judged_as_it_says(path: Path, tmp_path: Path) -> None:
    keys, data = parse_vector(path.read_bytes())
    bundle = tmp_path / "x.bundle"
    bundle.write_bytes(_payload(keys, data))

    if keys["payload"] == ["manifest"]:
        messages = _manifest_errors(bundle.read_bytes())
        outcome = "refused" if messages else "loads"
    else:
        found = verify_bundle(bundle)
        messages = [problem.message for problem in found.problems]
        partly = "damage" if messages else "loads"
        outcome = "refused" if found.is_refused else partly

    assert set(keys) <= KEYS
    assert sorted(messages) == sorted(keys.get("error", []))
    assert [outcome] == keys["expect"]


def test_vectors_are_what_their_maker_makes() -> None:
    made = {f"{vector.name}.vector": vector for vector in all_vectors()}

    stored = {path.name: parse_vector(path.read_bytes()) for path in VECTORS}

    assert set(made) == set(stored)
    for name, vector in made.items():
        # Bytes of deflate depend on the zlib at hand; what is said of them does not.
        assert parse_vector(vector.as_bytes())[0].keys() == stored[name][0].keys()
        assert parse_vector(vector.as_bytes())[0]["expect"] == stored[name][0]["expect"]


def test_every_vector_of_the_spec_has_a_comment() -> None:
    for path in VECTORS:
        assert len(parse_vector(path.read_bytes())[0]["comment"]) == 1
