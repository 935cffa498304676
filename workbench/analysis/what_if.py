"""The what-if model: the job again on paper, with one rank at a time as it was.

Notes
-----
Slowdown and what-if are those of "Understanding Stragglers in Large Model Training"
(OSDI 2025); the ideal is the median of the role at the same place of the same step and
not the mean over all, which would accuse a pipeline's longest stage.  The share is by
addition (this rank late and no other), not by removal, so two equal stragglers do not
hide each other.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from workbench.analysis import activity, model_rows, straggler_pattern

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from workbench.store.case import Case

READS = (*activity.READS, "threshold")
WRITES = ("what_if", "straggler_pattern")

WINDOW_STEPS = 50
RECORDED, IDEAL, FIRST_ALONE = 0, 1, 2
"""Lanes of a simulation; lane FIRST_ALONE + r has rank number r alone as recorded."""

COLUMNS = (
    "job_id",
    "rank",
    "window_kind",
    "window_from_step",
    "window_to_step",
    "step_count",
    "role",
    "role_member_count",
    "alone_ratio",
    "share_ratio",
    "slowdown_ratio",
    "job_ideal_ns",
    "job_alone_ns",
    "job_actual_ns",
    "wait_ns",
    "role_median_wait_ns",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    """A range of steps, both ends in it."""

    kind: str
    from_step: int
    to_step: int
    step_count: int


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


def run(case: Case) -> None:
    """Compute ``model.what_if`` and ``model.straggler_pattern`` of a case."""
    calls = case.frame(activity.EVENTS)
    limits = dict(case.frame("select name, value from threshold").iter_rows())
    rows: list[dict[str, Any]] = []
    patterns: list[dict[str, Any]] = []
    for (job_id,), mine in calls.group_by("job_id", maintain_order=True):
        events = activity.events(mine)
        if events.is_empty():
            continue
        scores = score_job(events)
        rows += [{"job_id": job_id} | score for score in scores]
        patterns += [
            {"job_id": job_id} | pattern
            for pattern in straggler_pattern.patterns(events, scores, limits)
        ]
    _write(case, "what_if", COLUMNS, rows)
    _write(case, "straggler_pattern", straggler_pattern.COLUMNS, patterns)


def _write(
    case: Case, table: str, names: Sequence[str], rows: Sequence[dict[str, Any]]
) -> None:
    columns = {name: [row[name] for row in rows] for name in names}
    model_rows.replace_rows(case, table, columns)


def windows_of(steps: NDArray[np.int64]) -> list[Window]:
    """Return the whole run, and each WINDOW_STEPS steps of it where that is less.

    A rest below half a window joins the one before it.
    """
    steps = np.unique(steps)
    run_window = Window(
        kind="run",
        from_step=int(steps[0]),
        to_step=int(steps[-1]),
        step_count=len(steps),
    )
    edges = list(range(0, len(steps), WINDOW_STEPS))
    if len(edges) > 1 and len(steps) - edges[-1] < WINDOW_STEPS / 2:
        edges.pop()
    if len(edges) < 2:  # noqa: PLR2004 -- one window would be the run again
        return [run_window]
    parts = [steps[low:high] for low, high in pairwise([*edges, len(steps)])]
    return [
        run_window,
        *(
            Window(
                kind="window",
                from_step=int(part[0]),
                to_step=int(part[-1]),
                step_count=len(part),
            )
            for part in parts
        ),
    ]


def score_job(events: pl.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of ``model.what_if`` of one job, without the job.

    Parameters
    ----------
    events
        What ``activity.events`` returns.
    """
    ranks = events["rank"].unique().sort()
    numbered = events.with_columns(number=pl.col("rank").rank("dense") - 1)
    rows = []
    for window in windows_of(events["step"].to_numpy()):
        inside = numbered.filter(
            pl.col("step").is_between(window.from_step, window.to_step)
        )
        lanes = simulate_window(inside, rank_count=len(ranks))
        rows += _scores(inside, window, lanes)
    return rows


def _scores(
    inside: pl.DataFrame, window: Window, lanes: NDArray[np.float64]
) -> list[dict[str, Any]]:
    """Return a row for each rank that took part in the window."""
    per_rank = (
        inside.group_by("number", "rank", "role")
        .agg(pl.col("wait_ns").sum())
        .with_columns(
            median=pl.col("wait_ns").median().over("role"),
            members=pl.len().over("role"),
        )
        .sort("rank")
    )
    ideal, actual = float(lanes[IDEAL]), float(lanes[RECORDED])
    excess = actual - ideal
    return [
        {
            "rank": row["rank"],
            "window_kind": window.kind,
            "window_from_step": window.from_step,
            "window_to_step": window.to_step,
            "step_count": window.step_count,
            "role": row["role"],
            "role_member_count": row["members"],
            "alone_ratio": _ratio(alone, ideal),
            "share_ratio": (alone - ideal) / excess if excess > 0 else 0.0,
            "slowdown_ratio": _ratio(actual, ideal),
            "job_ideal_ns": round(ideal),
            "job_alone_ns": round(alone),
            "job_actual_ns": round(actual),
            "wait_ns": round(row["wait_ns"]),
            "role_median_wait_ns": round(row["median"]),
        }
        for row in per_rank.iter_rows(named=True)
        for alone in [float(lanes[FIRST_ALONE + row["number"]])]
    ]


def _ratio(value: float, ideal: float) -> float:
    return value / ideal if ideal > 0 else 1.0


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
    ends = np.zeros((rank_count, FIRST_ALONE + rank_count))
    for meeting in meetings:
        rank, late = meeting.rank, meeting.own - meeting.ideal
        arrival = ends[rank] + meeting.ideal[:, None]
        arrival[:, RECORDED] += late
        arrival[np.arange(len(rank)), FIRST_ALONE + rank] += late
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

    After each meeting all ranks stand at one time in every lane, so lane r takes the
    larger of rank r's own segment and the largest ideal one of all others.
    """
    ordered = events.sort("meeting", "number", maintain_order=True)
    own, ideal, transfers = (
        ordered[name].to_numpy().reshape(-1, rank_count)
        for name in ("own_ns", "ideal_ns", "transfer_ns")
    )
    transfer = transfers[:, 0].sum()
    largest_two = np.sort(ideal, axis=1)[:, -2:]
    is_largest = np.zeros(ideal.shape, dtype=bool)
    is_largest[np.arange(len(ideal)), ideal.argmax(axis=1)] = True
    others = np.where(is_largest, largest_two[:, :1], largest_two[:, 1:])
    return (
        np.concatenate(
            [
                [own.max(axis=1).sum(), largest_two[:, 1].sum()],
                np.maximum(own, others).sum(axis=0),
            ]
        )
        + transfer
    )
