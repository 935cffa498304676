"""The clock model: reads what rendezvous prove, writes the tables ``model.clock*``.

Rendezvous bound clocks against each other; so do messages of NCCL and TCP packets that
were imported.  Slew that the readings of MONOTONIC_RAW show is taken out first
(``clock_slew``), and what hosts state about their wall clocks narrows the bands that
rendezvous proved (``clock_stated``).
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING

import numpy as np

from workbench.analysis import (
    clock_solver,
    clock_stated,
    clock_summary,
    clock_tables,
    model_rows,
    wall_clock,
)
from workbench.analysis.clock_bounds import Constraints
from workbench.analysis.clock_parts import Jump, host_clocks
from workbench.analysis.released_together import release_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl
    from numpy.typing import NDArray

    from workbench.analysis.clock_parts import HostClock
    from workbench.analysis.clock_solver import Solution
    from workbench.analysis.clock_stated import FalseStatement
    from workbench.store.case import Case

READS = (
    "clock_bound",
    "clock_message",
    "clock_packet",
    "clock_last",
    "clock_call",
    "model.late_attach",
    "host",
    "stg_clock_reading",
)
WRITES = (
    "clock",
    "clock_pair",
    "released_together",
    "clock_contradiction",
    "clock_jump",
    "clock_summary",
)

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
    packet as (
        select
            *,
            'packet/' || import_id || '/' || packet_seq || '/' || packet_ack || '/'
                || packet_flags as packet
        from clock_packet
    ),
    every as (
        select * from bound
        union all
        select rendezvous, send_host_id, send_ns, null, false from message
        union all
        select rendezvous, receive_host_id, null, receive_ns, false from message
        union all
        select packet, send_host_id, send_ns, null, false from packet
        union all
        select packet, receive_host_id, null, receive_ns, false from packet
    )
    select dense_rank() over (order by rendezvous) as number, *
    from every
    order by number, host_id
"""


METHODS = """
    select host_id, 'rendezvous' as method, 1 as place from clock_bound
    union
    select unnest([send_host_id, receive_host_id]), 'rendezvous', 1 from clock_message
    union
    select host_id, 'shift proved', 2 from model.late_attach where shift is not null
    union
    select unnest([send_host_id, receive_host_id]), 'packets', 3 from clock_packet
    order by host_id, place
"""


def run(case: Case) -> None:
    """Compute the clock tables of a case."""
    readings = case.frame(
        "select * from stg_clock_reading order by host_id, monotonic_ns"
    )
    clocks, jumps = host_clocks(
        case.frame("select * from host order by host_name, host_id"), readings
    )
    bound = case.frame(BOUNDS)
    constraints, exits = constraints_of(bound, clocks)
    solution = clock_solver.solve(
        constraints,
        extents=[_straight_extent(clock) for clock in clocks],
        foreign=[clock.is_foreign for clock in clocks],
    )
    walls = wall_clock.by_host(readings)
    groups, false = [], []
    for group in solution.groups:
        narrower, dropped = clock_stated.narrowed(group, clocks, walls)
        groups.append(narrower)
        false.extend(dropped)
    solution = replace(solution, groups=tuple(groups))
    methods = _methods(case, clocks)
    _write(case, solution, clocks, exits, methods)
    _write_faults(case, solution, clocks, false, jumps)


def _straight_extent(clock: HostClock) -> tuple[int, int] | None:
    """Return begin and end of the captures of a clock, slew taken out."""
    if clock.is_cut_off or clock.extent is None:
        return None
    low, high = clock.straight(np.array(clock.extent, dtype=np.int64))[0].tolist()
    return low, high


def _methods(case: Case, clocks: Sequence[HostClock]) -> list[str]:
    """Return by what each clock is bounded, in words."""
    kinds = case.frame(METHODS)
    words: dict[int, list[str]] = {}
    for host_id, method, _ in kinds.iter_rows():
        words.setdefault(host_id, []).append(method)
    return [", ".join(words.get(clock.host_id, ["rendezvous"])) for clock in clocks]


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
    arrival, completion = (
        _straight(time, of, clocks, loosen)
        for time, of, loosen in (
            (arrival, of_arrival, -1),
            (completion, of_completion, 1),
        )
    )
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


def _straight(
    time: NDArray[np.int64],
    of: NDArray[np.int64],
    clocks: Sequence[HostClock],
    loosen: int,
) -> NDArray[np.int64]:
    """Return times with the slew taken out, moved by its error to the safe side."""
    straight = time.copy()
    for index, clock in enumerate(clocks):
        if clock.slew is not None:
            mine = of == index
            without, error = clock.straight(time[mine])
            straight[mine] = without + loosen * error
    return straight


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
    methods: Sequence[str],
) -> None:
    alone = [clock_tables.alone_rows(clocks[at]) for at in solution.alone]
    groups = solution.groups
    tables = {
        "clock": [clock_tables.clock_rows(group, clocks, methods) for group in groups]
        + alone,
        "clock_pair": [clock_tables.pair_rows(group, clocks) for group in groups],
        "released_together": [
            rows for group in groups if (rows := release_rows(group, exits, clocks))
        ]
        + alone,
    }
    for name, parts in tables.items():
        if parts:
            model_rows.replace_rows(case, name, clock_tables.concatenate(parts))
    last = case.frame("select * from clock_last")
    skipped = case.frame(
        "select host_id, reason, count(*) as call_count from clock_call"
        " where reason is not null group by all order by all"
    )
    model_rows.replace_rows(
        case,
        "clock_summary",
        clock_summary.summary_rows(
            solution, clocks, methods, last=last, skipped=skipped
        ),
    )


def _write_faults(
    case: Case,
    solution: Solution,
    clocks: Sequence[HostClock],
    false: Sequence[FalseStatement],
    jumps: Sequence[Jump],
) -> None:
    """Write what contradicts, and when wall clocks were set and hosts slept."""
    model_rows.replace_rows(
        case,
        "clock_contradiction",
        clock_summary.contradiction_rows(solution.contradictions, false, clocks),
    )
    names = [each.name for each in fields(Jump)]
    model_rows.replace_rows(
        case,
        "clock_jump",
        {name: [getattr(jump, name) for jump in jumps] for name in names},
    )
