"""Verify a bundle on the recorder's side: every check and message of BUNDLE.md.

The workbench has a reader of its own, written against the same page; the vectors in
``samples/vectors`` hold both to it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any, NamedTuple, cast

from capture.archive import SUMS_NAME
from capture.archive_reader import (
    ArchiveError,
    Member,
    MemberError,
    read_blocks,
    read_member,
    read_members,
    walk_members,
)
from capture.fact_columns import CLOCK, FACTS
from capture.manifest import FORMAT, VERSION
from capture.manifest_check import check_fact, check_manifest, type_name
from capture.npy import parse_npy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_SUM_LINE = re.compile(r"([0-9a-f]{64})  (\S+)")
_MANIFEST = "manifest.json"
_TOLD = ("probe", "library", "cost", "ring", "program", "budget_step")


class Problem(NamedTuple):
    """One thing that is not as BUNDLE.md says."""

    kind: str
    message: str


@dataclass
class Verified:
    """What a bundle holds and what is wrong with it."""

    path: Path
    manifest: dict[str, Any] | None = None
    """The manifest, where the bundle is not refused as a whole."""
    members: list[Member] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    content_sha256: str | None = None
    facts: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Rows of the facts that an inventory tells of, as far as they can be read."""

    @property
    def is_refused(self) -> bool:
        """Tell whether nothing of the bundle may be used."""
        return self.manifest is None

    def add(self, kind: str, message: str) -> None:
        """Note a problem."""
        self.problems.append(Problem(kind, message))


def verify_bundle(path: Path) -> Verified:
    """Return everything that is wrong with a bundle, whatever it holds."""
    return _read(path, is_whole=True)


def read_inventory(path: Path) -> Verified:
    """Return members and manifest of a bundle, and what it cost; no column is read."""
    return _read(path, is_whole=False)


def _read(path: Path, *, is_whole: bool) -> Verified:
    found = Verified(path)
    try:
        with path.open("rb") as file:
            _verify(found, file, is_whole=is_whole)
    except OSError as error:
        found.manifest = None
        found.add("unreadable", f"cannot read: {error.strerror}")
    except ArchiveError as error:
        found.manifest = None
        found.add(error.kind, error.message)
    return found


def _verify(found: Verified, file: IO[bytes], *, is_whole: bool) -> None:
    length = os.fstat(file.fileno()).st_size
    try:
        found.members = read_members(file, length)
    except ArchiveError as error:
        if error.kind != "truncated":
            raise
        _walk(found, file, length)
    by_name = {member.name: member for member in found.members}
    manifest, faults = parse_manifest(_manifest_data(file, by_name))
    if faults:
        found.problems += faults
        return
    found.manifest = manifest
    sums = _read_sums(found, file, by_name)
    if is_whole:
        contents = _check_members(found, file, sums)
        _check_columns(found, manifest, contents)
        _check_facts(found, manifest, contents)
    else:
        found.facts = {kind: _rows(file, by_name, kind) for kind in _TOLD}


def _walk(found: Verified, file: IO[bytes], length: int) -> None:
    """Find the members of a cut file by their local headers."""
    found.members, torn = walk_members(file, length)
    names = [member.name for member in found.members]
    if _MANIFEST not in names:
        if names:  # some other ZIP that was cut
            return
        raise ArchiveError("truncated", "truncated: manifest.json is not whole")
    found.add(
        "truncated",
        f"truncated: no central directory, {len(names)} whole members found by their "
        "local headers",
    )
    if torn:
        found.add("truncated", f"truncated: {torn} is not whole")


def _manifest_data(file: IO[bytes], by_name: dict[str, Member]) -> bytes:
    if _MANIFEST not in by_name:
        message = "a ZIP file without manifest.json, not a bundle"
        raise ArchiveError("foreign_zip", message)
    try:
        return read_member(file, by_name[_MANIFEST])
    except MemberError as error:
        raise ArchiveError("bad_manifest", str(error)) from error


def parse_manifest(data: bytes) -> tuple[dict[str, Any], list[Problem]]:
    """Return a manifest and its faults; with one fault it must not be used.

    Raises
    ------
    ArchiveError
        If it is no manifest of a version that can be read.
    """
    try:
        parsed: object = json.loads(data, parse_constant=_refuse)
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, dict):
        raise ArchiveError("bad_manifest", "manifest.json is not a JSON object")
    manifest = cast("dict[str, Any]", parsed)
    if "format" in manifest and manifest["format"] != FORMAT:
        message = f"manifest.json has format {json.dumps(manifest['format'])}, "
        raise ArchiveError("foreign_zip", message + f"not {json.dumps(FORMAT)}")
    version: object = manifest.get("version")
    if type_name(version) == "integer" and cast("int", version) > VERSION:
        message = f"format version {version} is newer than version {VERSION}, "
        raise ArchiveError(
            "unsupported_version", message + "the newest this reader opens"
        )
    faults = check_manifest(manifest)
    return manifest, [Problem("bad_manifest", fault) for fault in faults]


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def _read_sums(
    found: Verified, file: IO[bytes], by_name: dict[str, Member]
) -> dict[str, str] | None:
    """Return the stored sum of each member, or nothing if there are no sums."""
    if SUMS_NAME not in by_name:
        found.add("bad_checksum", f"{SUMS_NAME} is missing")
        return None
    try:
        data = read_member(file, by_name[SUMS_NAME])
    except MemberError as error:
        found.add("bad_checksum", str(error))
        return None
    found.content_sha256 = hashlib.sha256(data).hexdigest()
    sums: dict[str, str] = {}
    for number, line in enumerate(_lines(data), 1):
        match = _SUM_LINE.fullmatch(line.decode("utf-8", "replace"))
        if match is None:
            message = f"{SUMS_NAME} line {number} is not a checksum and a name"
            found.add("bad_checksum", message)
            continue
        sums[match[2]] = match[1]
        if match[2] not in by_name:
            message = f"{match[2]} is listed in {SUMS_NAME} but missing"
            found.add("bad_checksum", message)
    return sums


def _check_members(
    found: Verified, file: IO[bytes], sums: dict[str, str] | None
) -> dict[str, bytes | tuple[str, int] | None]:
    """Return, of every sound member, its text or its dtype and rows."""
    sound: dict[str, bytes | tuple[str, int] | None] = {}
    for member in found.members:
        if member.name == SUMS_NAME:
            continue
        digest = hashlib.sha256()
        parts: list[bytes] = []
        try:
            for block in read_blocks(file, member):
                digest.update(block)
                # Of a column the header is enough, however much it claims to hold.
                if not (parts and _is_column(member.name)):
                    parts.append(block)
        except MemberError as error:
            found.add("bad_checksum", str(error))
            continue
        fault = _sum_fault(member.name, digest.hexdigest(), sums)
        if fault:
            found.add("bad_checksum", fault)
            continue
        data = b"".join(parts)
        sound[member.name] = (
            parse_npy(data, member.header.size) if _is_column(member.name) else data
        )
    return sound


def _is_column(name: str) -> bool:
    return name.endswith(".npy")


def _sum_fault(name: str, actual: str, sums: dict[str, str] | None) -> str:
    if sums is None:
        return ""
    if name not in sums:
        return f"{name} is not listed in {SUMS_NAME}"
    if sums[name] != actual:
        return f"SHA-256 mismatch in {name}: {sums[name]} stored, {actual} found"
    return ""


def _check_columns(
    found: Verified, manifest: dict[str, Any], contents: dict[str, Any]
) -> None:
    present = {member.name for member in found.members}
    for name, dtype, rows in expected_columns(manifest):
        if name not in present:
            found.add("missing_column", f"{name} is missing")
        elif name in contents:
            fault = _column_fault(name, contents[name], dtype, rows)
            if fault:
                found.add("bad_column", fault)


def expected_columns(manifest: dict[str, Any]) -> Iterator[tuple[str, str, int]]:
    """Yield member name, dtype and rows of every column that a manifest names."""
    for stream, entry in manifest["streams"].items():
        for number, rows in enumerate(entry["chunk_rows"]):
            for column in entry["columns"]:
                member = f"events/{stream}/{number:06}/{column['name']}.npy"
                yield member, column["dtype"], rows


def _column_fault(
    name: str, content: tuple[str, int] | None, dtype: str, rows: int
) -> str:
    if content is None:
        return f"{name} is not a column of NumPy format 1.0"
    if content[0] != dtype:
        return f"{name} has dtype {content[0]}, the manifest says {dtype}"
    if content[1] != rows:
        return f"{name} has {content[1]} rows, the manifest says {rows}"
    return ""


def _check_facts(
    found: Verified, manifest: dict[str, Any], contents: dict[str, Any]
) -> None:
    present = {member.name for member in found.members}
    tables = [("clock.jsonl", CLOCK, None)]
    tables += [
        (f"facts/{kind}.jsonl", FACTS.get(kind, ()), count)
        for kind, count in manifest["facts"].items()
    ]
    for name, keys, count in tables:
        lines = _lines(contents.get(name, b""))
        if count is not None and len(lines) != count and name in contents:
            message = f"{name} has {len(lines)} rows, the manifest says {count}"
            found.add("bad_fact", message)
        if name not in present:
            found.add("bad_fact", f"{name} is missing")
        for number, line in enumerate(lines, 1):
            for fault in _line_faults(line, keys):
                found.add("bad_fact", f"{name} line {number}{fault}")


def _lines(data: bytes) -> list[bytes]:
    """Return the lines of a member; a line feed alone ends one."""
    lines = data.split(b"\n")
    return lines if lines[-1] else lines[:-1]


def _rows(
    file: IO[bytes], by_name: dict[str, Member], kind: str
) -> list[dict[str, Any]]:
    """Return the sound rows of a fact."""
    member = by_name.get(f"facts/{kind}.jsonl")
    if member is None:
        return []
    try:
        lines = _lines(read_member(file, member))
    except MemberError:
        return []
    return [json.loads(line) for line in lines if not _line_faults(line, FACTS[kind])]


def _line_faults(line: bytes, keys: tuple[Any, ...]) -> list[str]:
    try:
        row: object = json.loads(line, parse_constant=_refuse)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict):
        return [" is not a JSON object"]
    return [f": {fault}" for fault in check_fact(cast("dict[str, Any]", row), keys)]
