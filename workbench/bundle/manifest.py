"""The manifest as frozen data, or every fault of it at once.

The shape follows ``capture/BUNDLE.md``, section *Manifest*; the sentences are those of
its error table.  Unknown fields are ignored here and kept in :attr:`Manifest.document`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.bundle.npy import DTYPES, MAX_CHUNK_ROWS
from workbench.bundle.strict_json import Fault, Node, parse_object
from workbench.errors import BundleError, ManifestError, UnsupportedVersionError

if TYPE_CHECKING:
    from pathlib import Path

SUPPORTED_VERSION = 1
FORMAT = "coldtrace-bundle"
_CAPTURE_ID = re.compile(r"[0-9a-f]{8}")
_CODE = re.compile(r"[0-9]{1,5}")


@dataclass(frozen=True, kw_only=True, slots=True)
class HostInfo:
    """The machine, as the recorder saw it."""

    boot_id: str
    machine_id: str | None
    host_name: str
    architecture: str
    kernel_release: str
    cpu_count: int
    page_size_bytes: int
    ticks_per_second: int


@dataclass(frozen=True, kw_only=True, slots=True)
class CaptureInfo:
    """The run of the recorder."""

    start_ns: int
    stop_ns: int
    start_utc: str
    loader: str
    loader_detail: str
    probe_set: str
    off_cpu_min_ns: int
    stop_reason: str
    is_recovered: bool
    torn_bytes: int
    damaged_bytes: int
    damaged_frame_count: int
    return_probe_symbols: tuple[str, ...]
    absent_streams: dict[str, str]
    job_ids: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnInfo:
    """One column of one stream."""

    name: str
    dtype: str
    valid_by: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class StreamInfo:
    """One stream: its chunks, its columns and what was lost of it."""

    row_count: int
    chunk_rows: tuple[int, ...]
    columns: tuple[ColumnInfo, ...]
    missing_columns: dict[str, str]
    kind: str
    asked_probe_count: int
    attached_probe_count: int
    hit_count: int
    lost_count: int
    lost_first_ns: int | None
    lost_last_ns: int | None
    from_ns: int | None
    to_ns: int | None
    open_count: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RedactionInfo:
    """What the recorder wrote pseudonyms for, instead of names."""

    mode: str
    rules: int
    key_id: str
    counts: dict[str, int]
    not_promised: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """What one bundle says about itself."""

    version: int
    capture_id: str
    created_by: str
    host: HostInfo
    capture: CaptureInfo
    streams: dict[str, StreamInfo]
    operations: dict[int, str]
    off_states: tuple[str, ...]
    syscalls: dict[int, str]
    facts: dict[str, int]
    planted: dict[str, Any] | None
    redaction: RedactionInfo | None
    document: dict[str, Any]


def parse_manifest(data: bytes, path: Path | None = None) -> Manifest:
    """Return the manifest that `data` holds.

    Raises
    ------
    ManifestError
        If one thing is wrong.
    ExceptionGroup
        Of :class:`ManifestError`, if more is.
    UnsupportedVersionError
        If the version is newer than :data:`SUPPORTED_VERSION`.
    BundleError
        Kind ``foreign_zip``, if the format is another.
    """
    document = parse_object(data)
    if document is None:
        raise ManifestError(
            "manifest.json is not a JSON object", where="manifest.json", path=path
        )
    faults: list[Fault] = []
    root = Node(document, "", faults)
    _check_format(root, path)
    manifest = _manifest(root)
    errors = [
        ManifestError(fault.message, where=fault.where, path=path) for fault in faults
    ]
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise ExceptionGroup(f"{len(errors)} faults in manifest.json", errors)
    return manifest


def _check_format(root: Node, path: Path | None) -> None:
    """Refuse what is no bundle of a known version before its fields are looked at."""
    document = root.value
    if "format" in document and document["format"] != FORMAT:
        raise BundleError(
            f"manifest.json has format {json.dumps(document['format'])}, "
            f"not {json.dumps(FORMAT)}",
            path=path,
            kind="foreign_zip",
        )
    version = document.get("version")
    if type(version) is int and version > SUPPORTED_VERSION:
        raise UnsupportedVersionError(
            found=version, supported=SUPPORTED_VERSION, path=path
        )


def _manifest(root: Node) -> Manifest:
    root.text("format")
    created_by = root.child("created_by")
    planted = root.get("planted", "object", is_nullable=True)
    return Manifest(
        version=root.integer("version", minimum=1),
        capture_id=_capture_id(root),
        created_by=f"{created_by.text('name')} {created_by.text('version')}",
        host=_host(root.child("host")),
        capture=_capture(root.child("capture")),
        streams=root.mapping("streams", lambda node, name: _stream(node.child(name))),
        operations=_names(root, "operations"),
        off_states=root.texts("off_states"),
        syscalls=_names(root, "syscalls"),
        facts=root.mapping("facts", lambda node, name: node.integer(name, minimum=0)),
        planted=planted,
        redaction=_redaction(root),
        document=root.value,
    )


def _redaction(root: Node) -> RedactionInfo | None:
    """Return what was taken out; a bundle with names as they are does not say."""
    if "redaction" not in root.value:
        return None
    node = root.child("redaction")
    return RedactionInfo(
        mode=node.text("mode"),
        rules=node.integer("rules"),
        key_id=node.text("key_id"),
        counts=node.mapping("counts", lambda item, name: item.integer(name)),
        not_promised=node.texts("not_promised"),
    )


def _capture_id(root: Node) -> str:
    text = root.text("capture_id")
    if text and not _CAPTURE_ID.fullmatch(text):
        root.impossible("capture_id")
    return text


def _host(node: Node) -> HostInfo:
    return HostInfo(
        boot_id=node.text("boot_id"),
        machine_id=node.optional_text("machine_id"),
        host_name=node.text("host_name"),
        architecture=node.text("architecture"),
        kernel_release=node.text("kernel_release"),
        cpu_count=node.integer("cpu_count", minimum=0),
        page_size_bytes=node.integer("page_size_bytes", minimum=0),
        ticks_per_second=node.integer("ticks_per_second", minimum=1),
    )


def _capture(node: Node) -> CaptureInfo:
    return CaptureInfo(
        start_ns=node.integer("start_ns", minimum=0),
        stop_ns=node.integer("stop_ns", minimum=0),
        start_utc=node.text("start_utc"),
        loader=node.text("loader"),
        loader_detail=node.text("loader_detail"),
        probe_set=node.text("probe_set"),
        off_cpu_min_ns=node.integer("off_cpu_min_ns", minimum=0),
        stop_reason=node.text("stop_reason"),
        is_recovered=node.boolean("is_recovered"),
        torn_bytes=node.integer("torn_bytes", minimum=0),
        damaged_bytes=node.absent_or_integer("damaged_bytes"),
        damaged_frame_count=node.absent_or_integer("damaged_frame_count"),
        return_probe_symbols=node.texts("return_probe_symbols"),
        absent_streams=_absent_streams(node),
        job_ids=node.texts("job_ids"),
    )


def _absent_streams(node: Node) -> dict[str, str]:
    """Return why streams were not recorded; recorders before 0.2 do not say."""
    if "absent_streams" not in node.value:
        return {}
    return {
        item.text("name"): item.text("reason")
        for item in node.children("absent_streams")
    }


def _stream(node: Node) -> StreamInfo:
    row_count = node.integer("row_count", minimum=0)
    chunk_rows = node.integers("chunk_rows")
    is_chunked = all(0 < rows <= MAX_CHUNK_ROWS for rows in chunk_rows)
    if not is_chunked or sum(chunk_rows) != row_count:
        node.impossible("chunk_rows")
    return StreamInfo(
        row_count=row_count,
        chunk_rows=chunk_rows,
        columns=_columns(node),
        missing_columns={
            item.text("name"): item.text("reason")
            for item in node.children("missing_columns")
        },
        kind=node.text("kind"),
        asked_probe_count=node.integer("asked_probe_count", minimum=0),
        attached_probe_count=node.integer("attached_probe_count", minimum=0),
        hit_count=node.integer("hit_count", minimum=0),
        lost_count=node.integer("lost_count", minimum=0),
        lost_first_ns=node.optional_integer("lost_first_ns"),
        lost_last_ns=node.optional_integer("lost_last_ns"),
        from_ns=node.optional_integer("from_ns"),
        to_ns=node.optional_integer("to_ns"),
        open_count=node.integer("open_count", minimum=0),
    )


def _columns(node: Node) -> tuple[ColumnInfo, ...]:
    nodes = node.children("columns")
    columns = tuple(_column(item) for item in nodes)
    booleans = {column.name for column in columns if column.dtype == "|b1"}
    seen: set[str] = set()
    for item, column in zip(nodes, columns, strict=True):
        if column.name in seen:
            item.impossible("name")
        seen.add(column.name)
        if column.valid_by is not None and column.valid_by not in booleans:
            item.impossible("valid_by")
    return columns


def _column(node: Node) -> ColumnInfo:
    name = node.text("name")
    dtype = node.text("dtype")
    if "dtype" in node.value and dtype and dtype not in DTYPES:
        node.impossible("dtype")
    node.optional_text("unit")
    node.text("meaning")
    is_nullable = node.boolean("nullable")
    return ColumnInfo(
        name=name,
        dtype=dtype,
        valid_by=node.text("valid_by") if is_nullable else None,
    )


def _names(root: Node, key: str) -> dict[int, str]:
    """Return a table of names by code; a key that is no code names nothing."""
    table = root.mapping(key, lambda node, name: node.text(name))
    return {int(code): name for code, name in table.items() if _CODE.fullmatch(code)}
