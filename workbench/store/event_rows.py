"""Chunks of numpy columns into event tables.

The arrays of a few chunks are registered as they are and one ``insert ... select`` does
the rest: NULL where a companion is false, codes into names.  (Masked arrays instead of
the ``case`` cost a fifth more.)  Names travel as parameters: a bundle's words are
hostile.

DuckDB appends from several threads only if it need not keep the order of one insert,
and then only if the insert is large; that doubles the rate on two cores.  So the rows
of a large bundle may change places in blocks of 100,000; no view relies on their order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.store.raw_schema import EVENT_TABLES, REQUIRED_COLUMNS, EventColumn

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    select: str
    """Rows of one chunk as the table wants them, up to the name of the chunk."""
    names: dict[str, list[str | None]]
    faults: tuple[tuple[str, str, str], ...]
    """Kind, column and message of each known column that cannot be had."""
    buffers: dict[int, dict[str, NDArray[Any]]] = field(default_factory=dict)
    """Arrays that DuckDB reads, by place in an insert."""
    row_count: int = 0
    negative_count: int = 0
    impossible_count: int = 0


def stream_target(
    stream: str, manifest: Manifest, bundle_id: int, host_id: int
) -> StreamTarget:
    """Return how a stream of a manifest goes into its table."""
    info = manifest.streams[stream]
    table = EVENT_TABLES[stream]
    listed = {column.name: column for column in info.columns}
    columns = {
        column.name: listed[column.name].valid_by
        for column in table
        if column.name in listed and listed[column.name].dtype == column.dtype
    }
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
        select=_select(stream, columns),
        names=names,
        faults=tuple(_faults(stream, info, columns)),
    )


def _faults(
    stream: str, info: StreamInfo, columns: dict[str, str | None]
) -> Iterator[tuple[str, str, str]]:
    """Yield what is said of columns that are not among those that can be loaded."""
    listed = {column.name: column.dtype for column in info.columns}
    for column in EVENT_TABLES[stream]:
        name = column.name
        if name in columns or name in info.missing_columns:
            continue
        if name in listed:
            fault = f"is {listed[name]} and not {column.dtype}"
            kind = "bad_column"
        else:
            fault, kind = "is not there", "missing_column"
        yield kind, name, f"column {name} of stream {stream} {fault}, it is null"


def is_loadable(target: StreamTarget) -> bool:
    """Return whether rows of the stream can be told apart at all."""
    return all(name in target.columns for name in REQUIRED_COLUMNS)


def _name_list(manifest: Manifest, table: str) -> list[str | None]:
    """Return names by code, None where the manifest has none."""
    if table == "off_states":
        return list(manifest.off_states) or [None]
    by_code = manifest.operations if table == "operations" else manifest.syscalls
    return [by_code.get(code) for code in range(max(by_code, default=0) + 1)]


def _select(stream: str, columns: dict[str, str | None]) -> str:
    shown = [
        f"{_expression(column, columns)} as {column.name}"
        for column in EVENT_TABLES[stream]
    ]
    return f"select $bundle_id, $host_id, thread_id, {', '.join(shown)} from "


def _expression(column: EventColumn, columns: dict[str, str | None]) -> str:
    if column.name not in columns:
        return f"null::{column.type}"
    value = column.name
    if column.names is not None:
        value = (
            f"coalesce(case when {value} >= 0"
            f" then (${column.names}::varchar[])[{value}::integer + 1] end,"
            f" '{column.name}_' || {value})"
        )
    companion = columns[column.name]
    return f"case when {companion} then {value} end" if companion else value


def insert_chunks(
    connection: DuckDBPyConnection,
    target: StreamTarget,
    chunks: list[dict[str, NDArray[Any]]],
    threads: ThreadIds,
) -> int:
    """Append the rows of some chunks and return how many there are."""
    rows = 0
    for index, columns in enumerate(chunks):
        arrays = _registered(target, columns, threads)
        _put(connection, target, index, arrays)
        rows += len(arrays["start_ns"])
    selects = " union all ".join(
        f"{target.select}{_CHUNK}_{target.stream}_{index}"
        for index in range(len(chunks))
    )
    connection.execute(
        f"insert into raw.{target.stream} {selects}",
        {"bundle_id": target.bundle_id, "host_id": target.host_id, **target.names},
    )
    target.row_count += rows
    return rows


def _put(
    connection: DuckDBPyConnection,
    target: StreamTarget,
    index: int,
    arrays: dict[str, NDArray[Any]],
) -> None:
    """Put a chunk where the insert finds it.

    A registered array stays alive until the transaction ends, even if its name is taken
    away; so arrays of the usual size are copied into those that are there.
    """
    held = target.buffers.get(index)
    if held is None or len(held["start_ns"]) != len(arrays["start_ns"]):
        # What numpy reads out of a member's bytes cannot be written to.
        target.buffers[index] = {name: array.copy() for name, array in arrays.items()}
        connection.register(f"{_CHUNK}_{target.stream}_{index}", target.buffers[index])
        return
    for name, array in arrays.items():
        np.copyto(held[name], array)


def release(connection: DuckDBPyConnection, target: StreamTarget) -> None:
    """Take the names of a stream's arrays away."""
    for index in target.buffers:
        connection.unregister(f"{_CHUNK}_{target.stream}_{index}")
    target.buffers.clear()


def _registered(
    target: StreamTarget, columns: dict[str, NDArray[Any]], threads: ThreadIds
) -> dict[str, NDArray[Any]]:
    """Return the arrays that the insert reads, odd values taken out."""
    arrays = _with_lengths_checked(target, _with_times_checked(target, columns))
    needed = set(target.columns) | {c for c in target.columns.values() if c}
    data = {name: arrays[name] for name in needed}
    data["thread_id"] = threads.of(arrays["tid"], arrays["start_ns"])
    return data


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
