"""Layouts of the records that the kernel writes, and the columns they become.

The same numbers stand in ``bpf/record.h``; a test compiles that header and compares
every offset.  Columns are cut out of whole ring regions with memoryview strides, so a
field must be aligned to its own size and a record must be a multiple of 8 bytes.
Booleans travel as bits of a flags byte: one ``bytes.translate`` a bit turns the byte
column into a bool column at C speed.
"""

from __future__ import annotations

from dataclasses import dataclass

RING_HEADER_SIZE = 8
"""Bytes that a ring buffer puts before each record: length, flags, page offset."""


@dataclass(frozen=True)
class Field:
    """One number of a record."""

    name: str
    offset: int
    code: str
    """memoryview format: q Q i I h b B."""


@dataclass(frozen=True)
class Flags:
    """One byte of a record whose bits are boolean columns, lowest bit first."""

    offset: int
    names: tuple[str, ...]


@dataclass(frozen=True)
class RecordLayout:
    """One record of one stream."""

    stream: str
    size: int
    fields: tuple[Field, ...]
    flags: tuple[Flags, ...]

    @property
    def stride(self) -> int:
        """Return the bytes from one record to the next in a ring region."""
        return self.size + RING_HEADER_SIZE


COLLECTIVE = RecordLayout(
    stream="collective",
    size=96,
    fields=(
        Field("start_ns", 0, "q"),
        Field("duration_ns", 8, "q"),
        Field("collective_seq", 16, "q"),
        Field("element_count", 24, "q"),
        Field("stream_handle", 32, "q"),
        Field("return_address", 40, "Q"),
        Field("pid", 48, "i"),
        Field("tid", 52, "i"),
        Field("communicator_ref", 56, "i"),
        Field("child_ref", 60, "i"),
        Field("return_code", 64, "i"),
        Field("data_type", 68, "i"),
        Field("peer_rank", 72, "i"),
        Field("group_seq", 76, "i"),
        Field("operation", 80, "h"),
        Field("probe_id", 82, "h"),
        Field("group_depth", 84, "h"),
        Field("depth", 86, "b"),
    ),
    flags=(
        Flags(
            87,
            (
                "has_duration_ns",
                "is_open",
                "has_collective_seq",
                "has_peer_rank",
                "has_stream_handle",
                "is_captured",
                "is_base_known",
                "has_data_type",
            ),
        ),
        Flags(
            88,
            (
                "has_communicator_ref",
                "has_element_count",
                "has_return_code",
                "has_child_ref",
            ),
        ),
    ),
)

GPU_CALL = RecordLayout(
    stream="gpu_call",
    size=72,
    fields=(
        Field("start_ns", 0, "q"),
        Field("duration_ns", 8, "q"),
        Field("size_bytes", 16, "q"),
        Field("stream_handle", 24, "q"),
        Field("object_handle", 32, "q"),
        Field("return_address", 40, "Q"),
        Field("pid", 48, "i"),
        Field("tid", 52, "i"),
        Field("return_code", 56, "i"),
        Field("operation", 60, "h"),
        Field("probe_id", 62, "h"),
        Field("depth", 64, "b"),
        Field("copy_kind", 65, "b"),
        Field("layer", 67, "b"),
    ),
    flags=(
        Flags(
            66,
            (
                "has_duration_ns",
                "is_open",
                "has_size_bytes",
                "has_stream_handle",
                "has_object_handle",
                "has_copy_kind",
                "is_captured",
                "has_return_code",
            ),
        ),
    ),
)

OFF_CPU = RecordLayout(
    stream="off_cpu",
    size=88,
    fields=(
        Field("start_ns", 0, "q"),
        Field("duration_ns", 8, "q"),
        Field("runq_latency_ns", 16, "q"),
        Field("skipped_ns", 24, "q"),
        Field("skipped_runnable_ns", 32, "q"),
        Field("pid", 40, "i"),
        Field("tid", 44, "i"),
        Field("next_pid", 48, "i"),
        Field("next_tid", 52, "i"),
        Field("prev_pid", 56, "i"),
        Field("prev_tid", 60, "i"),
        Field("waker_pid", 64, "i"),
        Field("waker_tid", 68, "i"),
        Field("skipped_count", 72, "i"),
        Field("syscall", 76, "h"),
        Field("cpu", 78, "h"),
        Field("off_state", 80, "b"),
    ),
    flags=(
        Flags(
            81,
            (
                "has_duration_ns",
                "is_open",
                "has_runq_latency_ns",
                "has_syscall",
                "is_iowait",
                "is_preempted",
                "is_yielded",
                "is_totals_only",
            ),
        ),
        Flags(82, ("has_waker", "is_waker_in_interrupt", "has_is_iowait")),
    ),
)

LAYOUTS = {layout.stream: layout for layout in (COLLECTIVE, GPU_CALL, OFF_CPU)}

OFF_STATES = ("running", "sleep", "disk", "stopped", "dead")
"""Codes of ``off_state``, in order; the kernel programs decode them (BUNDLE.md)."""

OPERATIONS = {
    "collective": {
        1: "all_reduce",
        2: "all_gather",
        3: "reduce_scatter",
        4: "all_to_all",
        5: "broadcast",
        6: "reduce",
        7: "gather",
        8: "scatter",
        9: "barrier",
        10: "scan",
        11: "exscan",
        12: "send",
        13: "recv",
        14: "group_end",
        20: "comm_init",
        21: "comm_init_all",
        22: "comm_split",
        23: "comm_dup",
        24: "comm_create",
        25: "comm_shrink",
        26: "comm_grow",
        27: "comm_finalize",
        28: "comm_destroy",
        29: "comm_abort",
    },
    "gpu_call": {
        100: "launch",
        101: "launch_host",
        110: "memcpy",
        111: "memcpy_async",
        112: "memset",
        113: "memset_async",
        120: "malloc",
        121: "free",
        122: "host_alloc",
        123: "host_free",
        130: "stream_sync",
        131: "device_sync",
        132: "event_sync",
        133: "event_record",
        134: "stream_wait",
        135: "event_query",
        136: "stream_query",
        137: "stream_create",
        138: "stream_destroy",
        140: "capture_begin",
        141: "capture_end",
        142: "graph_launch",
    },
}
"""Operation codes, vendor-neutral; append only, a code is never used again."""
