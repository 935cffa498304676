"""The first pass over a spool: everything that the manifest says before the events.

The manifest stands first in a bundle and holds counts, so all frames are read once
before the first column is written.  Facts are merged here (the last value of a key
wins), and what was still open when the recording ended is told from what returned after
the snapshot it stands in.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from capture.chunks import cut, flag_column
from capture.fact_columns import FACT_KEYS
from capture.layout import LAYOUTS, RecordLayout
from capture.spool import Frame, SpoolDamage, SpoolReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

Row = dict[str, Any]
_LAST_RECORDS = 64


@dataclass
class StreamSurvey:
    """What the first pass learnt about one stream."""

    layout: RecordLayout
    ended_rows: int = 0
    open_records: bytes = b""
    starts: list[int] = field(default_factory=list)
    """Earliest and latest start of the rows that ended."""
    damaged_records: int = 0

    @property
    def open_rows(self) -> int:
        """Return how many rows are still open."""
        return len(self.open_records) // self.layout.stride

    @property
    def rows(self) -> int:
        """Return all rows of the stream."""
        return self.ended_rows + self.open_rows

    @property
    def span(self) -> tuple[int | None, int | None]:
        """Return the earliest and the latest start."""
        starts = list(self.starts)
        if self.open_records:
            starts += cut(self.open_records, self.layout, "start_ns")
        return (min(starts), max(starts)) if starts else (None, None)


@dataclass
class Survey:
    """What the first pass learnt about a spool."""

    streams: dict[str, StreamSurvey]
    facts: dict[str, dict[tuple[Any, ...], Row]]
    clock_lines: list[bytes] = field(default_factory=list)
    end: Row | None = None
    last_seen_ns: int = 0
    damage: SpoolDamage = field(default_factory=SpoolDamage)
    bad_line_count: int = 0

    def see(self, ns: object) -> None:
        """Take note of a time on the host's monotonic clock."""
        if isinstance(ns, int) and ns > self.last_seen_ns:
            self.last_seen_ns = ns

    def add_fact(self, row: Row) -> None:
        """Merge one fact: keys it holds replace those of its earlier rows."""
        kind = row.get("fact")
        if not isinstance(kind, str):
            self.bad_line_count += 1
            return
        names = FACT_KEYS.get(kind)
        columns = {name: value for name, value in row.items() if name != "fact"}
        rows = self.facts.setdefault(kind, {})
        # A kind that this recorder does not know is kept row by row.
        key = (len(rows),) if names is None else tuple(row.get(name) for name in names)
        rows.setdefault(key, {}).update(columns)
        for name, value in columns.items():
            if name.endswith("_ns"):
                self.see(value)

    def fact_rows(self, kind: str) -> list[Row]:
        """Return the merged rows of one kind, in the order of their first sight."""
        return list(self.facts.get(kind, {}).values())


def survey(reader: SpoolReader, progress: Callable[[int], None]) -> Survey:
    """Read every frame once and return what is in the spool."""
    names = [name for name in LAYOUTS if name in reader.header["streams"]]
    found = Survey({name: StreamSurvey(LAYOUTS[name]) for name in names}, {})
    for frame in reader.frames(found.damage):
        _take(found, frame)
        progress(frame.offset)
    for name, stream in found.streams.items():
        lost_bytes = found.damage.lost_payload_bytes.get(f"events/{name}", 0)
        stream.damaged_records = lost_bytes // stream.layout.stride
        if stream.open_records:
            ended = event_regions(reader, name)
            stream.open_records = still_open(stream.open_records, ended, stream.layout)
    return found


def event_regions(reader: SpoolReader, stream: str) -> Iterator[memoryview]:
    """Yield the ring regions of one stream, in order."""
    for frame in reader.frames():
        if frame.kind == f"events/{stream}":
            yield _whole(frame.payload, LAYOUTS[stream])


def still_open(
    snapshot: bytes, ended: Iterable[memoryview], layout: RecordLayout
) -> bytes:
    """Return the records of a snapshot that no record of an end belongs to.

    A call can return after the last snapshot and before a kill: then the spool holds it
    twice, and its end is the better record.
    """
    places = _places(snapshot, layout)
    starts = {place[0] for place in places}
    returned: set[tuple[int, ...]] = set()
    for region in ended:
        if not starts.isdisjoint(cut(region, layout, "start_ns")):
            returned.update(
                place for place in _places(region, layout) if place in places
            )
    stride = layout.stride
    return b"".join(
        snapshot[index * stride : (index + 1) * stride]
        for place, index in places.items()
        if place not in returned
    )


def _places(
    region: bytes | memoryview, layout: RecordLayout
) -> dict[tuple[int, ...], int]:
    """Return what tells the records of a region apart, each with its index."""
    names = [entry.name for entry in layout.fields]
    keys = [name for name in ("start_ns", "tid", "probe_id") if name in names]
    columns = [cut(region, layout, name) for name in keys]
    is_span = [True] * len(columns[0])
    if any("is_totals_only" in flags.names for flags in layout.flags):
        totals = flag_column(bytearray(region), layout, "is_totals_only")
        is_span = [not bit for bit in totals]
    found = zip(zip(*columns), range(len(is_span)))
    return {place: index for place, index in found if is_span[index]}


def _whole(payload: memoryview, layout: RecordLayout) -> memoryview:
    """Return the whole records of a payload; a part of one would shift all after it."""
    return payload[: len(payload) - len(payload) % layout.stride]


def _take(found: Survey, frame: Frame) -> None:
    kind, _, name = frame.kind.partition("/")
    if kind == "events":
        _take_events(found, found.streams[name], frame.payload)
    elif kind == "inflight":
        stream = found.streams[name]
        stream.open_records = bytes(_whole(frame.payload, stream.layout))
        if stream.open_records:
            found.see(max(cut(stream.open_records, stream.layout, "start_ns")))
    elif kind == "clock":
        _take_clock(found, bytes(frame.payload))
    elif kind == "facts":
        for row in _rows(found, bytes(frame.payload)):
            found.add_fact(row)
    elif kind == "end":
        _take_end(found, bytes(frame.payload))


def _take_events(found: Survey, stream: StreamSurvey, payload: memoryview) -> None:
    layout = stream.layout
    region = _whole(payload, layout)
    if not region:
        return
    starts = cut(region, layout, "start_ns")
    stream.ended_rows += len(starts)
    latest = max(starts)
    seen = [*stream.starts, min(starts), latest]
    stream.starts = [min(seen), max(seen)]
    # The ring keeps the order of ends, so the latest end is among the last few.
    tail = region[-_LAST_RECORDS * layout.stride :]
    ends = zip(cut(tail, layout, "start_ns"), cut(tail, layout, "duration_ns"))
    found.see(max(latest, *(start + duration for start, duration in ends)))


def _take_clock(found: Survey, payload: bytes) -> None:
    for line in payload.splitlines():
        row = _parse(line)
        if row is None:
            found.bad_line_count += 1
            continue
        found.clock_lines.append(line)
        found.see(row.get("monotonic_ns"))


def _take_end(found: Survey, payload: bytes) -> None:
    found.end = _parse(payload)
    if found.end is None:
        found.bad_line_count += 1
        return
    rows: object = found.end.get("facts", [])
    for row in cast("list[Row]", rows) if isinstance(rows, list) else []:
        found.add_fact(row)


def _rows(found: Survey, payload: bytes) -> Iterator[Row]:
    for line in payload.splitlines():
        row = _parse(line)
        if row is None:
            found.bad_line_count += 1
        else:
            yield row


def _parse(text: bytes) -> Row | None:
    try:
        value: object = json.loads(text)
    except ValueError:
        return None
    return cast("Row", value) if isinstance(value, dict) else None
