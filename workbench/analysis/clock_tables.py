"""Return a group's bounds as rows that SQL can apply.

Each knot of each clock becomes a pair (own time, cluster time); the rows between are
straight lines in whole nanoseconds, so two rows of a clock meet without a jump.
Cluster time is the middle of the clock's band to the reference, and the reference's own
time for the reference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from workbench.analysis.clock_parts import HostClock
    from workbench.analysis.clock_solver import Group

OPEN_NS = 10**17
"""How far the open first and last rows reach: three years, exact in a double's rate."""

FAR_NS = 4 * 10**18
"""End of rows without a rate, and of rows in cluster time."""

PAIR_LIMIT = 200
"""Largest group whose pairs get rows of their own; above, the sum of two errors."""

ROUNDING_NS = 2
"""What whole nanoseconds in offsets and mapped times can cost."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Track:
    """A clock's knots in its own and in cluster time, straight between two."""

    own: NDArray[np.int64]
    cluster: NDArray[np.int64]
    interval: NDArray[np.int64]
    """Interval of the group's knots in which each interval of these lies."""

    bent_ns: NDArray[np.int64]
    """What straightening its MONOTONIC and the reference's may be off."""


def group_id(clock: HostClock) -> int:
    """Return the id of the group that a clock alone makes or a reference names.

    Parts of a host beyond the first get a negative one, for they may not share the
    time of a group which the first part names.
    """
    return clock.host_id if clock.segment == 0 else -clock.host_id - clock.segment


def clock_rows(
    group: Group, clocks: Sequence[HostClock], methods: Sequence[str]
) -> dict[str, NDArray[Any]]:
    """Return the rows of ``model.clock`` of one group.

    Parameters
    ----------
    group
        Solved group.
    clocks
        All clocks of the case, as the group's indices count them.
    methods
        What bounds each clock.
    """
    middle = group.middle()
    errors = _interval_errors(group.half_width(), group.between_knots())
    rows = []
    for place, at in enumerate(group.clocks):
        track = track_of(group, place, clocks, middle[place])
        part = line_rows(
            clocks[at],
            own=track.own,
            cluster=track.cluster,
            error_ns=errors[place][track.interval] + track.bent_ns,
            is_reference=place == group.reference,
        )
        count = len(part["host_id"])
        method = method_of(group, place, methods)
        part["method"] = np.array([method] * count, dtype=object)
        part["constraint_count"] = np.full(count, group.rendezvous_counts[place])
        part["clock_group_id"] = np.full(count, _group_id_of(group, clocks))
        part["wander_ppb"] = np.full(count, round(group.wander * 1e9))
        rows.append(part)
    return concatenate(rows)


def method_of(group: Group, place: int, methods: Sequence[str]) -> str:
    """Return how the band of one clock of a group is known."""
    if place == group.reference:
        return "reference"
    method = methods[group.clocks[place]]
    is_narrowed = group.is_narrowed is not None and group.is_narrowed[place]
    return f"{method}, stated wall clocks" if is_narrowed else method


def _group_id_of(group: Group, clocks: Sequence[HostClock]) -> int:
    return group_id(clocks[group.clocks[group.reference]])


def track_of(
    group: Group, place: int, clocks: Sequence[HostClock], line: NDArray[np.float64]
) -> Track:
    """Return the knots of a clock that lies `line` off its rough line at the group's.

    Between them own and cluster time are straight: where MONOTONIC of either host was
    slewed, its bends are knots too.
    """
    clock = clocks[group.clocks[place]]
    reference = clocks[group.clocks[group.reference]]
    common = _common_knots(group)
    at = [common]
    if clock.slew is not None:
        at.append(group.lines[place].common(clock.slew.straight_knots()))
    if reference.slew is not None:
        at.append(reference.slew.straight_knots())
    every = np.unique(np.concatenate(at))
    every = every[(every >= common[0]) & (every <= common[-1])]
    off = np.interp((every - group.origin_ns).astype(np.float64), group.knots, line)
    own = clock.bent(group.lines[place].own(every))
    cluster = reference.bent(every + np.rint(off).astype(np.int64))
    rises = np.append(True, (np.diff(own) > 0) & (np.diff(cluster) > 0))
    own, cluster, every = own[rises], cluster[rises], every[rises]
    interval = np.searchsorted(common, every[:-1], side="right") - 1
    bent = clock.straight(own)[1] + reference.straight(cluster)[1]
    return Track(
        own=own,
        cluster=cluster,
        interval=np.clip(interval, 0, len(common) - 2),
        bent_ns=np.maximum(bent[:-1], bent[1:]),
    )


def _common_knots(group: Group) -> NDArray[np.int64]:
    return group.origin_ns + group.knots.astype(np.int64)


def _interval_errors(
    at_knots: NDArray[np.float64], between: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Return the error of each interval from that at its ends."""
    larger = np.maximum(at_knots[..., :-1], at_knots[..., 1:])
    return np.ceil(larger + between).astype(np.int64) + ROUNDING_NS


def line_rows(
    clock: HostClock,
    *,
    own: NDArray[np.int64],
    cluster: NDArray[np.int64],
    error_ns: NDArray[np.int64],
    is_reference: bool,
) -> dict[str, NDArray[Any]]:
    """Return rows of straight lines through (own, cluster), open at both ends."""
    if is_reference:
        return own_time_rows(clock)
    shift = cluster - own
    rate = np.diff(shift) / np.diff(own)
    starts, ends = own[:-1].copy(), own[1:].copy()
    offset = shift[:-1].copy()
    starts[0] -= OPEN_NS
    offset[0] -= round(rate[0] * OPEN_NS)
    ends[-1] += OPEN_NS
    rows = {
        "host_id": np.full(len(starts), clock.host_id),
        "from_ns": starts,
        "to_ns": ends,
        "offset_ns": offset,
        "rate": rate,
        "error_ns": error_ns,
    }
    return _within(clock, rows)


def own_time_rows(clock: HostClock) -> dict[str, NDArray[Any]]:
    """Return the one row of a clock whose cluster time is its own."""
    rows = {
        "host_id": np.array([clock.host_id]),
        "from_ns": np.array([-FAR_NS]),
        "to_ns": np.array([FAR_NS]),
        "offset_ns": np.array([0]),
        "rate": np.array([0.0]),
        "error_ns": np.array([0]),
    }
    return _within(clock, rows)


def _within(clock: HostClock, rows: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the rows cut to the part of the host's time that the clock is."""
    low = -FAR_NS if clock.from_ns is None else clock.from_ns
    high = FAR_NS if clock.to_ns is None else clock.to_ns
    keep = (rows["to_ns"] > low) & (rows["from_ns"] < high)
    kept = {name: values[keep] for name, values in rows.items()}
    into = np.maximum(low - kept["from_ns"], 0)
    kept["from_ns"] = kept["from_ns"] + into
    kept["offset_ns"] = kept["offset_ns"] + np.rint(into * kept["rate"]).astype(
        np.int64
    )
    kept["to_ns"] = np.minimum(kept["to_ns"], high)
    return kept


def alone_rows(clock: HostClock) -> dict[str, NDArray[Any]]:
    """Return the rows of ``model.clock`` of a clock that was joined with none."""
    rows = own_time_rows(clock)
    count = len(rows["host_id"])
    return rows | {
        "method": np.array(["own clock"] * count, dtype=object),
        "constraint_count": np.zeros(count, dtype=np.int64),
        "clock_group_id": np.full(count, group_id(clock)),
        "wander_ppb": np.zeros(count, dtype=np.int64),
    }


def pair_rows(group: Group, clocks: Sequence[HostClock]) -> dict[str, NDArray[Any]]:
    """Return the rows of ``model.clock_pair`` of one group."""
    count = len(group.clocks)
    is_pair = count <= PAIR_LIMIT
    if is_pair:
        at_knots = group.pair_error()
    else:
        half = group.half_width()
        at_knots = half[:, None] + half[None]
    error = _interval_errors(at_knots, group.between_knots())
    bent = np.array([_largest_bend_error(clocks[at]) for at in group.clocks])
    error += (bent[:, None] + bent[None] + bent[group.reference])[..., None]
    reference = clocks[group.clocks[group.reference]]
    bounds = reference.bent(_common_knots(group))
    starts = np.concatenate([[-FAR_NS], bounds[1:-1]])
    ends = np.concatenate([bounds[1:-1], [FAR_NS]])
    one, other = np.nonzero(~np.eye(count, dtype=bool))
    host = np.array([clocks[at].host_id for at in group.clocks])
    reach = np.array([cluster_extent(group, place, clocks) for place in range(count)])
    low = np.maximum(reach[one, 0], reach[other, 0])
    high = np.minimum(reach[one, 1], reach[other, 1])
    rows = {
        "host_id": np.repeat(host[one], len(starts)),
        "other_host_id": np.repeat(host[other], len(starts)),
        "from_ts_ns": np.maximum(starts[None], low[:, None]).ravel(),
        "to_ts_ns": np.minimum(ends[None], high[:, None]).ravel(),
        "error_ns": error[one, other].ravel(),
    }
    keep = rows["from_ts_ns"] < rows["to_ts_ns"]
    keep &= rows["host_id"] != rows["other_host_id"]
    kept = {name: values[keep] for name, values in rows.items()}
    method = "pair" if is_pair else "sum"
    return kept | {"method": np.array([method] * int(keep.sum()), dtype=object)}


def cluster_extent(
    group: Group, place: int, clocks: Sequence[HostClock]
) -> tuple[int, int]:
    """Return between which cluster times a clock (a part of a host's) holds."""
    clock = clocks[group.clocks[place]]
    reference = clocks[group.clocks[group.reference]]
    line = group.lines[place]
    middle = group.middle()[place]

    def cluster(own_ns: int | None, far: int, at: int) -> int:
        if own_ns is None:
            return far
        straight, _ = clock.straight(np.array([own_ns]))
        common = line.common(straight) + round(middle[at])
        return int(reference.bent(common)[0])

    return cluster(clock.from_ns, -FAR_NS, 0), cluster(clock.to_ns, FAR_NS, -1)


def _largest_bend_error(clock: HostClock) -> int:
    return 0 if clock.slew is None else int(np.ceil(clock.slew.error_ns.max()))


def concatenate(parts: Sequence[dict[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
    """Return several sets of rows as one."""
    if not parts:
        return {}
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
