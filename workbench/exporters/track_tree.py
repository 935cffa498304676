"""Tracks of a trace as a tree: host, process with its rank, thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench.exporters.spans import threads

if TYPE_CHECKING:
    from collections.abc import Callable

    from workbench.exporters.trace_writer import TraceWriter, Track
    from workbench.store.case import Case

CLOCKS = "select * from model.clock_summary order by host_name, host_id, segment"
STEPS_ORDER = -2
SKEW_ORDER = -1


def clock_words(row: dict[str, Any]) -> str:
    """Return what a row of model.clock_summary says of a clock, in a few words."""
    state = row["state"]
    if state == "reference":
        return "reference: cluster time is its own"
    if state in ("alone", "contradicted"):
        return f"{state}: not to be compared with other hosts"
    error_us = row["error_middle_ns"] / 1e3
    return f"{state}, +-{error_us:.1f} us to {row['reference_name']}"


class TrackTree:
    """Tracks, made when they are first asked for."""

    def __init__(self, writer: TraceWriter, case: Case) -> None:
        self._writer = writer
        # Of a host that a suspend cut in parts, the largest error.
        clocks = case.frame(f"from ({CLOCKS}) order by error_middle_ns")
        self._clocks = {r["host_id"]: clock_words(r) for r in clocks.to_dicts()}
        rows = threads(case).with_row_index("order").to_dicts()
        self._threads = {(row["host_id"], row["thread_id"]): row for row in rows}
        self._hosts = {row["host_id"]: row for row in reversed(rows)}
        self._ranks = {
            (row["host_id"], row["rank"]): row
            for row in rows
            if row["rank"] is not None
        }
        self._has_jobs = len({row["job_id"] for row in rows if row["job_id"]}) > 1
        self._tracks: dict[tuple[Any, ...], Track] = {}

    def host(self, host_id: int) -> Track:
        """Return the track of a host, whose name says how sure its clock is."""
        row = self._hosts.get(host_id, {"host_name": str(host_id), "order": 0})
        clock = self._clocks.get(host_id, "alone: its own time")
        name = f"{row['host_name']} (clock {clock})"
        # Below the track about the trace.
        return self._made((host_id,), None, name, row["order"] + 1)

    def thread(self, host_id: int, thread_id: int, lane: int) -> Track:
        """Return the track of a thread; lanes beyond the first lie below it."""
        key = (host_id, "thread", thread_id, lane)
        row = self._threads.get((host_id, thread_id))
        if row is None:
            name = f"thread {thread_id}, of which no fact is recorded"
        else:
            name = f"{row['thread_name'] or 'thread'} (tid {row['tid']})"
        if lane > 0:
            parent = self.thread(host_id, thread_id, 0)
            return self._made(key, parent, f"{name}, does not nest", lane)
        if row is None:
            return self._made(key, self.host(host_id), name, 0)
        return self._made(key, self._process(row), name, row["order"])

    def steps(self, host_id: int, rank: int) -> Track:
        """Return the track of a rank's steps."""
        parent = self._process(self._ranks[host_id, rank])
        key = (host_id, "steps", rank)
        return self._made(key, parent, "steps", STEPS_ORDER)

    def skew(self, host_id: int, rank: int) -> Track:
        """Return the counter of how long after the first a rank arrives."""
        name = "arrival after the first member"
        parent = self._process(self._ranks[host_id, rank])
        make = self._writer.counter
        return self._once(
            (host_id, "skew", rank),
            lambda: make(name, parent=parent, order=SKEW_ORDER),
        )

    def clock_error(self, host_id: int) -> Track:
        """Return the counter of a host's clock error."""
        parent = self.host(host_id)
        return self._once(
            (host_id, "error"),
            lambda: self._writer.counter("clock error", parent=parent),
        )

    def _process(self, row: dict[str, Any]) -> Track:
        """Return the track of a thread's process, named by its rank if it has one."""
        job = f" of {row['job_id']}" if self._has_jobs and row["job_id"] else ""
        rank = "" if row["rank"] is None else f"rank {row['rank']}{job}, "
        name = f"{rank}{row['process_name'] or 'process'} (pid {row['pid']})"
        key = (row["host_id"], "process", row["pid"])
        return self._made(key, self.host(row["host_id"]), name, row["order"])

    def _made(
        self, key: tuple[Any, ...], parent: Track | None, name: str, order: int
    ) -> Track:
        make = self._writer.track
        return self._once(key, lambda: make(name, parent=parent, order=order))

    def _once(self, key: tuple[Any, ...], make: Callable[[], Track]) -> Track:
        if key not in self._tracks:
            self._tracks[key] = make()
        return self._tracks[key]
