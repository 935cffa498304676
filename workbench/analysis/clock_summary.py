"""Return one line a host that says what is known about its clock, and why no more.

A host that is the last to arrive at nearly every rendezvous leaves a band as wide as
its lateness: the others never wait for one another, so a constant lateness looks like
an offset.  That state is called undecided; it touches the bands of the hosts that are
never last as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.analysis import clock_tables
from workbench.analysis.clock_solver import WANDER_LIMIT

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    from workbench.analysis.clock_closure import Contradiction
    from workbench.analysis.clock_parts import HostClock
    from workbench.analysis.clock_solver import Group, Solution
    from workbench.analysis.clock_stated import FalseStatement

WIDE_NS = 1_000_000
"""A band beyond +-1 ms is called wide: lateness that matters fits into it."""

ALWAYS_LAST = 0.9
"""Share of its rendezvous from which on a host is called always last."""

COLUMNS = (
    "host_id",
    "segment",
    "host_name",
    "clock_group_id",
    "reference_host_id",
    "reference_name",
    "state",
    "reason",
    "method",
    "constraint_count",
    "last_ratio",
    "rate",
    "wander_ppb",
    "from_ns",
    "to_ns",
    "offset_start_ns",
    "offset_middle_ns",
    "offset_end_ns",
    "error_start_ns",
    "error_middle_ns",
    "error_end_ns",
)

Row = dict[str, Any]


def summary_rows(
    solution: Solution,
    clocks: Sequence[HostClock],
    methods: Sequence[str],
    *,
    last: pl.DataFrame,
    skipped: pl.DataFrame,
) -> dict[str, list[Any]]:
    """Return the rows of ``model.clock_summary``.

    Parameters
    ----------
    solution
        Groups, clocks alone and contradictions.
    clocks
        All clocks of the case.
    methods
        What bounds each clock.
    last
        Rows of the view ``clock_last``.
    skipped
        host_id, reason, call_count: calls that say nothing about clocks.
    """
    rows = [_alone_row(clocks[at], skipped) for at in solution.alone]
    for group in solution.groups:
        rows += [
            _group_row(group, place, clocks, methods, last) for place in _places(group)
        ]
    separated = {at for each in solution.contradictions for at in each.separated}
    for row, at in zip(rows, solution.alone, strict=False):
        if at in separated:
            row["state"] = "contradicted"
            row["reason"] = (
                "its rendezvous contradict those of others; see clock_contradiction"
            )
    rows.sort(key=lambda row: (row["host_name"] or "", row["host_id"], row["segment"]))
    return {name: [row[name] for row in rows] for name in COLUMNS}


def _places(group: Group) -> range:
    return range(len(group.clocks))


def _alone_row(clock: HostClock, skipped: pl.DataFrame) -> Row:
    low, high = clock.extent or (clock.from_ns, clock.to_ns)
    row: Row = dict.fromkeys(COLUMNS)
    return row | {
        "host_id": clock.host_id,
        "segment": clock.segment,
        "host_name": clock.host_name,
        "clock_group_id": clock_tables.group_id(clock),
        "reference_host_id": clock.host_id,
        "reference_name": clock.host_name,
        "state": "alone",
        "reason": _why_alone(clock, skipped),
        "method": "own clock",
        "constraint_count": 0,
        "rate": 0.0,
        "wander_ppb": 0,
        "from_ns": low,
        "to_ns": high,
        "offset_start_ns": 0,
        "offset_middle_ns": 0,
        "offset_end_ns": 0,
        "error_start_ns": 0,
        "error_middle_ns": 0,
        "error_end_ns": 0,
    }


def _why_alone(clock: HostClock, skipped: pl.DataFrame) -> str:
    if clock.is_cut_off:
        return "the host was suspended within this time; no instant of it can be placed"
    mine = skipped.filter(skipped["host_id"] == clock.host_id)
    if mine.is_empty():
        return "no rendezvous with another host of this case"
    most = mine.sort("call_count", "reason", descending=[True, False]).row(
        0, named=True
    )
    return (
        "no usable rendezvous with another host of this case; "
        f"{most['call_count']} calls say nothing: {most['reason']}"
    )


def _group_row(
    group: Group,
    place: int,
    clocks: Sequence[HostClock],
    methods: Sequence[str],
    last: pl.DataFrame,
) -> Row:
    clock = clocks[group.clocks[place]]
    reference = clocks[group.clocks[group.reference]]
    offset, error, own = _at_three(group, place, clocks)
    state, reason = _state(group, place, clocks, last, round(error[1]))
    return {
        "host_id": clock.host_id,
        "segment": clock.segment,
        "host_name": clock.host_name,
        "clock_group_id": clock_tables.group_id(reference),
        "reference_host_id": reference.host_id,
        "reference_name": reference.host_name,
        "state": state,
        "reason": reason,
        "method": clock_tables.method_of(group, place, methods),
        "constraint_count": int(group.rendezvous_counts[place]),
        "last_ratio": _last_ratio(clock, last),
        "rate": (offset[2] - offset[0]) / max(own[2] - own[0], 1),
        "wander_ppb": round(group.wander * 1e9),
        "from_ns": own[0],
        "to_ns": own[2],
    } | {
        f"{name}_{where}_ns": values[at]
        for name, values in (("offset", offset), ("error", error))
        for at, where in enumerate(("start", "middle", "end"))
    }


def _at_three(
    group: Group, place: int, clocks: Sequence[HostClock]
) -> tuple[list[int], list[int], list[int]]:
    """Return offset, error and own time at start, middle and end of what matched."""
    clock = clocks[group.clocks[place]]
    reference = clocks[group.clocks[group.reference]]
    at = np.rint(np.array([group.matched[0], sum(group.matched) / 2, group.matched[1]]))
    middle = np.interp(at, group.knots, group.middle()[place])
    half = np.interp(at, group.knots, group.half_width()[place])
    between = float(group.between_knots().max()) if place != group.reference else 0.0
    common = group.origin_ns + at.astype(np.int64)
    own = clock.bent(group.lines[place].own(common))
    cluster = reference.bent(common + np.rint(middle).astype(np.int64))
    error = np.ceil(half).astype(np.int64)
    error[1] += round(between) if _is_between(group, at[1]) else 0
    if place != group.reference:
        error += clock.straight(own)[1] + reference.straight(cluster)[1]
    return (cluster - own).tolist(), error.tolist(), own.tolist()


def _is_between(group: Group, at: float) -> bool:
    return not bool(np.isin(at, group.knots))


def _last_ratio(clock: HostClock, last: pl.DataFrame) -> float | None:
    mine = last.filter(last["host_id"] == clock.host_id)
    return None if mine.is_empty() else float(mine["last_ratio"][0])


def _state(
    group: Group,
    place: int,
    clocks: Sequence[HostClock],
    last: pl.DataFrame,
    error_ns: int,
) -> tuple[str, str | None]:
    """Return the state of a clock's band, and the reason where it is not narrow."""
    if place == group.reference:
        return "reference", None
    if error_ns <= WIDE_NS:
        return "proved", None
    within = f"+-{error_ns / 1e6:.1f} ms"
    shares = {
        clocks[at].host_id: (_last_ratio(clocks[at], last), clocks[at].host_name)
        for at in group.clocks
    }
    mine = shares[clocks[group.clocks[place]].host_id][0]
    if mine is not None and mine >= ALWAYS_LAST:
        return "undecided", (
            f"last to arrive at {mine:.0%} of its rendezvous: a constant lateness of "
            f"{within} looks like an offset of its clock"
        )
    for share, name in shares.values():
        if share is not None and share >= ALWAYS_LAST:
            return "undecided", (
                f"{name} is last to arrive at {share:.0%} of its rendezvous, so "
                f"nobody waits for this host: {within} stay open"
            )
    return "wide", f"too few rendezvous at which it or its peers were last: {within}"


def contradiction_rows(
    contradictions: Sequence[Contradiction],
    false: Sequence[FalseStatement],
    clocks: Sequence[HostClock],
) -> dict[str, list[Any]]:
    """Return the rows of ``model.clock_contradiction``."""
    rows: list[Row] = [
        {
            "kind": "rendezvous",
            "clocks": each.clocks,
            "separated": each.separated,
            "time_of": each.time_of,
            "at_ns": each.at_ns,
            "excess_ns": each.excess_ns,
        }
        for each in contradictions
    ]
    rows += [
        {
            "kind": "stated wall clock",
            "clocks": tuple(dict.fromkeys((each.clock, each.against))),
            "separated": (),
            "time_of": each.time_of,
            "at_ns": each.at_ns,
            "excess_ns": each.excess_ns,
        }
        for each in false
    ]
    return {
        "contradiction_id": list(range(1, len(rows) + 1)),
        "kind": [row["kind"] for row in rows],
        "host_ids": [[clocks[at].host_id for at in row["clocks"]] for row in rows],
        "host_names": [[clocks[at].host_name for at in row["clocks"]] for row in rows],
        "separated_host_ids": [
            [clocks[at].host_id for at in row["separated"]] for row in rows
        ],
        "time_of_host_id": [clocks[row["time_of"]].host_id for row in rows],
        "at_ns": [row["at_ns"] for row in rows],
        "excess_ns": [row["excess_ns"] for row in rows],
        "wander_ppb": [round(WANDER_LIMIT * 1e9) for _ in rows],
    }
