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

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from workbench.analysis import (
    activity,
    model_rows,
    op_what_if,
    paper_slowdown,
    replay,
    straggler_pattern,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from workbench.store.case import Case

    ScoredJob = tuple[str, pl.DataFrame, list[dict[str, Any]], dict[str, Any]]
    """Job, events of its ranks, scores of its ranks and windows, row of the job."""

READS = (*activity.READS, *op_what_if.READS, "threshold")
WRITES = ("what_if", "what_if_job", "straggler_pattern")

WINDOW_STEPS = 50
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
    "job_without_ns",
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


def run(case: Case) -> None:
    """Compute the tables of this model: recorded jobs, then imported traces."""
    calls = case.frame(activity.EVENTS)
    limits = dict(case.frame("select name, value from threshold").iter_rows())
    rows: list[dict[str, Any]] = []
    jobs: list[dict[str, Any]] = []
    patterns: list[dict[str, Any]] = []
    for job_id, events, scores, job in _scored(case, calls):
        rows += [{"job_id": job_id} | score for score in scores]
        jobs.append({"job_id": job_id} | job)
        patterns += [
            {"job_id": job_id} | pattern
            for pattern in straggler_pattern.patterns(events, scores, limits)
        ]
    _write(case, "what_if", COLUMNS, rows)
    _write(case, "what_if_job", paper_slowdown.COLUMNS, jobs)
    _write(case, "straggler_pattern", straggler_pattern.COLUMNS, patterns)


def _scored(case: Case, calls: pl.DataFrame) -> Iterator[ScoredJob]:
    """Yield each job with its events, the scores of its ranks, and its own row."""
    for (job_id,), mine in calls.group_by("job_id", maintain_order=True):
        events = activity.events(mine)
        if not events.is_empty():
            job = paper_slowdown.job_row(events)
            yield str(job_id), events, score_job(events), job
    for trace in op_what_if.traces(case):
        own = op_what_if.own_times(trace)
        scores = score_trace(trace, own)
        yield trace.job_id, own, scores, op_what_if.job_row(trace)


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
        lanes = replay.simulate_window(inside, rank_count=len(ranks))
        rows += _scores(inside, window, lanes)
    return rows


def score_trace(trace: op_what_if.Trace, own: pl.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of ``model.what_if`` of an imported trace, without the job."""
    times = op_what_if.role_times(trace)
    numbered = own.with_columns(number=pl.col("rank").rank("dense") - 1)
    rows = []
    for window in windows_of(trace.steps):
        is_in = (trace.steps >= window.from_step) & (trace.steps <= window.to_step)
        inside = numbered.filter(
            pl.col("step").is_between(window.from_step, window.to_step)
        )
        rows += _scores(inside, window, times[is_in].sum(axis=0))
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
    ideal, actual = float(lanes[replay.IDEAL]), float(lanes[replay.RECORDED])
    excess = actual - ideal
    without = len(lanes) // 2 + 1
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
            "job_without_ns": round(float(lanes[without + row["number"]])),
            "wait_ns": round(row["wait_ns"]),
            "role_median_wait_ns": round(row["median"]),
        }
        for row in per_rank.iter_rows(named=True)
        for alone in [float(lanes[replay.FIRST_ALONE + row["number"]])]
    ]


def _ratio(value: float, ideal: float) -> float:
    return value / ideal if ideal > 0 else 1.0
