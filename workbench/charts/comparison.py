"""Two cases beside one another: how a step's time was spent in each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from workbench.charts.accused import job_of_interest
from workbench.charts.class_bars import class_bars
from workbench.charts.frame import chart_frame, drawable
from workbench.charts.reading import figure
from workbench.charts.theme import themed

if TYPE_CHECKING:
    import altair as alt

    from workbench.store.case import Case

COMPARISON_SCHEMA = {
    "run": pl.String,
    "place": pl.Int64,
    "class": pl.String,
    "mean_ms": pl.Float64,
    "step_count": pl.Int64,
    "rank_count": pl.Int64,
}
"""Frame of :func:`comparison_chart`, one row a run and class."""

COMPARISON = """
    with sized as (
        select count(distinct step) as step_count, count(distinct rank) as rank_count,
            count(distinct (rank, step)) as cell_count
        from step_budget where job_id = $job_id and is_main
    )
    select
        $run as run,
        $place::bigint as place,
        b.class,
        1e-6 * sum(b.duration_ns)::bigint / any_value(s.cell_count) as mean_ms,
        any_value(s.step_count) as step_count,
        any_value(s.rank_count) as rank_count
    from step_budget as b
    cross join sized as s
    where b.job_id = $job_id and b.is_main
    group by b.class
    order by b.class
"""


def comparison_frame(
    base: Case, other: Case, *, names: tuple[str, str] = ("base", "other")
) -> pl.DataFrame:
    """Return the mean step of two cases by class, as `COMPARISON_SCHEMA`."""
    frames = [
        chart_frame(
            case,
            COMPARISON,
            {"job_id": job_of_interest(case), "run": name, "place": place},
        )
        for place, (case, name) in enumerate(zip((base, other), names, strict=True))
    ]
    return drawable(pl.concat(frames))


def comparison_chart(frame: pl.DataFrame) -> alt.Chart:
    """Return one stacked bar a run.

    Parameters
    ----------
    frame
        Columns of `COMPARISON_SCHEMA`.
    """
    title, subtitle = _reading(frame)
    chart = class_bars(
        frame, "run", title="mean time of a step, all ranks (ms)", bar=24, step=34
    )
    return themed(chart, title=title, subtitle=subtitle)


def _reading(frame: pl.DataFrame) -> tuple[str, str]:
    """Return how much longer a step is, and the class that changed most."""
    if frame["run"].n_unique() != 2:  # noqa: PLR2004 - two runs
        return "There are no two runs with steps to compare", ""
    total = frame.group_by("run", "place").agg(pl.col("mean_ms").sum()).sort("place")
    (base, _, before), (other, _, after) = total.iter_rows()
    change = (
        frame.with_columns(
            signed=pl.col("mean_ms")
            * pl.when(pl.col("run") == base).then(-1).otherwise(1)
        )
        .group_by("class")
        .agg(pl.col("signed").sum())
        .sort(pl.col("signed").abs(), "class", descending=[True, False])
    )
    name, by = change.row(0)
    counts = frame.sort("place")["step_count"].unique(maintain_order=True)
    more = figure(100 * (after / before - 1), signed=True)
    note = f"{' and '.join(map(str, counts))} steps, no test of significance"
    most = f"{name} changed most, {figure(by, signed=True)} ms"
    return (
        f"A step of {other} takes {more} %",
        f"{figure(before)} to {figure(after)} ms; {most}; {note}",
    )
