"""The job again on paper: its meetings replayed with other lengths, many lanes at once.

Every rank works its own segments, meets the others, and all leave after the recorded
transfer.  A lane is one choice of lengths: as recorded; ideal; for each rank, that rank
as recorded and all others ideal; and for each, that rank ideal and all others recorded.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

RECORDED, IDEAL, FIRST_ALONE = 0, 1, 2
"""Lanes; FIRST_ALONE + r has rank number r alone as recorded, and after those of all
ranks comes a lane each with rank number r alone ideal."""


def first_without(rank_count: int) -> int:
    """Return the lane in which rank number 0 is ideal and the others as recorded."""
    return FIRST_ALONE + rank_count


@dataclass(frozen=True, kw_only=True, slots=True)
class Meeting:
    """One rendezvous: one element a member that attends it."""

    rank: NDArray[np.int64]
    own: NDArray[np.float64]
    ideal: NDArray[np.float64]
    stay: NDArray[np.float64]
    is_source: NDArray[np.bool_]
    is_waiting: NDArray[np.bool_]
    transfer: float


def simulate_window(events: pl.DataFrame, *, rank_count: int) -> NDArray[np.float64]:
    """Return how long the events take in each lane, all ranks beginning together."""
    if _is_plain(events, rank_count):
        return simulate_together(events, rank_count=rank_count)
    return simulate(meetings_of(events), rank_count=rank_count)


def _is_plain(events: pl.DataFrame, rank_count: int) -> bool:
    """Return whether all ranks attend every meeting and all wait for all."""
    attending = pl.len().over("meeting")
    return events.select(
        (pl.col("is_source") & pl.col("is_waiting") & (attending == rank_count)).all()
    ).item()


def meetings_of(events: pl.DataFrame) -> list[Meeting]:
    """Return the rendezvous in an order that every rank's own order allows."""
    ordered = events.sort("meeting", "number", maintain_order=True)
    column = {name: ordered[name].to_numpy() for name in ordered.columns}
    first = np.flatnonzero(np.diff(column["meeting"], prepend=-1))
    bounds = [*first.tolist(), len(ordered)]
    by_id = {
        int(column["meeting"][low]): Meeting(
            rank=column["number"][low:high].astype(np.int64),
            own=column["own_ns"][low:high],
            ideal=column["ideal_ns"][low:high],
            stay=column["stay_ns"][low:high],
            is_source=column["is_source"][low:high],
            is_waiting=column["is_waiting"][low:high],
            transfer=float(column["transfer_ns"][low]),
        )
        for low, high in pairwise(bounds)
    }
    queues = [
        deque(mine["meeting"].to_list())
        for _, mine in events.group_by("number", maintain_order=True)
    ]
    return [by_id[meeting] for meeting in topological(queues)]


def topological(queues: list[deque[int]]) -> list[int]:
    """Return meetings in an order in which each comes after those before it.

    Parameters
    ----------
    queues
        The meetings of each rank in its own order; used up.

    Notes
    -----
    Where ranks disagree on the order (calls of two threads that overlap) the meeting
    that most members have come to goes first, and the others skip it later.
    """
    members: dict[int, int] = {}
    for queue in queues:
        for meeting in queue:
            members[meeting] = members.get(meeting, 0) + 1
    come: dict[int, list[int]] = {}
    order: list[int] = []
    done: set[int] = set()
    moving = deque(range(len(queues)))
    while moving or come:
        if not moving:
            ready = max(come, key=lambda meeting: (len(come[meeting]), -meeting))
        else:
            rank = moving.popleft()
            queue = queues[rank]
            while queue and queue[0] in done:
                queue.popleft()
            if not queue:
                continue
            ready = queue[0]
            come.setdefault(ready, []).append(rank)
            if len(come[ready]) < members[ready]:
                continue
        done.add(ready)
        order.append(ready)
        moving.extend(come.pop(ready))
    return order


def simulate(meetings: Sequence[Meeting], *, rank_count: int) -> NDArray[np.float64]:
    """Return the length of each lane: the time at which its last rank ends."""
    without = first_without(rank_count)
    ends = np.zeros((rank_count, without + rank_count))
    for meeting in meetings:
        rank, late = meeting.rank, meeting.own - meeting.ideal
        arrival = ends[rank] + meeting.ideal[:, None]
        own = np.arange(len(rank))
        arrival[:, RECORDED] += late
        arrival[own, FIRST_ALONE + rank] += late
        arrival[:, without:] += late[:, None]
        arrival[own, without + rank] -= late
        waiting = meeting.is_waiting
        if meeting.is_source.any():
            start = arrival[meeting.is_source].max(axis=0)
            together = np.maximum(arrival[waiting], start) + meeting.transfer
        else:
            together = arrival[waiting] + meeting.transfer
        ends[rank[waiting]] = together
        ends[rank[~waiting]] = arrival[~waiting] + meeting.stay[~waiting, None]
    return ends.max(axis=0)


def simulate_together(events: pl.DataFrame, *, rank_count: int) -> NDArray[np.float64]:
    """Return the same where all ranks meet every time: sums of maxima, at once.

    After each meeting all ranks stand at one time in every lane, so a lane in which
    rank r alone differs takes the larger of its segment and the largest of all others.
    """
    ordered = events.sort("meeting", "number", maintain_order=True)
    own, ideal, transfers = (
        ordered[name].to_numpy().reshape(-1, rank_count)
        for name in ("own_ns", "ideal_ns", "transfer_ns")
    )
    return transfers[:, 0].sum() + np.concatenate(
        [
            [own.max(axis=1).sum(), ideal.max(axis=1).sum()],
            np.maximum(own, _largest_other(ideal)).sum(axis=0),
            np.maximum(ideal, _largest_other(own)).sum(axis=0),
        ]
    )


def _largest_other(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return for each element the largest of its row beside it."""
    if values.shape[1] == 1:
        return np.zeros_like(values)
    largest_two = np.sort(values, axis=1)[:, -2:]
    is_largest = np.zeros(values.shape, dtype=bool)
    is_largest[np.arange(len(values)), values.argmax(axis=1)] = True
    return np.where(is_largest, largest_two[:, :1], largest_two[:, 1:])
