"""Any measure over time: one row a rank or host, one cell a moment."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import altair as alt
import polars as pl

from workbench.charts.accused import job_of_interest
from workbench.charts.cluster_time import PLACED_CLOCK, axis_s
from workbench.charts.frame import chart_frame
from workbench.charts.heat_rows import heat_rows
from workbench.charts.reading import figure
from workbench.charts.theme import WIDTH, themed

if TYPE_CHECKING:
    from workbench.store.case import Case


@dataclass(frozen=True, kw_only=True, slots=True)
class Measure:
    """A number that ranks or hosts have at moments.

    ``sql`` selects ``host_id``, ``rank`` (may be NULL), ``start_ns`` and ``end_ns``
    (host MONOTONIC) and ``value`` in ``unit``; a cell holds the ``aggregate`` of the
    values whose time reaches into it.
    """

    label: str
    unit: str
    aggregate: Literal["max", "avg", "sum"]
    sql: str


_STEP = """
    select w.host_id, w.rank, s.start_ns, s.end_ns, 1e-6 * w.{column} as value
    from step_work as w
    inner join model.step as s
        on w.job_id = s.job_id and w.rank = s.rank and w.step = s.step
        and w.host_id = s.host_id
"""
_CLASS = """
    select
        b.host_id, b.rank, s.start_ns, s.end_ns,
        1e-6 * sum(b.duration_ns)::bigint as value
    from step_budget as b
    inner join model.step as s
        on b.job_id = s.job_id and b.rank = s.rank and b.step = s.step
        and b.host_id = s.host_id
    where b.is_main and b.class in ({classes})
    group by b.host_id, b.rank, s.start_ns, s.end_ns
"""
_CALLS = """
    select
        host_id,
        null::integer as rank,
        start_ns // 10000000 * 10000000 as start_ns,
        start_ns // 10000000 * 10000000 as end_ns,
        count(*)::double as value
    from {table}
    group by host_id, start_ns // 10000000
"""

MEASURES = {
    "own": Measure(
        label="own time a step",
        unit="ms",
        aggregate="max",
        sql=_STEP.format(column="own_ns"),
    ),
    "waiting": Measure(
        label="waiting for others a step",
        unit="ms",
        aggregate="max",
        sql=_STEP.format(column="wait_ns"),
    ),
    "step": Measure(
        label="length of a step",
        unit="ms",
        aggregate="max",
        sql=_STEP.format(column="step_ns"),
    ),
    "run_queue": Measure(
        label="waiting for a CPU a step",
        unit="ms",
        aggregate="max",
        sql=_CLASS.format(classes="'run_queue', 'run_queue_in_wait'"),
    ),
    "blocked": Measure(
        label="blocked in reads, disks, files a step",
        unit="ms",
        aggregate="max",
        sql=_CLASS.format(classes="'read', 'disk', 'file'"),
    ),
    "collectives": Measure(
        label="collective calls",
        unit="calls",
        aggregate="sum",
        sql=_CALLS.format(table="stg_collective"),
    ),
    "gpu_calls": Measure(
        label="GPU calls",
        unit="calls",
        aggregate="sum",
        sql=_CALLS.format(table="stg_gpu_call"),
    ),
}
"""Measures by name; a site's own is a `Measure` over its own view."""

HEAT_MAP_SCHEMA = {
    "row": pl.String,
    "place": pl.Int64,
    "from_s": pl.Float64,
    "to_s": pl.Float64,
    "value": pl.Float64,
    "label": pl.String,
    "unit": pl.String,
    "row_is": pl.String,
    "group_count": pl.Int64,
}
"""Frame of :func:`heat_map_chart`, one row a rank (or host) and time bin."""

HEAT_MAP = """
    with line as ({rows}),
    clock as ({clock}),
    point as ({measure}),
    placed as (
        select
            line.label as row, line.place, c.clock_group_id, p.value,
            {at_s} as at_s, {at_s} + 1e-9 * (p.end_ns - p.start_ns) as end_s
        from point as p
        inner join line on {match}
        asof inner join clock as c
            on p.host_id = c.host_id and p.start_ns >= c.from_ns
    ),
    ruler as (
        select
            greatest((max(end_s) - min(at_s)) / $bins, 1e-6) as width_s,
            count(distinct clock_group_id) as group_count
        from placed
    ),
    spread as (
        select
            *,
            unnest(range(
                floor(at_s / width_s)::bigint, floor(end_s / width_s)::bigint + 1
            )) as bin
        from placed cross join ruler
    )
    select
        row,
        place,
        bin * width_s as from_s,
        (bin + 1) * width_s as to_s,
        {aggregate}(value)::double as value,
        $label as label,
        $unit as unit,
        $row_is as row_is,
        any_value(group_count)::bigint as group_count
    from spread
    group by row, place, bin, width_s
    order by place, from_s
"""

BINS = {"rank": 60, "host": 50}
"""Bins of time: 64 ranks or 80 hosts stay within 5,000 cells."""


def heat_map_frame(
    case: Case, *, measure: Measure | str = "own", job_id: str | None = None
) -> pl.DataFrame:
    """Return one measure of every rank or host over time, as `HEAT_MAP_SCHEMA`."""
    if isinstance(measure, str):
        measure = MEASURES[measure]
    job_id = job_id or job_of_interest(case)
    by_rank = "null::integer as rank" not in measure.sql
    rows, row_is = heat_rows(case, job_id if by_rank else None)
    match = "p.host_id = line.host_id"
    if row_is == "rank":
        match += " and p.rank = line.rank"
    sql = HEAT_MAP.format(
        rows=rows,
        clock=PLACED_CLOCK,
        measure=measure.sql,
        match=match,
        at_s=axis_s("p.start_ns"),
        aggregate=measure.aggregate,
    )
    params = {
        "origin_ns": case.origin_ns,
        "bins": BINS[row_is],
        "label": measure.label,
        "unit": measure.unit,
        "row_is": row_is,
    }
    if "$job_id" in rows:
        params["job_id"] = job_id
    return chart_frame(case, sql, params)


def heat_map_chart(frame: pl.DataFrame) -> alt.Chart:
    """Return a heat map of a measure: rows are ranks or hosts, time runs to the right.

    Parameters
    ----------
    frame
        Columns of `HEAT_MAP_SCHEMA`.
    """
    title, subtitle = _reading(frame)
    order = frame.sort("place")["row"].unique(maintain_order=True).to_list()
    label, unit, row_is = (
        (frame[0, "label"], frame[0, "unit"], frame[0, "row_is"])
        if frame.height
        else ("value", "", "host")
    )
    chart = (
        alt.Chart(frame)
        .mark_rect()
        .encode(
            x=alt.X("from_s:Q", title="time since the first event (s)"),
            x2="to_s:Q",
            y=alt.Y("row:O", sort=order, title=row_is, axis=alt.Axis(tickSize=0)),
            color=alt.Color(
                "value:Q",
                title=f"{label} ({unit})",
                scale=alt.Scale(scheme="lighttealblue"),
                legend=alt.Legend(gradientLength=220),
            ),
            tooltip=["row", "from_s", "to_s", "value"],
        )
        .properties(width=WIDTH, height=alt.Step(22 if len(order) <= 32 else 8))  # noqa: PLR2004
    )
    return themed(chart, title=title, subtitle=subtitle)


def _reading(frame: pl.DataFrame) -> tuple[str, str]:
    """Return where the largest cell is, and how it compares."""
    if frame.is_empty():
        return "Nothing of this measure is in the case", ""
    top = frame.sort("value", descending=True, nulls_last=True).row(0, named=True)
    typical = statistics.median(frame["value"].drop_nulls())
    where = f"{top['row_is']} {top['row']} at {figure(top['from_s'])} s"
    there = f"{figure(top['value'])} {top['unit']} there"
    note = f"{there}, {figure(typical)} in the median cell"
    if top["group_count"] > 1:
        note += "; clocks of different groups are not aligned"
    return f"{top['label'].capitalize()}: most on {where}", note
