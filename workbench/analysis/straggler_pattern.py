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

THIRDS = 3
STEADY = (0.25, 0.75)
"""How far up the middle third must lie where an excess grows and did not jump."""

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
    "onset_step",
    "growth_ns",
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
    least = limits["affected_step"] * ideal_step
    late = late_steps(excess, least=least, part=limits["affected_part"])
    return {
        name: score[name]
        for name in ("rank", "window_kind", "window_from_step", "window_to_step")
    } | {
        "step_count": len(step),
        "affected_step_count": int(late.sum()),
        "affected_steps": step[late].tolist(),
        "period_steps": period(step[late], agreement=limits["period_agreement"]),
        "onset_step": onset(step, late, share=limits["onset_share"]),
        "growth_ns": growth(excess, least=least),
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


def onset(
    step: NDArray[np.int64], late: NDArray[np.bool_], *, share: float
) -> int | None:
    """Return the first late step, if it was not late before and mostly was after.

    A rank that is late from the beginning, or now and then, has no onset.
    """
    if not late.any():
        return None
    first = int(late.argmax())
    if first < max(FEW_FOR_PERIOD, len(late) / 10) or late[first:].mean() < share:
        return None
    return int(step[first])


def growth(excess: NDArray[np.float64], *, least: float) -> int | None:
    """Return by how much the excess grows a step, if it does so steadily.

    Notes
    -----
    From the medians of the first and the last third, whose middles are two thirds of
    the steps apart; a jump leaves the middle third at one of the two.
    """
    if len(excess) < THIRDS * FEW_FOR_PERIOD:
        return None
    low, middle, high = (
        float(np.median(part)) for part in np.array_split(excess, THIRDS)
    )
    if high - low < max(least, 1.0):
        return None
    if not STEADY[0] <= (middle - low) / (high - low) <= STEADY[1]:
        return None
    return round((high - low) / (len(excess) * (THIRDS - 1) / THIRDS))
