"""The claim: the workbench reads the vectors of the format exactly as they demand."""

from __future__ import annotations

import base64
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from workbench.bundle.manifest import parse_manifest
from workbench.bundle.verify import refusals, verify_bundle
from workbench.errors import BundleError
from workbench.store.case import Case
from workbench.store.load import load_bundles

VECTORS = sorted((Path(__file__).parents[2] / "samples" / "vectors").glob("*.vector"))
KEYS = {"expect", "error", "rows", "comment", "payload", "encoding"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Vector:
    """One file: what is to be read and what has to come of it."""

    expect: str
    errors: tuple[str, ...]
    rows: dict[str, int]
    payload: str
    data: bytes


def parse(path: Path) -> Vector:
    head, _, data = path.read_bytes().partition(b"\n\n")
    lines = [
        (key, value)
        for key, _, value in (
            line.partition(": ") for line in head.decode().split("\n")
        )
    ]
    assert {key for key, _ in lines} <= KEYS
    values = dict(lines)
    rows = [text.split() for key, text in lines if key == "rows"]
    is_base64 = values.get("encoding") == "base64"
    return Vector(
        expect=values["expect"],
        errors=tuple(text for key, text in lines if key == "error"),
        rows={stream: int(count) for stream, count in rows},
        payload=values.get("payload", "bundle"),
        data=base64.b64decode(data) if is_base64 else data,
    )


def test_there_are_vectors() -> None:
    assert len(VECTORS) >= 20


@pytest.mark.parametrize("path", VECTORS, ids=[path.stem for path in VECTORS])
def test_vector(path: Path, tmp_path: Path) -> None:
    vector = parse(path)

    found, is_refused = read(vector, tmp_path / "x.bundle")

    assert Counter(found) == Counter(vector.errors)
    state = "refused" if is_refused else "damage" if found else "loads"
    assert state == vector.expect


def read(vector: Vector, path: Path) -> tuple[list[str], bool]:
    """Return the messages that a vector gives and whether it was refused."""
    if vector.payload == "manifest":
        try:
            parse_manifest(vector.data)
        except (BundleError, ExceptionGroup) as error:
            return [each.message for each in refusals(error)], True
        return [], False
    path.write_bytes(vector.data)
    checked = verify_bundle(path)
    return [each.message for each in checked.damage], checked.is_refused


@pytest.mark.parametrize(
    "path",
    [path for path in VECTORS if b"payload: manifest" not in path.read_bytes()],
    ids=lambda path: path.stem,
)
def test_vector_loads_the_rows_it_demands(path: Path, tmp_path: Path) -> None:
    vector = parse(path)
    bundle = tmp_path / "x.bundle"
    bundle.write_bytes(vector.data)

    with Case.create(None) as made:
        report = load_bundles(made, [bundle], build=False)
        rows = {
            stream: made.frame(f"select count(*) from raw.{stream}").item()
            for stream in vector.rows
        }

    assert rows == vector.rows
    assert report.is_any_read == (vector.expect != "refused")
    said = {problem.message for problem in report.problems if problem.is_damage}
    assert said == set(vector.errors)
