"""One collective: when each rank came to it, with the band of its clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

import altair as alt
import polars as pl

from workbench.charts.accused import job_of_interest
from workbench.charts.frame import chart_frame
from workbench.charts.reading import figure
from workbench.charts.theme import MUTED, PEER, STRAGGLER, WIDTH, themed

if TYPE_CHECKING:
    from workbench.store.case import Case

ARRIVAL_FAN_SCHEMA = {
    "rank": pl.Int32,
    "host_name": pl.String,
    "arrival_ms": pl.Float64,
    "low_ms": pl.Float64,
    "high_ms": pl.Float64,
    "margin_ms": pl.Float64,
    "margin_error_ms": pl.Float64,
    "is_surely_last": pl.Boolean,
    "operation": pl.String,
    "collective_seq": pl.Int64,
    "member_count": pl.Int64,
}
"""Frame of :func:`arrival_fan_chart`, one row a rank of one collective.

``arrival_ms`` is after the first arrival, ``low_ms`` to ``high_ms`` its clock band;
``margin_ms`` is after the last of the others.
"""

ARRIVAL_FAN = """
    with meeting as (
        select communicator_id, collective_seq, operation, pairing, clock_group_id
        from collective_arrival
        where job_id = $job_id
            and ($communicator_id is null or communicator_id = $communicator_id)
            and ($collective_seq is null or collective_seq = $collective_seq)
            and (collective_seq > 0 or $collective_seq is not null)
        group by all
        order by max(margin_ns) filter (is_surely_last) desc nulls last,
            max(arrival_skew_ns) desc, communicator_id, collective_seq, pairing
        limit 1
    )
    select
        a.rank,
        h.host_name,
        1e-6 * a.arrival_skew_ns as arrival_ms,
        1e-6 * (a.arrival_skew_ns - a.clock_error_ns) as low_ms,
        1e-6 * (a.arrival_skew_ns + a.clock_error_ns) as high_ms,
        1e-6 * a.margin_ns as margin_ms,
        1e-6 * a.margin_error_ns as margin_error_ms,
        a.is_surely_last,
        a.operation,
        a.collective_seq,
        count(*) over () as member_count
    from collective_arrival as a
    semi join meeting as m
        on a.communicator_id = m.communicator_id
        and a.collective_seq = m.collective_seq
        and a.operation = m.operation
        and a.pairing = m.pairing
        and a.clock_group_id = m.clock_group_id
    inner join host as h on a.host_id = h.host_id
    qualify row_number() over (order by a.arrival_skew_ns desc, a.rank) <= 200
    order by a.rank
"""


def arrival_fan_frame(
    case: Case,
    *,
    job_id: str | None = None,
    communicator_id: str | None = None,
    collective_seq: int | None = None,
) -> pl.DataFrame:
    """Return the arrivals at one collective, as `ARRIVAL_FAN_SCHEMA`.

    Unless named it is the one with the largest proved lateness.  Of more than 200
    members the 200 latest are returned.
    """
    job_id = job_id or job_of_interest(case)
    params = {
        "job_id": job_id,
        "communicator_id": communicator_id,
        "collective_seq": collective_seq,
    }
    return chart_frame(case, ARRIVAL_FAN, params)


def arrival_fan_chart(frame: pl.DataFrame) -> alt.LayerChart:
    """Return one point a rank at its arrival, on the band within which it is proved.

    Parameters
    ----------
    frame
        Columns of `ARRIVAL_FAN_SCHEMA`.
    """
    title, subtitle = _reading(frame)
    base = alt.Chart(frame).encode(
        y=alt.Y("rank:O", sort="ascending", title="rank", axis=alt.Axis(tickSize=0))
    )
    time = "after the first arrival (ms)"
    hosts = frame["host_name"].n_unique()
    band = base.mark_bar(height=10, opacity=0.35, color=MUTED).encode(
        x=alt.X("low_ms:Q", title=time, scale=alt.Scale(padding=14)), x2="high_ms:Q"
    )
    colour = alt.Color(
        "is_surely_last:N",
        title="surely last",
        scale=alt.Scale(domain=[True, False], range=[STRAGGLER, PEER]),
        legend=alt.Legend(labelExpr="datum.value ? 'yes' : 'not proved'"),
    )
    point = base.mark_point(filled=True, size=70, opacity=1).encode(
        x=alt.X("arrival_ms:Q", title=time),
        color=colour,
        shape=alt.Shape("host_name:N", title="host", legend=_host_legend(hosts)),
        tooltip=[
            alt.Tooltip("rank"),
            alt.Tooltip("host_name", title="host"),
            alt.Tooltip("arrival_ms", format=".3f"),
            alt.Tooltip("low_ms", format=".3f"),
            alt.Tooltip("high_ms", format=".3f"),
        ],
    )
    height = 24 if frame.height <= 32 else 10  # noqa: PLR2004 - as many as fit a page
    chart = alt.LayerChart(layer=[band, point], width=WIDTH, height=alt.Step(height))
    return themed(chart, title=title, subtitle=subtitle)


def _host_legend(hosts: int) -> alt.Legend | None:
    """Return the legend of hosts, or none where more would be shapes nobody knows."""
    return alt.Legend() if hosts <= 8 else None  # noqa: PLR2004 - shapes of Vega


def _reading(frame: pl.DataFrame) -> tuple[str, str]:
    """Return who came last by how much, and whether the clocks prove it."""
    if frame.is_empty():
        return "No collective with two members in this case", ""
    last = frame.sort("arrival_ms").row(-1, named=True)
    which = f"{last['operation']} number {last['collective_seq']}"
    members = f"{last['member_count']} members"
    if last["margin_ms"] is None:
        return f"Rank {last['rank']} came alone", f"{which}, {members}"
    by = f"{figure(last['margin_ms'])} ms after the last of the others"
    error = f"clock error {figure(last['margin_error_ms'] or 0)} ms"
    if last["is_surely_last"]:
        return f"Rank {last['rank']} came last", f"{by}, {error}; {which}, {members}"
    return (
        "Who came last is not proved",
        f"rank {last['rank']} by {by}, within the {error}; {which}, {members}",
    )
