"""Who was late, step by step: one row a rank, one cell a step."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

import altair as alt
import polars as pl

from workbench.charts.accused import LATE_STEP, job_of_interest
from workbench.charts.frame import MOST_ROWS, chart_frame
from workbench.charts.heat_rows import heat_rows
from workbench.charts.reading import figure
from workbench.charts.theme import WIDTH, themed

if TYPE_CHECKING:
    from workbench.store.case import Case

LATENESS_SCHEMA = {
    "row": pl.String,
    "place": pl.Int64,
    "step": pl.Int64,
    "excess_ms": pl.Float64,
    "late_count": pl.Int64,
    "period_steps": pl.Int64,
    "step_width": pl.Int64,
    "row_is": pl.String,
}
"""Frame of :func:`lateness_chart`, one row a rank (or host) and step (or few steps).

``excess_ms`` is own time beyond the median of the role, the largest of the cell;
``late_count`` the steps of the cell in which its rank is accused.
"""

MOST_LABELS = 16
"""Steps that are named on the axis: more would touch one another."""

LATENESS = """
    with line as ({rows}),
    late as ({late})
    select
        line.label as row,
        line.place,
        (e.step - e.step % $width)::bigint as step,
        1e-6 * max(e.excess_ns) as excess_ms,
        count(late.step) as late_count,
        max(late.period_steps)::bigint as period_steps,
        $width::bigint as step_width,
        $row_is as row_is
    from step_excess as e
    inner join rank as r on e.job_id = r.job_id and e.rank = r.rank
    inner join line on {match}
    left join late
        on e.job_id = late.job_id and e.rank = late.rank and e.step = late.step
    where e.job_id = $job_id
    group by line.label, line.place, e.step - e.step % $width
    order by line.place, step
"""


def lateness_frame(case: Case, *, job_id: str | None = None) -> pl.DataFrame:
    """Return own time beyond peers of each rank and step, as `LATENESS_SCHEMA`.

    Above 64 ranks a row is a host; where cells would be too many, one is several steps.
    A cell keeps the largest excess in it.
    """
    job_id = job_id or job_of_interest(case)
    if job_id is None:
        return pl.DataFrame(schema=LATENESS_SCHEMA)
    rows, row_is = heat_rows(case, job_id)
    match = "r.rank = line.rank" if row_is == "rank" else "r.host_id = line.host_id"
    counts = case.frame(
        "select count(distinct rank), max(step) - min(step) + 1 from step_excess"
        " where job_id = ?",
        [job_id],
    )
    ranks, steps = counts.row(0)
    width = max(1, -(-min(ranks, 80) * (steps or 1) // (MOST_ROWS - 100)))
    sql = LATENESS.format(rows=rows, late=LATE_STEP, match=match)
    return chart_frame(case, sql, {"job_id": job_id, "width": width, "row_is": row_is})


def lateness_chart(frame: pl.DataFrame) -> alt.Chart:
    """Return a heat map of how much longer each rank's own work took than its peers'.

    Parameters
    ----------
    frame
        Columns of `LATENESS_SCHEMA`.

    Returns
    -------
    altair.Chart
        Ranks in numeric order from top to bottom, steps from left to right.
    """
    title, subtitle = _reading(frame)
    row_is = frame["row_is"][0] if frame.height else "rank"
    order = frame.sort("place")["row"].unique(maintain_order=True).to_list()
    steps = frame["step"].unique().sort().to_list()
    labelled = steps[:: max(1, -(-len(steps) // MOST_LABELS))]
    row = alt.Y("row:O", sort=order, title=row_is, axis=alt.Axis(tickSize=0))
    ticks = alt.Axis(labelAngle=0, values=labelled, tickSize=0)
    excess = alt.Color(
        "excess_ms:Q",
        title="own time beyond peers (ms)",
        scale=alt.Scale(scheme="lighttealblue", domainMin=0, clamp=True),
        legend=alt.Legend(gradientLength=220),
    )
    chart = (
        alt.Chart(frame)
        .mark_rect()
        .encode(
            x=alt.X("step:O", title="step", axis=ticks),
            y=row,
            color=excess,
            tooltip=["row", "step", alt.Tooltip("excess_ms", format=".3f")],
        )
        .properties(
            width=alt.Step(_cell_width(len(steps))),
            height=alt.Step(22 if len(order) <= 32 else 8),  # noqa: PLR2004
        )
    )
    return themed(chart, title=title, subtitle=subtitle)


def _cell_width(count: int) -> float:
    """Return a width of whole half pixels: any other leaves seams between cells."""
    return max(1.0, round(2 * WIDTH / max(count, 1)) / 2)


def _reading(frame: pl.DataFrame) -> tuple[str, str]:
    """Return who is late and how often, and how much, as the verdict says it."""
    if frame.is_empty():
        return "No steps in this case", "nothing to compare"
    width = frame["step_width"][0]
    cell = "each cell is one step" if width == 1 else f"a cell: worst of {width} steps"
    late = frame.filter(pl.col("late_count") > 0)
    if late.is_empty():
        return "No rank holds the job up", f"own time of each step beyond peers; {cell}"
    (worst, *others) = late["row"].value_counts(sort=True)["row"].to_list()
    mine = late.filter(pl.col("row") == worst)
    period, count = mine["period_steps"][0], sum(mine["late_count"])
    subject = f"{frame['row_is'][0].capitalize()} {worst}"
    when = _when(period, count)
    more = f", and {len(others)} more" if others else ""
    typical = statistics.median(mine["excess_ms"])
    return (
        f"{subject} is late {when}{more}",
        f"{figure(typical)} ms beyond its peers (median) in {count} late steps; {cell}",
    )


def _when(period: int | None, count: int) -> str:
    if period == 1:
        return "at every step"
    return f"at each {_ordinal(period)} step" if period else f"in {count} steps"


def _ordinal(number: int) -> str:
    is_teen = 10 < number % 100 < 14  # noqa: PLR2004 - eleventh, twelfth, thirteenth
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if is_teen else ending}"
