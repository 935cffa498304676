"""Bars of time stacked by budget class, as more than one chart draws them."""

from __future__ import annotations

import altair as alt
import polars as pl

from workbench.charts.theme import CLASS_COLOURS, WIDTH, class_colour


def class_bars(
    frame: pl.DataFrame, by: str, *, title: str, bar: int, step: int
) -> alt.Chart:
    """Return bars of `mean_ms` stacked by budget class, one for each value of `by`.

    The bars stand in the order of column `place`, the classes in that of the theme.
    """
    order = frame.sort("place")[by].unique(maintain_order=True).to_list()
    places = {name: place for place, name in enumerate(CLASS_COLOURS)}
    stacked = frame.with_columns(
        stack=pl.col("class").replace_strict(
            places, default=len(places), return_dtype=pl.Int32
        )
    )
    return (
        alt.Chart(stacked)
        .mark_bar(height=bar)
        .encode(
            x=alt.X("mean_ms:Q", title=title),
            y=alt.Y(f"{by}:N", sort=order, title=None, axis=alt.Axis(tickSize=0)),
            color=class_colour(frame["class"]),
            order=alt.Order("stack:Q"),
            tooltip=[by, "class", alt.Tooltip("mean_ms", format=".3f")],
        )
        .properties(width=WIDTH, height=alt.Step(step))
    )
