"""Return the clock relation that assumes: members leave a blocking call together.

Measured on hosts with one true clock the exits of two members differ by a few
microseconds in the median and tens at the 5th and 95th percentile.  That is an
assumption about the library and the load, not a law, so this relation never claims an
order; it serves magnitudes where the proved band is wide, as with a rank that is late
at every step.

The line of a clock is the running median of the differences of its exits from its
neighbour's on the widest spanning tree; its error is half of their 5 to 95 % spread,
summed along the tree.  Only where the line lies inside the proved band does it stand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.analysis import clock_line, clock_tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from workbench.analysis.clock_bounds import Constraints
    from workbench.analysis.clock_parts import HostClock
    from workbench.analysis.clock_solver import Group

EXITS_A_WINDOW = 15
"""Exits whose median is one point of the line."""

WINDOWS = 32
FEW_EXITS = 5
"""Below this no line is drawn."""

SPREAD = (0.05, 0.95)


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseLine:
    """Estimated distance of a clock from its rough line at each knot."""

    at_knots: NDArray[np.float64]
    error_ns: float
    exit_count: int


def release_rows(
    group: Group, exits: Constraints, clocks: Sequence[HostClock]
) -> dict[str, NDArray[Any]]:
    """Return the rows of ``model.released_together`` of one group.

    Parameters
    ----------
    group
        Solved group.
    exits
        Earliest completions of all clocks at blocking symmetric rendezvous.
    clocks
        All clocks of the case.
    """
    lines = release_lines(group, exits.only(group.clocks))
    parts = []
    for place, at in enumerate(group.clocks):
        if place not in lines:
            continue
        line = lines[place]
        track = clock_tables.track_of(group, place, clocks, line.at_knots)
        error = np.full(len(track.own) - 1, np.ceil(line.error_ns), np.int64)
        rows = clock_tables.line_rows(
            clocks[at],
            own=track.own,
            cluster=track.cluster,
            error_ns=error + track.bent_ns,
            is_reference=place == group.reference,
        )
        if place != group.reference:
            inside = is_inside(group, place, line)[track.interval]
            ends = track.own[1:-1]
            keep = inside[np.searchsorted(ends, rows["from_ns"], side="right")]
            rows = {name: values[keep] for name, values in rows.items()}
        parts.append(_named(rows, group, clocks, place, line))
    return clock_tables.concatenate(parts)


def _named(
    rows: dict[str, NDArray[Any]],
    group: Group,
    clocks: Sequence[HostClock],
    place: int,
    line: ReleaseLine,
) -> dict[str, NDArray[Any]]:
    count = len(rows["host_id"])
    method = "reference" if place == group.reference else "released together"
    named = clocks[group.clocks[group.reference]]
    return rows | {
        "method": np.array([method] * count, dtype=object),
        "constraint_count": np.full(count, line.exit_count),
        "clock_group_id": np.full(count, clock_tables.group_id(named)),
        "wander_ppb": np.full(count, round(group.wander * 1e9)),
    }


def release_lines(group: Group, exits: Constraints) -> dict[int, ReleaseLine]:
    """Return the line of each clock that a chain of exits ties to the reference."""
    still = np.zeros(len(group.knots))
    lines = {group.reference: ReleaseLine(at_knots=still, error_ns=0.0, exit_count=0)}
    if not len(exits.clock):
        return lines
    common = [
        (
            exits.rendezvous[exits.clock == place],
            line.common(exits.completion_ns[exits.clock == place]) - group.origin_ns,
        )
        for place, line in enumerate(group.lines)
    ]
    meetings = exits.meetings()
    meetings[meetings < FEW_EXITS] = 0
    for parent, child in _tree_of_reference(meetings, group.reference):
        _, here, there = np.intersect1d(
            common[parent][0], common[child][0], return_indices=True
        )
        time = common[child][1][there].astype(np.float64)
        ahead = (common[parent][1][here] - common[child][1][there]).astype(np.float64)
        lines[child] = _beyond(lines[parent], time, ahead, group.knots)
    return lines


def _tree_of_reference(
    meetings: NDArray[np.int64], reference: int
) -> list[tuple[int, int]]:
    """Return tree edges to all that are connected with the reference."""
    reached, edge = {reference}, [reference]
    while edge:
        for clock in np.flatnonzero(meetings[edge.pop()]).tolist():
            if clock not in reached:
                reached.add(clock)
                edge.append(clock)
    places = sorted(reached)
    tree = clock_line.spanning_tree(
        meetings[np.ix_(places, places)], places.index(reference)
    )
    return [(places[parent], places[child]) for parent, child in tree]


def _beyond(
    parent: ReleaseLine,
    time: NDArray[np.float64],
    ahead: NDArray[np.float64],
    knots: NDArray[np.float64],
) -> ReleaseLine:
    """Return the line of a clock whose parent exits `ahead` later on rough lines."""
    order = np.argsort(time, kind="stable")
    time, ahead = time[order], ahead[order]
    windows = int(np.clip(len(time) // EXITS_A_WINDOW, 1, WINDOWS))
    parts = np.array_split(np.arange(len(time)), windows)
    at = np.array([np.median(time[part]) for part in parts])
    middle = np.array([np.median(ahead[part]) for part in parts])
    low, high = np.quantile(ahead - np.interp(time, at, middle), SPREAD)
    return ReleaseLine(
        at_knots=parent.at_knots + np.interp(knots, at, middle),
        error_ns=parent.error_ns + float(high - low) / 2 + 1.0,
        exit_count=len(time),
    )


def is_inside(group: Group, place: int, line: ReleaseLine) -> NDArray[np.bool_]:
    """Return for each interval of knots whether the line lies in the proved band."""
    reference = group.reference
    fits = (line.at_knots <= group.upper[reference, place]) & (
        line.at_knots >= -group.upper[place, reference]
    )
    return fits[:-1] & fits[1:]
