"""A case as a Perfetto trace: one track a thread, collectives as flows across hosts.

The schema is the published one (``perfetto.protos``).  Tracks are a tree: host, process
with its rank, thread.  They are plain tracks and not Perfetto's processes and threads,
for those are told apart by pid and tid, which two hosts share.

Time is nanoseconds of cluster time since the case's origin, so that a second of the
viewer is a second of ``--from``.  How far a host's clock may be off stands in the name
of its track, beside each collective, and as a counter.  A flow joins the members of a
collective by time of entry; inside the clock error that is no claim of order.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import workbench
from workbench.errors import WorkbenchError
from workbench.exporters import spans as timeline
from workbench.exporters.nesting import Mark, marks
from workbench.exporters.selection import (
    Scope,
    clock_join,
    cluster_time,
    narrow,
)
from workbench.exporters.trace_writer import TraceWriter, What
from workbench.exporters.track_tree import CLOCKS, TrackTree, clock_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import BinaryIO

    from workbench.exporters.spans import Span
    from workbench.exporters.trace_writer import Track
    from workbench.store.case import Case

    Progress = Callable[[int], object]

ABOUT = (
    "time is cluster time since the origin of the case, in nanoseconds of the "
    "reference host; a host's clock error is in the name of its track and is a counter "
    "below it; flows join the members of a collective by time of entry, and inside the "
    "clock error that is no claim of order; what did not end had not returned when "
    "recording stopped; an instant is a call whose return was not recorded"
)
STEP_COLUMNS = ("host_id", "rank", "start_ns", "end_ns")


def export_perfetto(
    case: Case, scope: Scope, out: BinaryIO, *, progress: Progress
) -> int:
    """Write the trace and return how many spans it holds.

    Parameters
    ----------
    case
        Open case with its views.
    scope
        What of it.
    out
        File to write to.
    progress
        Called with the number of spans written since the call before.

    Raises
    ------
    WorkbenchError
        If the package with the schema is not installed.
    """
    try:
        writer = TraceWriter(out)
    except ImportError as error:
        raise WorkbenchError(
            "the package perfetto, which holds the schema, is not installed",
            hint="pip install 'coldtrace[perfetto]'",
        ) from error
    tree = TrackTree(writer, case)
    _write_about(writer, case, scope)
    _write_steps(writer, case, scope, tree)
    _write_counters(writer, case, scope, tree)
    total = 0
    by_thread = itertools.groupby(
        timeline.spans(case, scope), key=lambda span: (span.host_id, span.thread_id)
    )
    for (host_id, thread_id), group in by_thread:
        for mark in marks(group):
            track = tree.thread(host_id, thread_id, mark.lane)
            _write_mark(writer, track, mark)
            if mark.span is not None:
                total += 1
                progress(1)
    return total


def _write_mark(writer: TraceWriter, track: Track, mark: Mark) -> None:
    if mark.span is None:
        writer.end(track, mark.ts_ns)
        return
    span = mark.span
    write = writer.begin if mark.kind == "begin" else writer.instant
    what = What(
        name=span.name,
        category=span.category,
        details=_details(span),
        flow_id=span.flow_id,
    )
    write(track, mark.ts_ns, what)


def _details(span: Span) -> dict[str, Any]:
    """Return what to tell of a span: the host's own length only where it differs."""
    told = dict(span.details)
    if span.is_open:
        told["is_open"] = True
    elif span.end_ns is None:
        told["is_return_recorded"] = False
    elif span.end_ns - span.begin_ns != span.duration_ns:
        told["duration_ns"] = span.duration_ns
    return told


def _write_about(writer: TraceWriter, case: Case, scope: Scope) -> None:
    track = writer.track("about this trace", order=0)
    details = {
        "made_by": f"coldtrace {workbench.__version__}",
        "read_this": ABOUT,
        "origin_ns": str(scope.origin_ns),
        "is_whole_case": scope.is_all,
    }
    for row in case.frame(CLOCKS).iter_rows(named=True):
        key = f"clock of {row['host_name']}, part {row['segment']}"
        details[key] = clock_words(row)
    begin = 0 if scope.from_ns is None else max(0, scope.from_ns - scope.origin_ns)
    writer.instant(track, begin, What(name="about", category="about", details=details))


def _write_steps(
    writer: TraceWriter, case: Case, scope: Scope, tree: TrackTree
) -> None:
    chosen = narrow(scope, "model.step", STEP_COLUMNS, host_time=True).sql
    begin, end = cluster_time("t.start_ns", "c"), cluster_time("t.end_ns", "d")
    sql = f"""
        select t.host_id, t.rank, t.step, {begin} as begin_ns, {end} as end_ns
        from ({chosen}) as t
        {clock_join("t.start_ns", "c")} {clock_join("t.end_ns", "d")}
        order by t.host_id, t.rank, t.step
    """
    for host_id, rank, step, begin_ns, end_ns in case.frame(sql).iter_rows():
        track = tree.steps(host_id, rank)
        what = What(name=f"step {step}", category="step")
        writer.begin(track, begin_ns - scope.origin_ns, what)
        writer.end(track, end_ns - scope.origin_ns)


def _write_counters(
    writer: TraceWriter, case: Case, scope: Scope, tree: TrackTree
) -> None:
    for host_id, ts_ns, error_ns in _clock_errors(case, scope):
        writer.count(tree.clock_error(host_id), ts_ns, error_ns)
    columns = ("host_id", "thread_id", "start_ns", "rank", "ts_ns")
    chosen = narrow(scope, "collective_arrival", columns, host_time=False).sql
    sql = f"""
        select host_id, rank, ts_ns - {scope.origin_ns}, arrival_skew_ns
        from ({chosen})
        where rank is not null and arrival_skew_ns is not null
        order by host_id, rank, ts_ns
    """
    for host_id, rank, ts_ns, skew_ns in case.frame(sql).iter_rows():
        writer.count(tree.skew(host_id, rank), ts_ns, skew_ns)


def _clock_errors(case: Case, scope: Scope) -> Iterator[tuple[int, int, int]]:
    """Yield host, time since the origin and half-width of the band where it changes."""
    sql = f"""
        select host_id, from_ns + offset_ns - {scope.origin_ns} as ts_ns, error_ns
        from model.clock
        where error_ns is not null
        order by host_id, from_ns
    """
    window = [
        None if at is None else at - scope.origin_ns
        for at in (scope.from_ns, scope.to_ns)
    ]
    low = max(0, window[0] or 0)
    for _, group in itertools.groupby(case.frame(sql).iter_rows(), key=lambda r: r[0]):
        rows = [(host, max(ts, low), error) for host, ts, error in group]
        if scope.host_ids is not None and rows[0][0] not in scope.host_ids:
            continue
        # Of what began before the window, only the last holds in it.
        first = max(at for at, row in enumerate(rows) if at == 0 or row[1] <= low)
        for host, ts, error in rows[first:]:
            if window[1] is None or ts < window[1]:
                yield host, ts, error
