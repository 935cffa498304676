"""How much slower a recorded job ran than its ideal, and whose share the worst have.

Notes
-----
The slowdown S and the worker share M_W are those of "Understanding Stragglers in Large
Model Training" (OSDI 2025): the ideal of an own segment is its mean over all ranks and
steps at the same place of the step; the worst 3 % of the ranks are those that, alone as
recorded, make the job slowest.  Transfers stay as recorded in every lane: what all
members stay is the network's, and this capture does not see inside it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from workbench.analysis import replay

if TYPE_CHECKING:
    from numpy.typing import NDArray

COLUMNS = (
    "job_id",
    "step_count",
    "actual_ns",
    "ideal_ns",
    "slowdown_ratio",
    "worst_ranks",
    "worst_share_ratio",
    "last_stage_share_ratio",
)

WORST_SHARE = 0.03
"""Part of the ranks that M_W takes as ideal, at least one."""


def job_row(events: pl.DataFrame) -> dict[str, Any]:
    """Return the row of ``model.what_if_job`` of a recorded job, without the job.

    Parameters
    ----------
    events
        What ``activity.events`` returns.
    """
    uneven = events.with_columns(
        number=pl.col("rank").rank("dense") - 1,
        place=pl.int_range(pl.len()).over("rank", "step"),
    ).with_columns(ideal_ns=pl.col("own_ns").mean().over("place"))
    ranks = uneven["rank"].unique().sort()
    count = len(ranks)
    lanes = replay.simulate_window(uneven, rank_count=count)
    worst = worst_of(lanes[replay.FIRST_ALONE : replay.first_without(count)])
    actual, ideal = float(lanes[replay.RECORDED]), float(lanes[replay.IDEAL])
    steps = uneven["step"].n_unique()
    return {
        "step_count": steps,
        "actual_ns": round(actual / steps),
        "ideal_ns": round(ideal / steps),
        "slowdown_ratio": actual / ideal if ideal > 0 else 1.0,
        "worst_ranks": [ranks[at] for at in worst],
        "worst_share_ratio": part(actual - _without(uneven, lanes, worst), lanes),
        "last_stage_share_ratio": None,
    }


def worst_of(slowness: NDArray[np.float64]) -> list[int]:
    """Return the positions of the slowest few, at least one."""
    count = math.ceil(len(slowness) * WORST_SHARE)
    return np.argsort(-slowness, kind="stable")[:count].tolist()


def part(value: float, lanes: NDArray[np.float64]) -> float | None:
    """Return a length as a part of the whole excess; None where there is none."""
    excess = float(lanes[replay.RECORDED] - lanes[replay.IDEAL])
    return value / excess if excess > 0 else None


def _without(
    uneven: pl.DataFrame, lanes: NDArray[np.float64], worst: list[int]
) -> float:
    """Return the length of the job with these ranks ideal."""
    count = (len(lanes) - replay.FIRST_ALONE) // 2
    if len(worst) == 1:
        return float(lanes[replay.first_without(count) + worst[0]])
    mended = uneven.with_columns(
        own_ns=pl.when(pl.col("number").is_in(worst))
        .then("ideal_ns")
        .otherwise("own_ns")
    )
    return float(replay.simulate_window(mended, rank_count=count)[replay.RECORDED])
