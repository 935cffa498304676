"""What every thread did, as the spans of a timeline: calls and absences from the CPU.

Spans come in the order in which a thread's stack is built: by start, the longer before
what lies within it, what never ended before all.  Begin and end are cluster time; the
length on the host's own clock stands beside them, for a clock that runs at another rate
gives another length.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.exporters.selection import Scope, clock_join, cluster_time, narrow

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl

    from workbench.store.case import Case

BATCH = 50_000

_DETAILS = (
    "communicator_id",
    "collective_seq",
    "communicator_rank",
    "peer_rank",
    "element_count",
    "size_bytes",
    "copy_kind",
    "stream_handle",
    "return_code",
    "runq_latency_ns",
    "waker_tid",
    "next_tid",
    "is_preempted",
    "is_iowait",
)
"""What a span tells beside its name and time, where it is known."""

_COLUMNS = ("host_id", "thread_id", "start_ns", "duration_ns", "is_open")

_CALL = """
    select
        s.host_id, s.thread_id, s.start_ns, s.duration_ns, s.is_open,
        'collective' as category, s.operation as name,
        m.communicator_id, s.collective_seq, m.communicator_rank, s.peer_rank,
        s.element_count, s.stream_handle, s.return_code
    from stg_collective as s
    left join communicator_member as m
        on s.bundle_id = m.bundle_id
        and m.communicator_ref = coalesce(s.communicator_ref, s.child_ref)
"""
_GPU = """
    select
        host_id, thread_id, start_ns, duration_ns, is_open,
        'gpu_call' as category, operation as name,
        size_bytes, copy_kind, stream_handle, return_code
    from stg_gpu_call
"""
_AWAY = """
    select
        host_id, thread_id, start_ns, duration_ns, is_open,
        'off_cpu' as category,
        'off CPU: ' || coalesce(off_state, 'state unknown')
            || coalesce(' in ' || syscall, '') as name,
        runq_latency_ns, waker_tid, next_tid, is_preempted, is_iowait
    from stg_off_cpu
    where not is_totals_only
"""
_MEETING = """
    select host_id, thread_id, start_ns,
        dense_rank() over (
            order by communicator_id, collective_seq, operation, pairing
        ) as flow_id,
        count(*) over (
            partition by communicator_id, collective_seq, operation, pairing
        ) as member_count,
        arrival_skew_ns, clock_error_ns, is_surely_last
    from collective_arrival
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """One call, or one absence of a thread from the CPU."""

    host_id: int
    thread_id: int
    begin_ns: int
    end_ns: int | None
    """Cluster time; None: it was open, or only its entry is recorded."""
    duration_ns: int | None
    """Length on the host's own clock."""
    is_open: bool
    category: str
    name: str
    flow_id: int | None
    """Same for all members of a collective; None: it met nobody in this case."""
    details: dict[str, Any]


def spans_sql(scope: Scope) -> str:
    """Return the query of the chosen spans, in the order of the module's text."""
    parts = " union all by name ".join(
        f"select * from ({narrow(scope, f'({part})', _COLUMNS, host_time=True).sql})"
        for part in (_CALL, _GPU, _AWAY)
    )
    end = "t.start_ns + t.duration_ns"
    begin_ts, end_ts = cluster_time("t.start_ns", "c"), cluster_time(end, "d")
    details = ", ".join(f"t.{name}" for name in _DETAILS)
    return f"""
        select
            t.host_id, t.thread_id,
            {begin_ts} - {scope.origin_ns} as begin_ns,
            {end_ts} - {scope.origin_ns} as end_ns,
            t.duration_ns, coalesce(t.is_open, false) as is_open,
            t.category, coalesce(t.name, 'not named') as name,
            m.flow_id, {details},
            m.arrival_skew_ns, m.clock_error_ns, m.is_surely_last
        from ({parts}) as t
        {clock_join("t.start_ns", "c")}
        {clock_join(end, "d")}
        left join ({_MEETING}) as m
            on t.category = 'collective' and m.member_count > 1
            and t.host_id = m.host_id and t.thread_id = m.thread_id
            and t.start_ns = m.start_ns
        order by
            t.host_id, t.thread_id, begin_ns, t.is_open desc, end_ns desc nulls last,
            t.category, t.name
    """


def count(case: Case, scope: Scope) -> int:
    """Return how many spans a scope holds."""
    parts = [
        narrow(scope, f"({part})", _COLUMNS, host_time=True).sql
        for part in (_CALL, _GPU, _AWAY)
    ]
    return sum(case.frame(f"select count(*) from ({part})").item() for part in parts)


def spans(case: Case, scope: Scope) -> Iterator[Span]:
    """Yield the chosen spans; the case answers nothing else until they are read."""
    answer = case.connection.execute(spans_sql(scope))
    told = (*_DETAILS, "arrival_skew_ns", "clock_error_ns", "is_surely_last")
    while rows := answer.fetchmany(BATCH):
        for row in rows:
            details = zip(told, row[9:], strict=True)
            yield Span(
                host_id=row[0],
                thread_id=row[1],
                begin_ns=row[2],
                end_ns=row[3],
                duration_ns=row[4],
                is_open=row[5],
                category=row[6],
                name=row[7],
                flow_id=row[8],
                details={name: value for name, value in details if value is not None},
            )


def threads(case: Case) -> pl.DataFrame:
    """Return every thread with its process, rank and host, in the order to show."""
    return case.frame("""
        select
            t.host_id, coalesce(h.host_name, t.host_id::varchar) as host_name,
            t.thread_id, t.pid, t.tid, t.thread_name, t.process_name, r.rank, r.job_id
        from thread as t
        left join host as h on t.host_id = h.host_id
        left join rank as r on t.host_id = r.host_id and t.pid = r.pid
        order by host_name, t.host_id, r.rank nulls last, t.pid, t.tid <> t.pid, t.tid
    """)
