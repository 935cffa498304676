"""Make the vectors of ``samples/vectors``: ``python -m tests.capture.vectors``.

Each is a small bundle sealed from a spool and then spoilt in one way, or a manifest
with one fault.  What it expects is written down by hand from the error table of
BUNDLE.md, never taken from a reader.
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

from capture.npy import npy_header
from tests.capture.manifest_vectors import manifest_cases
from tests.capture.spoilt_bundles import (
    insert,
    local_offset,
    pack,
    sound_bundle,
    unpack,
    with_crc,
    with_data,
    with_manifest,
    without,
)
from tests.capture.spools import lines

FOLDER = Path(__file__).resolve().parents[2] / "samples" / "vectors"
START = "events/off_cpu/000000/start_ns.npy"
CPU = "events/off_cpu/000000/cpu.npy"


@dataclass(frozen=True)
class Vector:
    """One vector file: what a reader must make of a payload."""

    name: str
    expect: str
    comment: str
    payload: bytes
    errors: tuple[str, ...] = ()
    rows: int | None = None
    kind: str = "bundle"

    def as_bytes(self) -> bytes:
        """Return the bytes of the file."""
        keys = [("expect", self.expect)]
        keys += [("error", error) for error in self.errors]
        keys += [] if self.rows is None else [("rows", f"off_cpu {self.rows}")]
        keys += [("comment", self.comment), ("payload", self.kind)]
        head = "".join(f"{key}: {value}\n" for key, value in keys)
        return head.encode() + b"\n" + self.payload


def parse_vector(data: bytes) -> tuple[dict[str, list[str]], bytes]:
    """Return the keys of a vector file, each with its values, and the payload."""
    head, _, payload = data.partition(b"\n\n")
    keys: dict[str, list[str]] = {}
    for line in head.decode().splitlines():
        key, _, value = line.partition(": ")
        keys.setdefault(key, []).append(value)
    return keys, payload


def all_vectors() -> list[Vector]:
    """Return every vector."""
    bundle = sound_bundle()
    return [
        Vector("sound", "loads", "two rows and an open one", bundle, rows=3),
        *_no_bundles(bundle),
        *_cut(bundle),
        *_directory(bundle),
        *_check_sums(bundle),
        *_columns(bundle),
        *_facts(bundle),
        *_manifests(bundle),
    ]


def _no_bundles(bundle: bytes) -> list[Vector]:
    foreign = pack({"readme.txt": b"hello\n"}, sums=False)
    return [
        _refused("not_a_zip", "some text", b"no bundle at all\n", "not a ZIP file"),
        _refused("empty", "no byte at all", b"", "not a ZIP file"),
        _refused(
            "foreign_zip",
            "somebody's ZIP",
            foreign,
            "a ZIP file without manifest.json, not a bundle",
        ),
        _refused(
            "newer_version",
            "a bundle of the future",
            with_manifest(bundle, lambda manifest: manifest.update(version=2)),
            "format version 2 is newer than version 1, the newest this reader opens",
        ),
        Vector(
            "unknown_member",
            "loads",
            "a member that this version does not know, covered by SHA256SUMS",
            pack({**unpack(bundle), "x_someone/note.txt": b"hello\n"}),
            rows=3,
        ),
        Vector(
            "unknown_manifest_field",
            "loads",
            "a field that this version does not know",
            with_manifest(bundle, lambda manifest: manifest.update(x_someone_n=1)),
            rows=3,
        ),
    ]


def _cut(bundle: bytes) -> list[Vector]:
    directory = bundle.index(b"PK\x01\x02")
    names = list(unpack(bundle))
    inside = local_offset(bundle, CPU) + 60
    whole = names.index(CPU)
    gone = [name for name in names[whole:] if name.startswith("events/")]
    no_directory = "truncated: no central directory, {} whole members found by their "
    no_directory += "local headers"
    return [
        Vector(
            "cut_directory",
            "damage",
            "all members are there, the directory is not",
            bundle[:directory],
            errors=(no_directory.format(len(names)),),
            rows=3,
        ),
        Vector(
            "cut_chunk",
            "damage",
            "cut inside a column: its chunk has not all of its columns",
            bundle[:inside],
            errors=(
                no_directory.format(whole),
                f"truncated: {CPU} is not whole",
                "SHA256SUMS is missing",
                *(f"{name} is missing" for name in gone),
            ),
            rows=0,
        ),
        _refused(
            "cut_manifest",
            "cut inside the manifest",
            bundle[:100],
            "truncated: manifest.json is not whole",
        ),
    ]


def _directory(bundle: bytes) -> list[Vector]:
    directory = bundle.index(b"PK\x01\x02")
    clock = local_offset(bundle, "clock.jsonl")
    central_crc = bytearray(bundle)
    central_crc[directory + 16 : directory + 20] = struct.pack("<I", 0xC01D7ACE)
    local_crc = struct.unpack_from("<I", bundle, 14)[0]
    central_name = bytearray(bundle)
    central_name[directory + 46 : directory + 46 + 8] = b"MANIFEST"
    flags = bytearray(bundle)
    flags[6] = flags[directory + 8] = 1
    disagrees = "directory disagrees with the local header of "
    return [
        _refused(
            "directory_crc",
            "the directory has another CRC than the local header",
            bytes(central_crc),
            f"{disagrees}manifest.json: crc c01d7ace against {local_crc:08x}",
        ),
        _refused(
            "directory_name",
            "the directory shows another name than the local header",
            bytes(central_name),
            f'{disagrees}MANIFEST.json: name "MANIFEST.json" against "manifest.json"',
        ),
        _refused(
            "hidden_bytes",
            "bytes between two members that no directory shows",
            insert(bundle, clock, b"hidden!"),
            "7 bytes before clock.jsonl belong to no member",
        ),
        _refused(
            "bytes_after_end",
            "bytes after the end record",
            bundle + b"more",
            "4 bytes after the end of the directory",
        ),
        _refused(
            "encrypted",
            "a member that says it is encrypted",
            bytes(flags),
            "manifest.json has flags 0x0001, only 0x0000 and 0x0800 are allowed",
        ),
        _refused(
            "path_outside",
            "a member name that would leave the folder",
            pack({**unpack(bundle), "../escape": b""}),
            'member name "../escape" is not allowed',
        ),
    ]


def _check_sums(bundle: bytes) -> list[Vector]:
    members = unpack(bundle)
    stored = hashlib.sha256(members[START]).hexdigest()
    other = members[START][:-1] + b"\x01"
    found = hashlib.sha256(other).hexdigest()
    crc = zlib.crc32(members[START])
    listed = members["SHA256SUMS"].replace(b"\n", b"\nnot a line\n", 1)
    return [
        Vector(
            "crc",
            "damage",
            "both headers hold a CRC that the bytes do not have: the chunk is lost",
            with_crc(bundle, START, 0xC01D7ACE),
            errors=(f"CRC mismatch in {START}: c01d7ace stored, {crc:08x} found",),
            rows=0,
        ),
        Vector(
            "sha256",
            "damage",
            "a column was changed and the ZIP made anew, but not SHA256SUMS",
            pack({**members, START: other}, sums=False),
            errors=(f"SHA-256 mismatch in {START}: {stored} stored, {found} found",),
            rows=0,
        ),
        Vector(
            "no_sums",
            "damage",
            "no SHA256SUMS",
            pack(without(members, "SHA256SUMS"), sums=False),
            errors=("SHA256SUMS is missing",),
            rows=3,
        ),
        Vector(
            "unlisted",
            "damage",
            "a member that SHA256SUMS does not cover",
            pack({**members, "x_note": b""}, sums=False),
            errors=("x_note is not listed in SHA256SUMS",),
            rows=3,
        ),
        Vector(
            "bad_sum_line",
            "damage",
            "a line of SHA256SUMS is no check sum",
            pack({**members, "SHA256SUMS": listed}, sums=False),
            errors=("SHA256SUMS line 2 is not a checksum and a name",),
            rows=3,
        ),
        Vector(
            "broken_deflate",
            "damage",
            "the compressed bytes of a column are no deflate stream",
            with_data(bundle, START, b"\xff"),
            errors=(f"cannot decompress {START}",),
            rows=0,
        ),
    ]


def _columns(bundle: bytes) -> list[Vector]:
    members = unpack(bundle)
    pickle = b"\x93NUMPY\x02\x00" + members[START][8:]
    short = npy_header("<i8", 2) + members[START][-24:-8]
    narrow = npy_header("<i4", 3) + bytes(12)
    return [
        _lost("missing_column", pack(without(members, CPU)), f"{CPU} is missing"),
        _lost(
            "column_format",
            pack({**members, START: pickle}),
            f"{START} is not a column of NumPy format 1.0",
        ),
        _lost(
            "column_rows",
            pack({**members, START: short}),
            f"{START} has 2 rows, the manifest says 3",
        ),
        _lost(
            "column_dtype",
            pack({**members, START: narrow}),
            f"{START} has dtype <i4, the manifest says <i8",
        ),
    ]


def _facts(bundle: bytes) -> list[Vector]:
    members = unpack(bundle)
    name = "facts/thread.jsonl"
    thread = json.loads(members[name])
    faults = {
        "fact_no_json": (b"{'pid': 7}\n", " is not a JSON object"),
        "fact_missing_key": (
            lines({key: thread[key] for key in thread if key != "tid"}),
            ": missing required value in 'tid'",
        ),
        "fact_wrong_type": (
            lines({**thread, "thread_name": 7}),
            ": 'thread_name' is integer, not string",
        ),
    }
    vectors = [
        Vector(
            vector,
            "damage",
            "a line of a fact file has a fault and is left out",
            pack({**members, name: data}),
            errors=(f"{name} line 1{message}",),
            rows=3,
        )
        for vector, (data, message) in faults.items()
    ]
    count = Vector(
        "fact_count",
        "damage",
        "a fact more than the manifest says",
        pack({**members, name: members[name] * 2}),
        errors=(f"{name} has 2 rows, the manifest says 1",),
        rows=3,
    )
    return [*vectors, count]


def _manifests(bundle: bytes) -> list[Vector]:
    cases = manifest_cases(unpack(bundle)["manifest.json"])
    return [
        Vector(name, "refused", "manifest alone", data, errors=errors, kind="manifest")
        for name, (data, errors) in cases.items()
    ]


def _refused(name: str, comment: str, payload: bytes, error: str) -> Vector:
    return Vector(name, "refused", comment, payload, errors=(error,))


def _lost(name: str, payload: bytes, error: str) -> Vector:
    comment = "a column is not as the manifest says: its chunk is left out"
    return Vector(name, "damage", comment, payload, errors=(error,), rows=0)


def main() -> None:
    """Write every vector."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for old in FOLDER.glob("*.vector"):
        old.unlink()
    for vector in all_vectors():
        (FOLDER / f"{vector.name}.vector").write_bytes(vector.as_bytes())


if __name__ == "__main__":
    main()
