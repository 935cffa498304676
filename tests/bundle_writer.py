"""A second writer of bundles, for tests only.

It follows ``capture/BUNDLE.md`` and shares no code with the recorder: the columns,
their types and companions are read from the tables of that page, so a test of the
reader is a test against the specification.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import zipfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

SPECIFICATION = Path(__file__).parents[1] / "capture" / "BUNDLE.md"
MAX_CHUNK_ROWS = 262_144
_ROW = re.compile(r"\| `(\w+)` \| `(\S+)` \| (\S+) \| (\S+) \| (.*) \|")


@dataclass(frozen=True, kw_only=True, slots=True)
class SpecColumn:
    """One line of a column table of the specification."""

    name: str
    dtype: str
    unit: str | None
    valid_by: str | None
    meaning: str

    def as_manifest(self) -> dict[str, Any]:
        """Return the column as an object of the manifest."""
        entry: dict[str, Any] = {
            "name": self.name,
            "dtype": self.dtype,
            "unit": self.unit,
            "nullable": self.valid_by is not None,
            "meaning": self.meaning,
        }
        return entry | ({"valid_by": self.valid_by} if self.valid_by else {})


@cache
def spec_columns(stream: str) -> tuple[SpecColumn, ...]:
    """Return the columns that the specification gives a stream."""
    text = SPECIFICATION.read_text(encoding="utf-8")
    table = text.split(f"<!-- columns {stream} -->")[1].split("<!-- end -->")[0]
    return tuple(
        SpecColumn(
            name=name,
            dtype=dtype,
            unit=None if unit == "-" else unit,
            valid_by=None if where == "always" else where.strip("`"),
            meaning=meaning,
        )
        for name, dtype, unit, where, meaning in _ROW.findall(table)
    )


def full_columns(
    stream: str, given: Mapping[str, NDArray[Any]], count: int
) -> dict[str, NDArray[Any]]:
    """Return every column of a stream; what is not given is 0, or null where it can."""
    columns: dict[str, NDArray[Any]] = {}
    for column in spec_columns(stream):
        if column.name in given:
            array = np.asarray(given[column.name]).astype(column.dtype)
        elif column.name.startswith("has_"):
            covered = [
                c.name for c in spec_columns(stream) if c.valid_by == column.name
            ]
            is_given = any(name in given for name in covered)
            array = np.full(count, is_given, column.dtype)
        else:
            array = np.zeros(count, column.dtype)
        columns[column.name] = array
    return columns


def npy(array: NDArray[Any]) -> bytes:
    """Return an array as a column file."""
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, version=(1, 0), allow_pickle=False)
    return buffer.getvalue()


def json_lines(rows: Iterable[Mapping[str, Any]]) -> bytes:
    """Return rows as a JSON-lines member."""
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def chunk_members(
    stream: str, columns: Mapping[str, NDArray[Any]], chunk_rows: int
) -> tuple[dict[str, bytes], list[int]]:
    """Return the members of a stream and the number of rows in each of its chunks."""
    count = len(next(iter(columns.values())))
    members: dict[str, bytes] = {}
    sizes: list[int] = []
    for index, start in enumerate(range(0, count, chunk_rows)):
        part = {
            name: array[start : start + chunk_rows] for name, array in columns.items()
        }
        sizes.append(len(part["start_ns"]))
        for name, array in part.items():
            members[f"events/{stream}/{index:06d}/{name}.npy"] = npy(array)
    return members, sizes


def with_sums(members: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return members with the ``SHA256SUMS`` that fits them, as the last."""
    kept = {name: data for name, data in members.items() if name != "SHA256SUMS"}
    lines = [
        f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in kept.items()
    ]
    return kept | {"SHA256SUMS": "".join(lines).encode()}


def write_zip(path: Path, members: Mapping[str, bytes]) -> Path:
    """Write members as they are, in their order, and return the path."""
    with zipfile.ZipFile(path, "w") as file:
        for name, data in members.items():
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.external_attr = 0o100600 << 16
            file.writestr(info, data, zipfile.ZIP_DEFLATED, 1)
    return path


def read_zip(path: Path) -> dict[str, bytes]:
    """Return the members of a sound bundle, to change one and write it again."""
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}
