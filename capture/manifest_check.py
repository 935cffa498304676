"""Check a manifest and facts against BUNDLE.md; every fault is told, not the first."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, cast

from capture.chunks import CHUNK_ROWS
from capture.npy import DTYPE_SIZES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from capture.fact_columns import FactKey

Schema = dict[str, str]
"""Key to type name, with ``?`` at the end where it may be null."""

_TOP: Schema = {
    "format": "string",
    "version": "integer",
    "capture_id": "string",
    "created_by": "object",
    "host": "object",
    "capture": "object",
    "streams": "object",
    "operations": "object",
    "off_states": "array",
    "syscalls": "object",
    "facts": "object",
    "planted": "object?",
}
_CREATED_BY: Schema = {"name": "string", "version": "string"}
_HOST: Schema = {
    "boot_id": "string",
    "machine_id": "string?",
    "host_name": "string",
    "architecture": "string",
    "kernel_release": "string",
    "cpu_count": "integer",
    "page_size_bytes": "integer",
    "ticks_per_second": "integer",
}
_CAPTURE: Schema = {
    "start_ns": "integer",
    "stop_ns": "integer",
    "start_utc": "string",
    "loader": "string",
    "loader_detail": "string",
    "probe_set": "string",
    "off_cpu_min_ns": "integer",
    "stop_reason": "string",
    "is_recovered": "boolean",
    "torn_bytes": "integer",
    "return_probe_symbols": "array",
    "job_ids": "array",
}
_STREAM: Schema = {
    "row_count": "integer",
    "chunk_rows": "array",
    "columns": "array",
    "missing_columns": "array",
    "kind": "string",
    "asked_probe_count": "integer",
    "attached_probe_count": "integer",
    "hit_count": "integer",
    "lost_count": "integer",
    "lost_first_ns": "integer?",
    "lost_last_ns": "integer?",
    "from_ns": "integer?",
    "to_ns": "integer?",
    "open_count": "integer",
}
_COLUMN: Schema = {
    "name": "string",
    "dtype": "string",
    "unit": "string?",
    "nullable": "boolean",
    "meaning": "string",
}
_REDACTION: Schema = {
    "mode": "string",
    "rules": "integer",
    "key_id": "string",
    "counts": "object",
    "not_promised": "array",
}
_MISSING: Schema = {"name": "string", "reason": "string"}
_NEVER_NEGATIVE = re.compile(r"(_count|_bytes|_ns)$")
_CAPTURE_ID = re.compile(r"[0-9a-f]{8}")


def type_name(value: object) -> str:
    """Return what JSON calls the type of a value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    names = ((int, "integer"), (float, "number"), (str, "string"), (list, "array"))
    return next((name for kind, name in names if isinstance(value, kind)), "object")


def check_manifest(manifest: dict[str, Any]) -> list[str]:
    """Return the message of every fault of a manifest."""
    return list(_faults(manifest))


def check_fact(row: dict[str, Any], keys: tuple[FactKey, ...]) -> list[str]:
    """Return the message of every fault of a fact."""
    schema = {
        key.name: key.type_name + "?" * key.nullable
        for key in keys
        if not key.optional or key.name in row
    }
    return list(_keys(row, schema, ""))


def _faults(manifest: dict[str, Any]) -> Iterator[str]:
    yield from _keys(manifest, _TOP, "")
    version = manifest.get("version")
    if type_name(version) == "integer" and cast("int", version) < 1:
        yield _impossible("version", version)
    capture_id = manifest.get("capture_id")
    if isinstance(capture_id, str) and not _CAPTURE_ID.fullmatch(capture_id):
        yield _impossible("capture_id", capture_id)
    for name, schema in (
        ("created_by", _CREATED_BY),
        ("host", _HOST),
        ("capture", _CAPTURE),
    ):
        if isinstance(manifest.get(name), dict):
            yield from _keys(manifest[name], schema, f"{name}.")
    yield from _elements(manifest, "off_states", "string", "")
    for name in ("return_probe_symbols", "job_ids"):
        yield from _elements(_object(manifest, "capture"), name, "string", "capture.")
    yield from _absent_stream_faults(_object(manifest, "capture"))
    yield from _redaction_faults(manifest)
    for name, schema_type in (("operations", "string"), ("syscalls", "string")):
        for key, value in _object(manifest, name).items():
            yield from _typed(value, schema_type, f"{name}.{key}")
    for key, value in _object(manifest, "facts").items():
        yield from _typed(value, "integer", f"facts.{key}")
    for name, stream in _object(manifest, "streams").items():
        yield from _stream_faults(stream, f"streams.{name}")


def _absent_stream_faults(capture: dict[str, Any]) -> Iterator[str]:
    """Yield the faults of a key that recorders did not always write."""
    if "absent_streams" in capture:
        yield from _keys(capture, {"absent_streams": "array"}, "capture.")
        yield from _entries(capture, "absent_streams", _MISSING, "capture.")


def _redaction_faults(manifest: dict[str, Any]) -> Iterator[str]:
    """Yield the faults of an object that only bundles with pseudonyms have."""
    if "redaction" not in manifest:
        return
    yield from _keys(manifest, {"redaction": "object"}, "")
    if isinstance(manifest["redaction"], dict):
        redaction = _object(manifest, "redaction")
        yield from _keys(redaction, _REDACTION, "redaction.")
        for name, count in _object(redaction, "counts").items():
            yield from _typed(count, "integer", f"redaction.counts.{name}")
        yield from _elements(redaction, "not_promised", "string", "redaction.")


def _stream_faults(stream: object, path: str) -> Iterator[str]:
    if not isinstance(stream, dict):
        yield f"'{path}' is {type_name(stream)}, not object"
        return
    known = cast("dict[str, Any]", stream)
    yield from _keys(known, _STREAM, f"{path}.")
    yield from _elements(known, "chunk_rows", "integer", f"{path}.")
    for name, schema in (("columns", _COLUMN), ("missing_columns", _MISSING)):
        yield from _entries(known, name, schema, f"{path}.")
    yield from _column_faults(known, path)
    rows = [row for row in _array(known, "chunk_rows") if type_name(row) == "integer"]
    if type_name(known.get("row_count")) == "integer" and (
        sum(rows) != known["row_count"]
        or any(not 0 < row <= CHUNK_ROWS for row in rows)
    ):
        yield _impossible(f"{path}.chunk_rows", known.get("chunk_rows"))


def _column_faults(stream: dict[str, Any], path: str) -> Iterator[str]:
    columns = [
        cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}
        for entry in _array(stream, "columns")
    ]
    flags = [entry.get("name") for entry in columns if entry.get("dtype") == "|b1"]
    seen: list[object] = []  # a list: hostile names need not be hashable
    for index, entry in enumerate(columns):
        place = f"{path}.columns[{index}]"
        name, dtype = entry.get("name"), entry.get("dtype")
        if name is not None and name in seen:
            yield _impossible(f"{place}.name", name)
        seen.append(name)
        if isinstance(dtype, str) and dtype not in DTYPE_SIZES:
            yield _impossible(f"{place}.dtype", dtype)
        if entry.get("nullable") is True:
            if "valid_by" not in entry:
                yield f"missing required value in '{place}.valid_by'"
            elif entry["valid_by"] not in flags:
                yield _impossible(f"{place}.valid_by", entry["valid_by"])


def _keys(row: dict[str, Any], schema: Schema, prefix: str) -> Iterator[str]:
    for name, kind in schema.items():
        if name not in row:
            yield f"missing required value in '{prefix}{name}'"
        else:
            yield from _typed(row[name], kind, f"{prefix}{name}")


def _typed(value: object, kind: str, path: str) -> Iterator[str]:
    if value is None and kind.endswith("?"):
        return
    wanted = kind.rstrip("?")
    found = type_name(value)
    if found != wanted:
        yield f"'{path}' is {found}, not {wanted}"
    elif isinstance(value, int) and value < 0 and _NEVER_NEGATIVE.search(path):
        yield _impossible(path, value)


def _entries(
    row: dict[str, Any], name: str, schema: Schema, prefix: str
) -> Iterator[str]:
    for index, entry in enumerate(_array(row, name)):
        place = f"{prefix}{name}[{index}]"
        if isinstance(entry, dict):
            yield from _keys(cast("dict[str, Any]", entry), schema, f"{place}.")
        else:
            yield f"'{place}' is {type_name(entry)}, not object"


def _elements(row: dict[str, Any], name: str, kind: str, prefix: str) -> Iterator[str]:
    for index, value in enumerate(_array(row, name)):
        yield from _typed(value, kind, f"{prefix}{name}[{index}]")


def _object(row: dict[str, Any], name: str) -> dict[str, Any]:
    value = row.get(name)
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _array(row: dict[str, Any], name: str) -> list[Any]:
    value = row.get(name)
    return cast("list[Any]", value) if isinstance(value, list) else []


def _impossible(path: str, value: object) -> str:
    return f"'{path}' has the impossible value {json.dumps(value)}"
