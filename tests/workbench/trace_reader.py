"""A reader of Perfetto traces for tests: the published schema, and the format's rules.

It knows nothing of our writer: interned names, begins and ends on a stack a track,
flows by number, as the schema's comments define them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema

if TYPE_CHECKING:
    from pathlib import Path

_TABLES = {
    "event_names": "name",
    "event_categories": "name",
    "debug_annotation_names": "name",
    "debug_annotation_string_values": "str",
}


@dataclass(slots=True)
class Slice:
    """A span, or (with `is_instant`) an instant, as a viewer would show it."""

    path: tuple[str, ...]
    name: str
    category: str
    begin_ns: int
    details: dict[str, Any]
    flow_ids: tuple[int, ...]
    parent: Slice | None = None
    end_ns: int | None = None
    is_instant: bool = False


@dataclass(slots=True)
class Trace:
    """What a trace file says."""

    paths: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """Names of a track and of those above it, by number."""
    slices: list[Slice] = field(default_factory=list)
    counters: dict[tuple[str, ...], list[tuple[int, int]]] = field(default_factory=dict)

    def of(self, category: str) -> list[Slice]:
        """Return the slices of a category."""
        return [each for each in self.slices if each.category == category]


def read_trace(path: Path) -> Trace:
    """Return the trace in a file, and fail where it breaks the format."""
    packets = schema.Trace()
    packets.ParseFromString(path.read_bytes())
    trace, names = Trace(), {table: {} for table in _TABLES}
    stacks: dict[int, list[Slice]] = {}
    last_ns: dict[int, int] = {}
    for packet in packets.packet:
        for table, value in _TABLES.items():
            for entry in getattr(packet.interned_data, table):
                assert entry.iid not in names[table]
                names[table][entry.iid] = getattr(entry, value)
        if packet.HasField("track_descriptor"):
            _add_track(trace, packet.track_descriptor)
        elif packet.HasField("track_event"):
            uuid = packet.track_event.track_uuid
            assert last_ns.get(uuid, 0) <= packet.timestamp, "time runs back on a track"
            last_ns[uuid] = packet.timestamp
            _add_event(trace, packet, names, stacks.setdefault(uuid, []))
    return trace


def _add_track(trace: Trace, described: schema.TrackDescriptor) -> None:
    assert described.uuid not in trace.paths
    above = trace.paths[described.parent_uuid] if described.parent_uuid else ()
    trace.paths[described.uuid] = (*above, described.name)
    if described.HasField("counter"):
        trace.counters[trace.paths[described.uuid]] = []


def _add_event(
    trace: Trace, packet: schema.TracePacket, names: dict[str, Any], stack: list[Slice]
) -> None:
    event, path = packet.track_event, trace.paths[packet.track_event.track_uuid]
    if event.type == event.TYPE_COUNTER:
        trace.counters[path].append((packet.timestamp, event.counter_value))
        return
    if event.type == event.TYPE_SLICE_END:
        assert stack[-1].end_ns is None
        stack.pop().end_ns = packet.timestamp
        return
    (category,) = event.category_iids
    made = Slice(
        path=path,
        name=names["event_names"][event.name_iid],
        category=names["event_categories"][category],
        begin_ns=packet.timestamp,
        details={
            names["debug_annotation_names"][note.name_iid]: _value(note, names)
            for note in event.debug_annotations
        },
        flow_ids=tuple(event.flow_ids),
        parent=stack[-1] if stack else None,
        is_instant=event.type == event.TYPE_INSTANT,
    )
    trace.slices.append(made)
    if not made.is_instant:
        stack.append(made)


def _value(note: Any, names: dict[str, Any]) -> Any:  # noqa: ANN401 -- as it comes
    kind = note.WhichOneof("value")
    value = getattr(note, kind)
    if kind == "string_value_iid":
        return names["debug_annotation_string_values"][value].decode()
    return value
