"""Chunks of numpy columns into event tables.

The arrays of a chunk are registered as they are and one ``insert ... select`` does the
rest: NULL where a companion is false, codes into names.  (Masked arrays instead of the
``case`` cost a fifth more.)  Names travel as parameters, for a bundle's words are hostile.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.store.raw_schema import EVENT_TABLES, REQUIRED_COLUMNS, EventColumn

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from numpy.typing import NDArray

    from workbench.bundle.manifest import Manifest, StreamInfo
    from workbench.store.identity import ThreadIds

_CHUNK = "_chunk"
_LENGTHS = ("duration_ns", "runq_latency_ns")
_MAX_NS = 2**62
"""No clock gets there; sums of two times below it cannot overflow."""


@dataclass(kw_only=True)
class StreamTarget:
    """One stream of one bundle on its way into its table."""

    stream: str
    bundle_id: int
    host_id: int
    columns: dict[str, str | None]
    """Columns that can be loaded and the companion of each."""
    statement: str
    names: dict[str, list[str | None]]
    absent: tuple[str, ...]
    """Known columns that the manifest neither has nor says to be missing."""
    row_count: int = 0
    negative_count: int = 0
    impossible_count: int = 0
    parts: list[str] = field(default_factory=list)


def stream_target(
    stream: str, manifest: Manifest, bundle_id: int, host_id: int
) -> StreamTarget:
    """Return how a stream of a manifest goes into its table."""
    info = manifest.streams[stream]
    usable = _usable(info)
    table = EVENT_TABLES[stream]
    columns = {c.name: usable[c.name] for c in table if c.name in usable}
    names = {
        column.names: _name_list(manifest, column.names)
        for column in table
        if column.names is not None and column.name in columns
    }
    return StreamTarget(
        stream=stream,
        bundle_id=bundle_id,
        host_id=host_id,
        columns=columns,
        statement=_statement(stream, columns),
        names=names,
        absent=tuple(
            column.name
            for column in table
            if column.name not in columns and column.name not in info.missing_columns
        ),
    )


def _usable(info: StreamInfo) -> dict[str, str | None]:
    """Return columns by name with their companion; without it a value means nothing."""
    missing = info.missing_columns
    return {
        column.name: column.valid_by
        for column in info.columns
        if column.name not in missing
    }


def is_loadable(target: StreamTarget) -> bool:
    """Return whether rows of the stream can be told apart at all."""
    return all(name in target.columns for name in REQUIRED_COLUMNS)


def _name_list(manifest: Manifest, table: str) -> list[str | None]:
    """Return names by code, None where the manifest has none."""
    if table == "off_states":
        return list(manifest.off_states) or [None]
    by_code = manifest.operations if table == "operations" else manifest.syscalls
    return [by_code.get(code) for code in range(max(by_code, default=0) + 1)]


def _statement(stream: str, columns: dict[str, str | None]) -> str:
    shown = [
        f"{_expression(column, columns)} as {column.name}"
        for column in EVENT_TABLES[stream]
    ]
    return (
        f"insert into raw.{stream} "  # noqa: S608 - names of our own schema only
        f"select $bundle_id, $host_id, thread_id, {', '.join(shown)} from {_CHUNK}"
    )


def _expression(column: EventColumn, columns: dict[str, str | None]) -> str:
    if column.name not in columns:
        return f"null::{column.type}"
    value = column.name
    if column.names is not None:
        value = (
            f"coalesce(case when {value} >= 0"
            f" then (${column.names}::varchar[])[{value} + 1] end,"
            f" '{column.name}_' || {value})"
        )
    companion = columns[column.name]
    return f"case when {companion} then {value} end" if companion else value


def insert_chunk(
    connection: DuckDBPyConnection,
    target: StreamTarget,
    columns: dict[str, NDArray[Any]],
    threads: ThreadIds,
) -> int:
    """Append the rows of a chunk and return how many there are."""
    arrays = _with_lengths_checked(target, _with_times_checked(target, columns))
    needed = set(target.columns) | {c for c in target.columns.values() if c}
    data = {name: arrays[name] for name in needed}
    data["thread_id"] = threads.of(arrays["tid"], arrays["start_ns"])
    connection.register(_CHUNK, data)
    try:
        connection.execute(
            target.statement,
            {"bundle_id": target.bundle_id, "host_id": target.host_id, **target.names},
        )
    finally:
        connection.unregister(_CHUNK)
    rows = len(arrays["start_ns"])
    target.row_count += rows
    return rows


def _with_times_checked(
    target: StreamTarget, columns: dict[str, NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    """Return the rows whose start can be a time; the others are counted."""
    start = columns["start_ns"]
    if start.min() >= 0 and start.max() < _MAX_NS:
        return columns
    is_time = (start >= 0) & (start < _MAX_NS)
    target.impossible_count += int(len(start) - is_time.sum())
    return {name: array[is_time] for name, array in columns.items()}


def _with_lengths_checked(
    target: StreamTarget, columns: dict[str, NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    """Return columns in which no length is negative; such a value counts as absent."""
    checked = dict(columns)
    for name in _LENGTHS:
        companion = target.columns.get(name)
        if companion is None:
            continue
        is_wrong = checked[companion] & (
            (checked[name] < 0) | (checked[name] >= _MAX_NS)
        )
        if is_wrong.any():
            target.negative_count += int(np.count_nonzero(is_wrong))
            checked[companion] = checked[companion] & ~is_wrong
    return checked
