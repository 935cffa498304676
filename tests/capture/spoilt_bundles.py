"""Small bundles for the vectors, and ways to spoil one byte by byte."""

from __future__ import annotations

import hashlib
import io
import json
import struct
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from capture.seal import seal
from tests.capture.spools import CLOCK, end, lines, off_cpu, probe, spool

if TYPE_CHECKING:
    from collections.abc import Callable

Members = dict[str, bytes]


def sound_bundle() -> bytes:
    """Return a bundle of one stream with three rows, one of them open."""
    host = {"fact": "process", "pid": 7, "start_ticks": 40, "process_name": "train"}
    process = {**host, "target_reason": "pid", "first_ns": 1_000}
    thread = {"fact": "thread", "pid": 7, "tid": 70, "start_ticks": 40}
    thread |= {"thread_name": "train", "first_ns": 1_000, "state_at_start": "R"}
    switch = {"operation": "off_cpu", "vendor": "kernel", "symbol": "sched_switch"}
    switch |= {"library_ref": None, "file_offset": None, "has_return": False}
    with tempfile.TemporaryDirectory() as name:
        folder = spool(
            Path(name) / "spool",
            ("clock", lines(CLOCK, {**CLOCK, "monotonic_ns": 9_000})),
            ("facts", lines(process, thread)),
            ("facts", lines(probe(1, "off_cpu", hit_count=3, aliases=[], **switch))),
            ("events/off_cpu", off_cpu(2_000, cpu=1) + off_cpu(3_000, cpu=1)),
            ("inflight/off_cpu", off_cpu(5_000, "is_open")),
            ("end", end()),
            streams=["off_cpu"],
        )
        return seal(folder, Path(name)).read_bytes()


def unpack(bundle: bytes) -> Members:
    """Return the members of a sound bundle, in order."""
    with zipfile.ZipFile(io.BytesIO(bundle)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def pack(members: Members, *, sums: bool = True) -> bytes:
    """Return a ZIP of the members, with right check sums unless told otherwise."""
    kept = dict(members)
    if sums:
        kept.pop("SHA256SUMS", None)
        text = "".join(
            f"{hashlib.sha256(data).hexdigest()}  {name}\n"
            for name, data in kept.items()
        )
        kept["SHA256SUMS"] = text.encode()
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name, data in kept.items():
            info = zipfile.ZipInfo(name)
            archive.writestr(info, data, zipfile.ZIP_DEFLATED, 4)
    return target.getvalue()


def without(members: Members, name: str) -> Members:
    return {key: data for key, data in members.items() if key != name}


def with_manifest(bundle: bytes, change: Callable[[dict[str, Any]], object]) -> bytes:
    members = unpack(bundle)
    manifest = json.loads(members["manifest.json"])
    change(manifest)
    return pack({**members, "manifest.json": json.dumps(manifest).encode()})


def local_offset(bundle: bytes, name: str) -> int:
    with zipfile.ZipFile(io.BytesIO(bundle)) as archive:
        return archive.getinfo(name).header_offset


def central_offset(bundle: bytes, name: str) -> int:
    place = bundle.index(b"PK\x01\x02")
    while bundle[place + 46 : place + 46 + len(name)] != name.encode():
        place = bundle.index(b"PK\x01\x02", place + 4)
    return place


def with_crc(bundle: bytes, name: str, crc: int) -> bytes:
    """Return the bundle with another CRC in both headers of a member."""
    changed = bytearray(bundle)
    for place in (local_offset(bundle, name) + 14, central_offset(bundle, name) + 16):
        changed[place : place + 4] = struct.pack("<I", crc)
    return bytes(changed)


def with_data(bundle: bytes, name: str, data: bytes) -> bytes:
    """Return the bundle with other first bytes in a member's compressed data."""
    changed = bytearray(bundle)
    place = local_offset(bundle, name) + 30 + len(name)
    changed[place : place + len(data)] = data
    return bytes(changed)


def insert(bundle: bytes, place: int, data: bytes) -> bytes:
    """Return the bundle with bytes put before a member and every offset mended."""
    changed = bytearray(bundle[:place] + data + bundle[place:])
    central = changed.index(b"PK\x01\x02")
    while (offset := central + 42) and changed[central : central + 4] == b"PK\x01\x02":
        (old,) = struct.unpack_from("<I", changed, offset)
        struct.pack_into("<I", changed, offset, old + len(data) * (old >= place))
        sizes = struct.unpack_from("<HHH", changed, central + 28)
        central += 46 + sum(sizes)
    (old,) = struct.unpack_from("<I", changed, central + 16)
    struct.pack_into("<I", changed, central + 16, old + len(data))
    return bytes(changed)
