"""The columns of every stream as a bundle holds them: dtype, unit, validity, meaning.

Fields and flag bits of ``layout.py`` become columns of the same name, with one
exception: a return address is an address of one process on one boot, so seal replaces
it by the library it lies in and the offset in that library's file.  The texts here go
to every manifest, and the tables of BUNDLE.md are checked against them by a test.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from capture.layout import LAYOUTS, RecordLayout

DTYPES = {"q": "<i8", "Q": "<u8", "i": "<i4", "h": "<i2", "b": "|i1"}
BOOLEAN = "|b1"

ADDRESS = "return_address"
CALLER_REF = "caller_library_ref"
CALLER_OFFSET = "caller_offset"
HAS_CALLER = "has_caller_library_ref"


@dataclass(frozen=True)
class Column:
    """One column of a stream; ``valid_by`` names the bool column that says where."""

    name: str
    dtype: str
    unit: str | None
    valid_by: str | None
    meaning: str

    def as_manifest(self) -> dict[str, Any]:
        """Return the column as an object of the manifest."""
        entry: dict[str, Any] = {
            "name": self.name,
            "dtype": self.dtype,
            "unit": self.unit,
            "nullable": self.valid_by is not None,
        }
        if self.valid_by is not None:
            entry["valid_by"] = self.valid_by
        return {**entry, "meaning": self.meaning}


_CALL = {
    "start_ns": "entry of the call",
    "duration_ns": "entry to return; none for an open call or a probe of entries only",
    "pid": "process",
    "tid": "thread that called",
    "return_code": "value that the call returned",
    "operation": "code of the operation; names in the manifest",
    "probe_id": "row of facts/probe",
    "depth": "recorded calls of this thread around this one, 0 is outermost",
    "is_open": "the call had not returned when the recording ended",
    "is_captured": "a stream of the process was in graph capture: not executed",
    CALLER_REF: "row of facts/library: the library that called",
    CALLER_OFFSET: "offset of the return address in the file of that library",
}

MEANINGS: dict[str, dict[str, str]] = {
    "collective": {
        **_CALL,
        "collective_seq": "number of the call in its communicator generation, taken at "
        "entry; send and recv: number per peer and direction",
        "element_count": "elements as the caller gave them",
        "stream_handle": "GPU stream given to the call",
        "communicator_ref": "row of facts/communicator; the parent of a new one",
        "child_ref": "row of facts/communicator: the one that this call made",
        "data_type": "type of the elements, the vendor's enum",
        "peer_rank": "root, or peer of send and recv, as rank in the communicator",
        "group_seq": "number of the thread's outermost group around the call, 0 is "
        "none; the group_end record with this number ends it",
        "group_depth": "groups open around the call",
        "is_base_known": "counting began when the communicator was made",
    },
    "gpu_call": {
        **_CALL,
        "size_bytes": "bytes copied, set or allocated",
        "stream_handle": "GPU stream; 0 default, 1 legacy, 2 per thread, as given",
        "object_handle": "event, pointer, function or graph that the call is about",
        "copy_kind": "direction of a copy, the vendor's enum",
        "layer": "0 driver, 1 runtime",
    },
    "off_cpu": {
        "start_ns": "switch-out; time of the record where is_totals_only",
        "duration_ns": "switch-out to switch-in",
        "runq_latency_ns": "wake-up, or switch-out where preempted, to switch-in",
        "skipped_ns": "total of absences below the threshold since the thread's record "
        "before this one",
        "skipped_runnable_ns": "part of skipped_ns in which the thread could have run",
        "pid": "process",
        "tid": "thread that was away",
        "next_pid": "process that took the CPU at switch-out, 0 is idle",
        "next_tid": "thread that took the CPU at switch-out, 0 is idle",
        "prev_pid": "process that had the CPU before switch-in, 0 is idle",
        "prev_tid": "thread that had the CPU before switch-in, 0 is idle",
        "waker_pid": "process that woke the thread",
        "waker_tid": "thread that woke the thread",
        "skipped_count": "absences in skipped_ns",
        "syscall": "number of the system call at switch-out; names in the manifest",
        "cpu": "CPU at switch-in",
        "off_state": "code of the state as switched out; names in the manifest",
        "is_open": "the thread was still away when the recording ended",
        "is_iowait": "switched out waiting for a block device",
        "is_preempted": "runnable and not in sched_yield",
        "is_yielded": "in sched_yield",
        "is_totals_only": "carries only the skipped totals",
        "is_waker_in_interrupt": "woken in an interrupt: the waker is a bystander",
    },
}

_SHARED_VALIDITY = {
    CALLER_OFFSET: HAS_CALLER,
    "waker_pid": "has_waker",
    "waker_tid": "has_waker",
    "is_waker_in_interrupt": "has_waker",
}
"""Columns whose companion is not ``has_<their own name>``."""

_UNITS = {"_ns": "ns", "_bytes": "bytes"}


def columns_of(stream: str) -> list[Column]:
    """Return the columns of a stream in the order of the bundle."""
    layout = LAYOUTS[stream]
    flags = _flag_names(layout)
    found: list[Column] = []
    for field in layout.fields:
        if field.name == ADDRESS:
            found.append(_column(stream, CALLER_REF, "<i4", flags))
            found.append(_column(stream, CALLER_OFFSET, "<i8", flags))
        else:
            found.append(_column(stream, field.name, DTYPES[field.code], flags))
    found += [_column(stream, name, BOOLEAN, flags) for name in flags]
    return found


def _flag_names(layout: RecordLayout) -> list[str]:
    names = [name for flags in layout.flags for name in flags.names]
    if any(field.name == ADDRESS for field in layout.fields):
        names.append(HAS_CALLER)
    return names


def _column(stream: str, name: str, dtype: str, flags: list[str]) -> Column:
    if name.startswith("has_"):
        return Column(name, dtype, None, None, _validity(stream, name))
    own = f"has_{name}"
    valid_by = _SHARED_VALIDITY.get(name, own if own in flags else None)
    unit = next((unit for end, unit in _UNITS.items() if name.endswith(end)), None)
    return Column(name, dtype, unit, valid_by, MEANINGS[stream][name])


def _validity(stream: str, name: str) -> str:
    own = name[len("has_") :]
    shared = [other for other, by in _SHARED_VALIDITY.items() if by == name]
    covered = [other for other in (own, *shared) if other in MEANINGS[stream]]
    return f"where {', '.join(covered)} can be read"
