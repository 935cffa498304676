"""Who was late, step by step: one row a rank, one cell a step."""

from __future__ import annotations

import altair as alt
import polars as pl

from workbench.charts.theme import CONFIG

LATENESS_SCHEMA = {"rank": pl.Int32, "step": pl.Int64, "excess_ms": pl.Float64}
"""Frame of :func:`lateness_map`: own time of a step beyond the median of its role."""

MOST_LABELS = 16
"""Steps that are named on the axis: more would touch one another."""


def lateness_map(frame: pl.DataFrame, *, title: str, subtitle: str) -> alt.Chart:
    """Return a heat map of how much longer each rank's own work took than its peers'.

    Parameters
    ----------
    frame
        One row per (rank, step) with the columns of ``LATENESS_SCHEMA``; at most
        5,000 rows.
    title
        The reading, for instance "Rank 5 holds the job up".
    subtitle
        How much and how often.

    Returns
    -------
    altair.Chart
        Ranks in numeric order from top to bottom, steps from left to right.
    """
    rank = alt.Y("rank:O", sort="ascending", title="rank", axis=alt.Axis(tickSize=0))
    steps = frame["step"].unique().sort().to_list()
    labelled = steps[:: max(1, -(-len(steps) // MOST_LABELS))]
    ticks = alt.Axis(labelAngle=0, values=labelled, tickSize=0)
    step = alt.X("step:O", title="step", axis=ticks)
    excess = alt.Color(
        "excess_ms:Q",
        title="own time beyond peers (ms)",
        scale=alt.Scale(scheme="lighttealblue", domainMin=0, clamp=True),
        legend=alt.Legend(orient="bottom", gradientLength=220),
    )
    chart = alt.Chart(frame.select(*LATENESS_SCHEMA))
    return (
        chart.mark_rect()
        .encode(x=step, y=rank, color=excess)
        .properties(
            width=720,
            height=alt.Step(22),
            title=alt.Title(title, subtitle=subtitle),
        )
        .configure(**CONFIG)
    )
