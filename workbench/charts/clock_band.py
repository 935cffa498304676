"""How well each host's clock is known over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import altair as alt
import polars as pl

from workbench.charts.cluster_time import PLACED_CLOCK, axis_s
from workbench.charts.frame import chart_frame
from workbench.charts.reading import figure
from workbench.charts.theme import MUTED, PEER, WIDTH, themed

if TYPE_CHECKING:
    from workbench.store.case import Case

CLOCK_BAND_SCHEMA = {
    "host_name": pl.String,
    "place": pl.Int64,
    "at_s": pl.Float64,
    "offset_us": pl.Float64,
    "low_us": pl.Float64,
    "high_us": pl.Float64,
    "error_us": pl.Float64,
    "drift_ppm": pl.Float64,
    "drift_error_ppm": pl.Float64,
    "host_count": pl.Int64,
    "alone_count": pl.Int64,
}
"""Frame of :func:`clock_band_chart`, one row a host and knot.

``offset_us`` is beyond the host's own straight line from first to last knot, whose
slope is ``drift_ppm``; the truth lies between ``low_us`` and ``high_us``.
"""

MOST_HOSTS = 8
"""Hosts drawn: those with the widest bands."""

CLOCK_BAND = f"""
    with clock as ({PLACED_CLOCK}),
    met as (
        select
            host_id,
            any_value(host_name) as host_name,
            min(from_ns) as from_ns,
            max(to_ns) as to_ns
        from model.clock_summary
        group by host_id
    ),
    edge as (
        select
            h.host_id,
            h.host_name,
            greatest(c.from_ns, h.from_ns) as at_ns,
            c.* exclude (host_id)
        from clock as c
        inner join met as h on c.host_id = h.host_id
        where c.from_ns < h.to_ns and c.to_ns > h.from_ns
        union all
        select h.host_id, h.host_name, h.to_ns, c.* exclude (host_id)
        from clock as c
        inner join met as h on c.host_id = h.host_id
        where c.from_ns < h.to_ns and c.to_ns >= h.to_ns
    ),
    knot as (
        select
            host_id,
            host_name,
            error_ns,
            offset_ns + (at_ns - from_ns) * rate as line_ns,
            at_ns,
            {axis_s("at_ns", "edge")} as at_s
        from edge
    ),
    ends as (
        select
            host_id,
            min_by(line_ns, at_ns) as first_ns,
            (max_by(line_ns, at_ns) - min_by(line_ns, at_ns))
                / greatest(max(at_ns) - min(at_ns), 1) as slope,
            (min_by(error_ns, at_ns) + max_by(error_ns, at_ns))
                / greatest(max(at_ns) - min(at_ns), 1) as slope_error,
            min(at_ns) as begin_ns,
            dense_rank() over (order by max(error_ns) desc, host_id) as widest
        from knot
        group by host_id
    ),
    alone as (
        select count(*) as alone_count from (
            select clock_group_id from model.clock
            group by clock_group_id having count(distinct host_id) = 1
        )
    )
    select
        k.host_name,
        e.widest as place,
        k.at_s,
        1e-3 * (k.line_ns - e.first_ns - e.slope * (k.at_ns - e.begin_ns)) as offset_us,
        1e-3 * (k.line_ns - e.first_ns - e.slope * (k.at_ns - e.begin_ns) - k.error_ns)
            as low_us,
        1e-3 * (k.line_ns - e.first_ns - e.slope * (k.at_ns - e.begin_ns) + k.error_ns)
            as high_us,
        1e-3 * k.error_ns as error_us,
        1e6 * e.slope as drift_ppm,
        1e6 * e.slope_error as drift_error_ppm,
        (select count(*) from host) as host_count,
        (select alone_count from alone) as alone_count
    from knot as k
    inner join ends as e on k.host_id = e.host_id
    where e.widest <= {MOST_HOSTS}
    order by e.widest, k.at_s
"""


def clock_band_frame(case: Case) -> pl.DataFrame:
    """Return the proved band of each host's clock over time, as `CLOCK_BAND_SCHEMA`.

    Of more than eight hosts those with the widest bands.
    """
    return chart_frame(case, CLOCK_BAND, {"origin_ns": case.origin_ns})


def clock_band_chart(frame: pl.DataFrame) -> alt.FacetChart:
    """Return a band over time for each host, its drift taken out.

    Parameters
    ----------
    frame
        Columns of `CLOCK_BAND_SCHEMA`.
    """
    title, subtitle = _reading(frame)
    # A reference is known by definition: its band is a line.
    joined = frame.filter(pl.col("error_us") > 0)
    frame = frame if joined.is_empty() else joined
    time = alt.X("at_s:Q", title="time since the first event (s)")
    band = (
        alt.Chart(frame)
        .mark_area(opacity=0.35, color=MUTED)
        .encode(
            x=time,
            y=alt.Y("low_us:Q", title="beyond its line (us)"),
            y2="high_us:Q",
        )
    )
    line = (
        alt.Chart(frame)
        .mark_line(color=PEER, point=alt.OverlayMarkDef(size=12))
        .encode(
            x=time,
            y="offset_us:Q",
            tooltip=["host_name", "at_s", "offset_us", "error_us", "drift_ppm"],
        )
    )
    order = frame.sort("place")["host_name"].unique(maintain_order=True).to_list()
    chart = (
        alt.layer(band, line, data=frame)
        .properties(width=WIDTH, height=90)
        .facet(row=alt.Row("host_name:N", sort=order, title=None))
    )
    return themed(chart, title=title, subtitle=subtitle)


def _reading(frame: pl.DataFrame) -> tuple[str, str]:
    """Return how well the least known host is known."""
    if frame.is_empty():
        return "No clock in this case", ""
    joined = frame.filter(pl.col("error_us") > 0)
    count, alone = frame["host_count"][0], frame["alone_count"][0]
    apart = f"; {alone} of {count} hosts met nobody and are not joined" if alone else ""
    if joined.is_empty():
        return "One clock: nothing to relate", f"{count} hosts{apart}"
    worst = joined.sort("error_us").row(-1, named=True)
    best = min(joined.filter(pl.col("host_name") == worst["host_name"])["error_us"])
    drift = f"{figure(worst['drift_ppm'], signed=True)}"
    drift += f" +-{figure(worst['drift_error_ppm'])} ppm"
    return (
        f"{worst['host_name']} is known to +-{figure(best)} us at best",
        f"+-{figure(worst['error_us'])} us at worst; drift {drift} taken out{apart}",
    )
