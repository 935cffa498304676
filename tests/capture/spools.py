"""Spools for tests: records packed field by field, as the kernel would lay them out."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

from capture.layout import LAYOUTS, RING_HEADER_SIZE
from capture.spool import SpoolWriter

if TYPE_CHECKING:
    from pathlib import Path

HEADER: dict[str, Any] = {
    "capture_id": "c01d7ace",
    "version": 1,
    "created_by": {"name": "coldtrace-capture", "version": "0.1.0"},
    "host": {
        "boot_id": "5f2c8f7e-6d5b-4a0b-9a37-0d2f6c1b9e11",
        "machine_id": None,
        "host_name": "hosta",
        "architecture": "x86_64",
        "kernel_release": "6.18.0",
        "cpu_count": 2,
        "page_size_bytes": 4096,
        "ticks_per_second": 100,
    },
    "capture": {
        "start_ns": 1_000,
        "start_utc": "2026-11-30T20:00:00Z",
        "loader": "core",
        "loader_detail": "libbpf 1.1, uprobe_multi",
        "probe_set": "standard",
        "off_cpu_min_ns": 100_000,
    },
    "streams": ["collective", "gpu_call", "off_cpu"],
    "missing_columns": {},
    "syscalls": {"0": "read", "24": "sched_yield"},
}

CLOCK: dict[str, int] = {
    "monotonic_ns": 1_000,
    "monotonic_raw_ns": 1_001,
    "boottime_ns": 1_002,
    "realtime_ns": 1_796_068_800_000_000_000,
    "tai_ns": 1_796_068_837_000_000_000,
    "bracket_ns": 97,
    "adjtime_frequency_ppb": -1_500,
    "adjtime_tick": 10_000,
    "adjtime_status": 64,
    "adjtime_maxerror_us": 16_000_000,
    "adjtime_esterror_us": 0,
}


def record(stream: str, *flags: str, **values: int) -> bytes:
    """Return one ring record of a stream, header and all."""
    layout = LAYOUTS[stream]
    body = bytearray(layout.size)
    for field in layout.fields:
        struct.pack_into(
            f"<{field.code}", body, field.offset, values.pop(field.name, 0)
        )
    left = set(flags)
    for group in layout.flags:
        for bit, name in enumerate(group.names):
            body[group.offset] |= (name in left) << bit
            left.discard(name)
    assert not left, f"no such flag: {left}"
    assert not values, f"no such field: {values}"
    return struct.pack("<II", layout.size, 0).ljust(RING_HEADER_SIZE, b"\0") + body


def collective(start_ns: int, *flags: str, **values: int) -> bytes:
    """Return a collective of thread 70 that returned, unless it is said to be open."""
    known = {"duration_ns": 11, "pid": 7, "tid": 70, "operation": 1, "probe_id": 3}
    ended = () if "is_open" in flags else ("has_duration_ns",)
    return record(
        "collective", *ended, *flags, start_ns=start_ns, **{**known, **values}
    )


def off_cpu(start_ns: int, *flags: str, **values: int) -> bytes:
    """Return an absence of thread 70 that ended, unless it is said to be open."""
    known = {"duration_ns": 13, "pid": 7, "tid": 70, "off_state": 1}
    ended = () if {"is_open", "is_totals_only"} & set(flags) else ("has_duration_ns",)
    return record("off_cpu", *ended, *flags, start_ns=start_ns, **{**known, **values})


def probe(probe_id: int, stream: str, **values: object) -> dict[str, Any]:
    """Return a probe fact with every key."""
    row = {
        "fact": "probe",
        "probe_id": probe_id,
        "stream": stream,
        "operation": "all_reduce",
        "vendor": "nvidia",
        "layer": 0,
        "library_ref": 1,
        "symbol": "ncclAllReduce",
        "file_offset": 4_096,
        "has_return": True,
        "is_asked": True,
        "is_attached": True,
        "refused_reason": None,
        "hit_count": 0,
        "lost_count": 0,
        "lost_first_ns": None,
        "lost_last_ns": None,
        "unmatched_return_count": 0,
        "aliases": ["pncclAllReduce"],
    }
    return {**row, **values}


def lines(*rows: dict[str, Any]) -> bytes:
    """Return JSON lines."""
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def end(stop_ns: int = 9_000, **values: object) -> bytes:
    """Return the payload of a clean end."""
    return lines({"stop_reason": "signal", "stop_ns": stop_ns, **values})


def spool(folder: Path, *frames: tuple[str, bytes], **header: object) -> Path:
    """Return the folder of a new spool with these frames."""
    writer = SpoolWriter(folder, {**HEADER, **header})
    for kind, payload in frames:
        writer.append(kind, payload)
    writer.close()
    return folder
