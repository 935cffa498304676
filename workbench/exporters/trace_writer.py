"""Perfetto packets, written one after the other: a trace is nothing but packets.

Names are written once and referred to by number from then on, as the format provides.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import BinaryIO

SEQUENCE = 1
"""The trace has one writer, so one sequence of packets."""

PACKET_FIELD = b"\x0a"
"""Tag of ``Trace.packet``: field 1, with a length."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Track:
    """A track of the trace, by its number."""

    uuid: int


@dataclass(frozen=True, kw_only=True, slots=True)
class What:
    """What begins or happens on a track."""

    name: str
    category: str
    details: Mapping[str, Any] = field(default_factory=dict)
    flow_id: int | None = None
    """The same for everything that one arrow is to run through."""


class TraceWriter:
    """Writes tracks and what happens on them.

    Parameters
    ----------
    out
        File to write to.

    Raises
    ------
    ImportError
        If the package ``perfetto`` is not installed.
    """

    def __init__(self, out: BinaryIO) -> None:
        from perfetto.protos.perfetto.trace import (  # noqa: PLC0415 -- an extra, slow
            perfetto_trace_pb2 as schema,
        )

        self._schema = schema
        self._out = out
        self._track_count = 0
        self._interned: dict[tuple[str, str], int] = {}
        first = self._packet()
        first.sequence_flags = schema.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
        first.first_packet_on_sequence = True
        self._write(first)

    def track(self, name: str, *, parent: Track | None = None, order: int = 0) -> Track:
        """Return a new track below `parent`, shown among its siblings by `order`."""
        packet, track = self._descriptor(name, parent)
        described = packet.track_descriptor
        described.sibling_order_rank = order
        described.child_ordering = described.EXPLICIT
        self._write(packet)
        return track

    def counter(self, name: str, *, parent: Track, order: int = 0) -> Track:
        """Return a new counter track, whose values are nanoseconds."""
        packet, track = self._descriptor(name, parent)
        described = packet.track_descriptor
        described.sibling_order_rank = order
        described.counter.unit = self._schema.CounterDescriptor.UNIT_TIME_NS
        self._write(packet)
        return track

    def _descriptor(self, name: str, parent: Track | None) -> tuple[Any, Track]:
        self._track_count += 1
        packet = self._packet()
        described = packet.track_descriptor
        described.uuid = self._track_count
        described.name = name
        # Viewers merge siblings of one name, which two threads may well share.
        described.sibling_merge_behavior = described.SIBLING_MERGE_BEHAVIOR_NONE
        if parent is not None:
            described.parent_uuid = parent.uuid
        return packet, Track(uuid=self._track_count)

    def begin(self, track: Track, ts_ns: int, what: What) -> None:
        """Write the begin of a span."""
        self._named(self._schema.TrackEvent.TYPE_SLICE_BEGIN, track, ts_ns, what)

    def instant(self, track: Track, ts_ns: int, what: What) -> None:
        """Write something that has a time and no length."""
        self._named(self._schema.TrackEvent.TYPE_INSTANT, track, ts_ns, what)

    def end(self, track: Track, ts_ns: int) -> None:
        """Write the end of the innermost span that is open on a track."""
        packet = self._event(self._schema.TrackEvent.TYPE_SLICE_END, track, ts_ns)
        self._write(packet)

    def count(self, track: Track, ts_ns: int, value: int) -> None:
        """Write a value of a counter."""
        packet = self._event(self._schema.TrackEvent.TYPE_COUNTER, track, ts_ns)
        packet.track_event.counter_value = value
        self._write(packet)

    def _named(self, kind: int, track: Track, ts_ns: int, what: What) -> None:
        packet = self._event(kind, track, ts_ns)
        event = packet.track_event
        event.name_iid = self._intern(packet, "event_names", what.name)
        category = self._intern(packet, "event_categories", what.category)
        event.category_iids.append(category)
        if what.flow_id is not None:
            event.flow_ids.append(what.flow_id)
        for key, value in what.details.items():
            self._annotate(packet, key, value)
        self._write(packet)

    def _annotate(self, packet: Any, key: str, value: Any) -> None:  # noqa: ANN401 -- protobuf's own
        note = packet.track_event.debug_annotations.add()
        note.name_iid = self._intern(packet, "debug_annotation_names", key)
        if isinstance(value, bool):
            note.bool_value = value
        elif isinstance(value, int):
            note.int_value = value
        else:
            note.string_value_iid = self._intern(
                packet, "debug_annotation_string_values", str(value)
            )

    def _intern(self, packet: Any, table: str, text: str) -> int:  # noqa: ANN401 -- protobuf's own
        """Return the number of a text, telling it in this packet if it is new."""
        key = (table, text)
        if key not in self._interned:
            self._interned[key] = len(self._interned) + 1
            entry = getattr(packet.interned_data, table).add()
            entry.iid = self._interned[key]
            if table == "debug_annotation_string_values":
                entry.str = text.encode()
            else:
                entry.name = text
        return self._interned[key]

    def _event(self, kind: int, track: Track, ts_ns: int) -> Any:  # noqa: ANN401 -- protobuf's own
        packet = self._packet()
        packet.timestamp = ts_ns
        packet.track_event.type = kind
        packet.track_event.track_uuid = track.uuid
        return packet

    def _packet(self) -> Any:  # noqa: ANN401 -- protobuf's own
        packet = self._schema.TracePacket()
        packet.trusted_packet_sequence_id = SEQUENCE
        packet.sequence_flags = self._schema.TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
        return packet

    def _write(self, packet: Any) -> None:  # noqa: ANN401 -- protobuf's own
        data = packet.SerializeToString()
        self._out.write(PACKET_FIELD + _varint(len(data)) + data)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:  # noqa: PLR2004 -- seven bits a byte
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
