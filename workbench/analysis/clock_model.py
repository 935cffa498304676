"""The clock model: reads what rendezvous prove, writes the tables ``model.clock*``.

Suspends: CLOCK_MONOTONIC stands still while the machine sleeps and CLOCK_BOOTTIME
does not, so a jump of their difference between two readings cuts a host's clock in
three: what was before, the second or so in which it slept (no instant of it can be
placed), and what came after.  Each part is a clock of its own.

Not done here: the relation of MONOTONIC to MONOTONIC_RAW would take NTP's slew out
before the wander is fitted.  The band is proved without it, only wider, since the
wander that it would remove is allowed for instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.analysis import clock_solver, clock_summary, clock_tables, model_rows
from workbench.analysis.clock_bounds import Constraints
from workbench.analysis.clock_tables import HostClock
from workbench.analysis.released_together import release_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import polars as pl
    from numpy.typing import NDArray

    from workbench.analysis.clock_solver import Solution
    from workbench.store.case import Case

READS = (
    "clock_bound",
    "clock_message",
    "clock_last",
    "clock_call",
    "host",
    "stg_clock_reading",
)
WRITES = (
    "clock",
    "clock_pair",
    "released_together",
    "clock_contradiction",
    "clock_summary",
)

SUSPEND_NS = 1_000_000
"""Smallest growth of BOOTTIME over MONOTONIC that is taken for a suspend."""

READING_DRIFT = 200e-6
"""What the difference may grow without one, a second: rates of an edited clock."""

BOUNDS = """
    with bound as (
        select
            communicator_id || '/' || collective_seq || '/' || operation || '/' || part
                as rendezvous,
            host_id, arrival_ns, completion_ns, is_release
        from clock_bound
    ),
    message as (
        select
            *,
            communicator_id || '/' || source_rank || '>' || destination_rank
                || '/' || message_seq as rendezvous
        from clock_message
    ),
    every as (
        select * from bound
        union all
        select rendezvous, send_host_id, send_ns, null, false from message
        union all
        select rendezvous, receive_host_id, null, receive_ns, false from message
    )
    select dense_rank() over (order by rendezvous) as number, *
    from every
    order by number, host_id
"""


def run(case: Case) -> None:
    """Compute the clock tables of a case."""
    clocks = host_clocks(
        case.frame("select * from host order by host_name, host_id"),
        case.frame("select * from stg_clock_reading order by host_id, monotonic_ns"),
    )
    bound = case.frame(BOUNDS)
    constraints, exits = constraints_of(bound, clocks)
    extents = [None if clock.is_cut_off else clock.extent for clock in clocks]
    solution = clock_solver.solve(constraints, extents=extents)
    _write(case, solution, clocks, exits)


def host_clocks(hosts: pl.DataFrame, readings: pl.DataFrame) -> list[HostClock]:
    """Return the clocks of all hosts, those of suspended hosts in parts.

    Parameters
    ----------
    hosts
        Rows of the view ``host``, in the order in which ties between references are
        settled.
    readings
        Rows of ``stg_clock_reading``, by host and time.
    """
    clocks: list[HostClock] = []
    for host in hosts.iter_rows(named=True):
        mine = readings.filter(readings["host_id"] == host["host_id"])
        cuts = suspends(
            mine["monotonic_ns"].to_numpy(),
            mine["boottime_ns"].to_numpy(),
            mine["bracket_ns"].to_numpy(),
        )
        clocks.extend(_parts_of(host, cuts))
    return clocks


def suspends(
    monotonic_ns: NDArray[Any], boottime_ns: NDArray[Any], bracket_ns: NDArray[Any]
) -> list[tuple[int, int]]:
    """Return between which readings (MONOTONIC) the host was suspended."""
    known = ~(
        np.isnan(monotonic_ns.astype(float)) | np.isnan(boottime_ns.astype(float))
    )
    monotonic, boottime = monotonic_ns[known], boottime_ns[known]
    bracket = np.nan_to_num(bracket_ns[known].astype(float))
    slept = np.diff(boottime - monotonic)
    allowed = SUSPEND_NS + bracket[1:] + bracket[:-1]
    allowed = allowed + READING_DRIFT * np.diff(monotonic)
    return [
        (int(monotonic[at]), int(monotonic[at + 1]) + 1)
        for at in np.flatnonzero(slept > allowed)
    ]


def _parts_of(
    host: dict[str, Any], cuts: Sequence[tuple[int, int]]
) -> Iterable[HostClock]:
    """Return the parts of one host's clock: between the cuts, and the cuts."""
    edges: list[tuple[int | None, int | None, bool]] = []
    begin: int | None = None
    for cut_from, cut_to in cuts:
        edges += [(begin, cut_from, False), (cut_from, cut_to, True)]
        begin = cut_to
    edges.append((begin, None, False))
    for segment, (from_ns, to_ns, is_cut_off) in enumerate(edges):
        low, high = host["start_ns"], host["stop_ns"]
        low = low if from_ns is None else max(low, from_ns)
        high = high if to_ns is None else min(high, to_ns)
        yield HostClock(
            host_id=host["host_id"],
            host_name=host["host_name"],
            segment=segment,
            from_ns=from_ns,
            to_ns=to_ns,
            extent=(low, high) if low < high else None,
            is_cut_off=is_cut_off,
        )


def constraints_of(
    bound: pl.DataFrame, clocks: Sequence[HostClock]
) -> tuple[Constraints, Constraints]:
    """Return all constraints, and the exits of those that release all together.

    Parameters
    ----------
    bound
        number, host_id, arrival_ns, completion_ns, is_release; sorted by number.
    clocks
        All clocks; a time belongs to the part of its host's clock that it lies in.
    """
    arrival, has_arrival = _times(bound, "arrival_ns")
    completion, has_completion = _times(bound, "completion_ns")
    host = bound["host_id"].to_numpy().astype(np.int64)
    of_arrival = _clock_of(host, arrival, clocks)
    of_completion = _clock_of(host, completion, clocks)
    has_arrival &= of_arrival >= 0
    has_completion &= of_completion >= 0
    number = bound["number"].to_numpy().astype(np.int64)
    together = has_arrival & has_completion & (of_arrival == of_completion)
    only_arrival = has_arrival & ~together
    only_completion = has_completion & ~together
    picks = [
        (together, of_arrival, True, True),
        (only_arrival, of_arrival, True, False),
        (only_completion, of_completion, False, True),
    ]
    entry = np.concatenate([np.flatnonzero(pick) for pick, *_ in picks])
    clock = np.concatenate([of[pick] for pick, of, *_ in picks])
    has_a = np.concatenate([np.full(pick.sum(), has) for pick, _, has, _ in picks])
    has_c = np.concatenate([np.full(pick.sum(), has) for pick, _, _, has in picks])
    order = np.lexsort((clock, number[entry]))
    entry, clock, has_a, has_c = entry[order], clock[order], has_a[order], has_c[order]
    every = Constraints(
        clock_count=len(clocks),
        rendezvous=number[entry],
        clock=clock,
        arrival_ns=arrival[entry],
        has_arrival=has_a,
        completion_ns=completion[entry],
        has_completion=has_c,
    )
    is_exit = has_c & bound["is_release"].fill_null(value=False).to_numpy()[entry]
    return every.shared(), every.where(is_exit)


def _times(
    bound: pl.DataFrame, name: str
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    column = bound[name]
    known = column.is_not_null().to_numpy().copy()
    return column.fill_null(0).to_numpy().astype(np.int64), known


def _clock_of(
    host: NDArray[np.int64], time: NDArray[np.int64], clocks: Sequence[HostClock]
) -> NDArray[np.int64]:
    """Return the index of the clock that each time was read from; -1: none usable."""
    found = np.full(len(host), -1, dtype=np.int64)
    for index, clock in enumerate(clocks):
        mine = host == clock.host_id
        if clock.from_ns is not None:
            mine &= time >= clock.from_ns
        if clock.to_ns is not None:
            mine &= time < clock.to_ns
        found[mine] = -1 if clock.is_cut_off else index
    return found


def _write(
    case: Case,
    solution: Solution,
    clocks: Sequence[HostClock],
    exits: Constraints,
) -> None:
    alone = [clock_tables.alone_rows(clocks[at]) for at in solution.alone]
    groups = solution.groups
    tables = {
        "clock": [clock_tables.clock_rows(group, clocks) for group in groups] + alone,
        "clock_pair": [clock_tables.pair_rows(group, clocks) for group in groups],
        "released_together": [
            rows for group in groups if (rows := release_rows(group, exits, clocks))
        ]
        + alone,
    }
    for name, parts in tables.items():
        if parts:
            model_rows.replace_rows(case, name, clock_tables.concatenate(parts))
    model_rows.replace_rows(
        case,
        "clock_contradiction",
        clock_summary.contradiction_rows(solution.contradictions, clocks),
    )
    last = case.frame("select * from clock_last")
    skipped = case.frame(
        "select host_id, reason, count(*) as call_count from clock_call"
        " where reason is not null group by all order by all"
    )
    model_rows.replace_rows(
        case,
        "clock_summary",
        clock_summary.summary_rows(solution, clocks, last=last, skipped=skipped),
    )
