"""Return in which steps each rank was late, how regularly and by how much.

The excess of a step is the rank's own time in it less the median of its role in the
same step.  A rank late by 290 ms at each 14th step has thirteen small excesses of noise
for every large one, and a rank late at every step has none that is small; so late is
what reaches a part of the excess that makes up the bulk of all excess of this rank (the
weighted median, weights the excess itself) and a part of an ideal step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

FEW_FOR_PERIOD = 4
"""Late steps below which a period is not named."""

COLUMNS = (
    "job_id",
    "rank",
    "window_kind",
    "window_from_step",
    "window_to_step",
    "step_count",
    "affected_step_count",
    "affected_steps",
    "period_steps",
    "magnitude_ns",
)


def patterns(
    events: pl.DataFrame,
    scores: Sequence[Mapping[str, Any]],
    limits: Mapping[str, float],
) -> list[dict[str, Any]]:
    """Return the rows of ``model.straggler_pattern`` of one job, without the job.

    Parameters
    ----------
    events
        What ``activity.events`` returns.
    scores
        Rows of the what-if model: each rank and window.
    limits
        Values of the view ``threshold`` by name.
    """
    excess = {
        rank: mine
        for (rank,), mine in step_excess(events).group_by("rank", maintain_order=True)
    }
    return [_pattern(excess[score["rank"]], score, limits) for score in scores]


def step_excess(events: pl.DataFrame) -> pl.DataFrame:
    """Return rank, role, step and excess_ns, sorted by rank and step."""
    own = events.group_by("rank", "role", "step").agg(pl.col("own_ns").sum())
    median = pl.col("own_ns").median().over("role", "step")
    return own.with_columns(excess_ns=pl.col("own_ns") - median).sort("rank", "step")


def _pattern(
    mine: pl.DataFrame, score: Mapping[str, Any], limits: Mapping[str, float]
) -> dict[str, Any]:
    inside = mine.filter(
        pl.col("step").is_between(score["window_from_step"], score["window_to_step"])
    )
    step, excess = inside["step"].to_numpy(), inside["excess_ns"].to_numpy()
    ideal_step = score["job_ideal_ns"] / max(score["step_count"], 1)
    late = late_steps(
        excess,
        least=limits["affected_step"] * ideal_step,
        part=limits["affected_part"],
    )
    return {
        name: score[name]
        for name in ("rank", "window_kind", "window_from_step", "window_to_step")
    } | {
        "step_count": len(step),
        "affected_step_count": int(late.sum()),
        "affected_steps": step[late].tolist(),
        "period_steps": period(step[late], agreement=limits["period_agreement"]),
        "magnitude_ns": round(float(np.median(excess[late]))) if late.any() else None,
    }


def late_steps(
    excess: NDArray[np.float64], *, least: float, part: float
) -> NDArray[np.bool_]:
    """Return which steps were late: beyond `least` and a part of the typical excess."""
    return (excess >= max(least, part * typical_excess(excess))) & (excess > 0)


def typical_excess(excess: NDArray[np.float64]) -> float:
    """Return the size from which on excesses make up half of their sum."""
    positive = np.sort(excess[excess > 0])[::-1]
    if not len(positive):
        return 0.0
    reached = np.cumsum(positive) >= positive.sum() / 2
    return float(positive[int(reached.argmax())])


def period(late: NDArray[np.int64], *, agreement: float) -> int | None:
    """Return the distance of late steps, if most distances are the same."""
    if len(late) < FEW_FOR_PERIOD:
        return None
    gaps = np.diff(late)
    usual = int(np.sort(gaps)[len(gaps) // 2])
    return usual if float((gaps == usual).mean()) >= agreement else None
