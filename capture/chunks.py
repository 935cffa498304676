"""Ring records to chunks of rows, and chunks to columns.

One chunk of one stream is in memory at a time.  A column is a strided view of the
chunk (``memoryview``), a flag bit is one ``bytes.translate`` of the column of its byte:
no row is touched by Python code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from capture.columns import (
    ADDRESS,
    CALLER_OFFSET,
    CALLER_REF,
    HAS_CALLER,
    Column,
    columns_of,
)
from capture.layout import LAYOUTS, RING_HEADER_SIZE, Field, Flags, RecordLayout

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Literal

    from capture.callers import CallerResolver

CHUNK_ROWS = 262_144

_BIT_TABLES = [bytes((byte >> bit) & 1 for byte in range(256)) for bit in range(8)]


def chunk_sizes(rows: int) -> list[int]:
    """Return the rows of each chunk of a stream."""
    whole, rest = divmod(rows, CHUNK_ROWS)
    return [CHUNK_ROWS] * whole + ([rest] if rest else [])


def chunks(
    regions: Iterable[memoryview], layout: RecordLayout, rows: int = CHUNK_ROWS
) -> Iterator[bytearray]:
    """Yield the records of many ring regions in chunks of equal size, the last less."""
    limit = rows * layout.stride
    chunk = bytearray()
    for region in regions:
        start = 0
        while start < len(region):
            end = min(len(region), start + limit - len(chunk))
            chunk += region[start:end]
            start = end
            if len(chunk) == limit:
                yield chunk
                chunk = bytearray()
    if chunk:
        yield chunk


def cut(
    region: bytes | bytearray | memoryview, layout: RecordLayout, name: str
) -> memoryview:
    """Return one number of every record of a region, as a strided view."""
    field = next(field for field in layout.fields if field.name == name)
    return _view(memoryview(region), layout, field)


def _view(region: memoryview, layout: RecordLayout, field: Field) -> memoryview[int]:
    numbers = region.cast(cast("Literal['q', 'Q', 'i', 'h', 'b', 'B']", field.code))
    size = numbers.itemsize
    return numbers[(RING_HEADER_SIZE + field.offset) // size :: layout.stride // size]


def flag_column(chunk: bytearray, layout: RecordLayout, name: str) -> bytes:
    """Return one flag of every record, a byte of 0 or 1 each."""
    flags = _flags_of(layout, name)
    column = chunk[RING_HEADER_SIZE + flags.offset :: layout.stride]
    return bytes(column.translate(_BIT_TABLES[flags.names.index(name)]))


def _flags_of(layout: RecordLayout, name: str) -> Flags:
    return next(flags for flags in layout.flags if name in flags.names)


def column_bytes(
    chunk: bytearray, stream: str, resolver: CallerResolver, missing: Iterable[str]
) -> Iterator[tuple[Column, bytes]]:
    """Yield every column of a chunk in the order of the bundle, with its data."""
    layout = LAYOUTS[stream]
    derived = _caller_data(chunk, layout, resolver)
    for column in kept_columns(stream, missing):
        data = derived.get(column.name)
        if data is None:
            data = (
                flag_column(chunk, layout, column.name)
                if column.dtype == "|b1"
                else cut(chunk, layout, column.name).tobytes()
            )
        yield column, data


def kept_columns(stream: str, missing: Iterable[str]) -> list[Column]:
    """Return the columns of a stream but those that the loader cannot give.

    The companion of a missing column goes with it, unless another column needs it.
    """
    left_out = set(missing)
    columns = [column for column in columns_of(stream) if column.name not in left_out]
    needed = {column.valid_by for column in columns}
    companions = {column.valid_by for column in columns_of(stream)} - needed
    return [column for column in columns if column.name not in companions]


def _caller_data(
    chunk: bytearray, layout: RecordLayout, resolver: CallerResolver
) -> dict[str, bytes]:
    if all(field.name != ADDRESS for field in layout.fields):
        return {}
    found = resolver.columns(
        cut(chunk, layout, "pid").tolist(), cut(chunk, layout, ADDRESS).tolist()
    )
    return {
        CALLER_REF: found.library_refs,
        CALLER_OFFSET: found.offsets,
        HAS_CALLER: found.has_library,
    }
