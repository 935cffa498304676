"""Vectors that are a manifest alone, each with its faults."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

Case = tuple[bytes, tuple[str, ...]]
"""A manifest, and what a reader must say of it."""


REDACTION: dict[str, Any] = {
    "mode": "keyed",
    "rules": 1,
    "key_id": "0a1b2c3d",
    "counts": {"host": 1},
    "not_promised": ["times are as they were"],
}


def manifest_cases(sound_manifest: bytes) -> dict[str, Case]:
    """Return every manifest vector by name."""
    sound = json.loads(sound_manifest)
    column = "streams.off_cpu.columns[3]"

    def spoilt(change: Callable[[dict[str, Any]], object]) -> bytes:
        manifest = json.loads(json.dumps(sound))
        change(manifest)
        return json.dumps(manifest).encode() + b"\n"

    def stream_of(manifest: dict[str, Any]) -> dict[str, Any]:
        return manifest["streams"]["off_cpu"]

    def column_of(manifest: dict[str, Any]) -> dict[str, Any]:
        return stream_of(manifest)["columns"][3]

    def many(manifest: dict[str, Any]) -> None:
        del manifest["host"]["boot_id"]
        manifest["capture"]["stop_ns"] = "soon"
        stream_of(manifest)["lost_count"] = -1

    chunks = "'streams.off_cpu.chunk_rows' has the impossible value "
    return {
        "manifest_no_json": (b"{", ("manifest.json is not a JSON object",)),
        "manifest_array": (b"[]\n", ("manifest.json is not a JSON object",)),
        "manifest_nan": (
            spoilt(lambda manifest: manifest["host"].update(cpu_count=float("nan"))),
            ("manifest.json is not a JSON object",),
        ),
        "manifest_format": (
            spoilt(lambda manifest: manifest.update(format="sosreport")),
            ('manifest.json has format "sosreport", not "coldtrace-bundle"',),
        ),
        "manifest_version_zero": (
            spoilt(lambda manifest: manifest.update(version=0)),
            ("'version' has the impossible value 0",),
        ),
        "manifest_version_text": (
            spoilt(lambda manifest: manifest.update(version="1")),
            ("'version' is string, not integer",),
        ),
        "manifest_missing": (
            spoilt(lambda manifest: column_of(manifest).pop("dtype")),
            (f"missing required value in '{column}.dtype'",),
        ),
        "manifest_boolean_count": (
            spoilt(lambda manifest: manifest["host"].update(cpu_count=True)),
            ("'host.cpu_count' is boolean, not integer",),
        ),
        "manifest_dtype": (
            spoilt(lambda manifest: column_of(manifest).update(dtype="|O")),
            (f"'{column}.dtype' has the impossible value \"|O\"",),
        ),
        "manifest_valid_by": (
            spoilt(
                lambda manifest: column_of(manifest).update(
                    nullable=True, valid_by="pid"
                )
            ),
            (f"'{column}.valid_by' has the impossible value \"pid\"",),
        ),
        "manifest_chunk_rows": (
            spoilt(
                lambda manifest: manifest["streams"]["off_cpu"].update(chunk_rows=[2])
            ),
            (f"{chunks}[2]",),
        ),
        "manifest_redaction": (
            spoilt(
                lambda manifest: manifest.update(
                    redaction={**REDACTION, "rules": "1", "counts": {"host": "x"}}
                )
            ),
            (
                "'redaction.rules' is string, not integer",
                "'redaction.counts.host' is string, not integer",
            ),
        ),
        "manifest_redaction_array": (
            spoilt(lambda manifest: manifest.update(redaction=[])),
            ("'redaction' is array, not object",),
        ),
        "manifest_redaction_empty": (
            spoilt(lambda manifest: manifest.update(redaction={})),
            tuple(
                f"missing required value in 'redaction.{name}'" for name in REDACTION
            ),
        ),
        "manifest_many": (
            spoilt(many),
            (
                "missing required value in 'host.boot_id'",
                "'capture.stop_ns' is string, not integer",
                "'streams.off_cpu.lost_count' has the impossible value -1",
            ),
        ),
    }
