"""How long calls and waits take: their tail by rank, and their spread over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import altair as alt
import polars as pl

from workbench.charts.accused import job_of_interest, rank_of_interest
from workbench.charts.cluster_time import PLACED_CLOCK, axis_s
from workbench.charts.frame import chart_frame
from workbench.charts.reading import figure
from workbench.charts.theme import PEER, STRAGGLER, WIDTH, themed

if TYPE_CHECKING:
    from workbench.store.case import Case

LATENCY_SCHEMA = {
    "rank": pl.Int32,
    "low_ms": pl.Float64,
    "share": pl.Float64,
    "is_subject": pl.Boolean,
    "label": pl.String,
}
"""Frame of :func:`latency_chart`: share of a rank's spans of ``low_ms`` or longer."""

LATENCY_MAP_SCHEMA = {
    "from_s": pl.Float64,
    "to_s": pl.Float64,
    "low_ms": pl.Float64,
    "high_ms": pl.Float64,
    "span_count": pl.Int64,
    "label": pl.String,
}
"""Frame of :func:`latency_map_chart`, one row a time bin and a bin of length."""

SOURCES = {
    "read": ("times blocked in a read", "wait_span", "class = 'read'"),
    "off_cpu": ("times off the CPU", "wait_span", "class <> 'waiting_for_others'"),
    "run_queue": ("waits for a CPU", "wait_span", "runq_latency_ns > 0"),
    "collective": ("collective calls", "outer_span", "class = 'waiting_for_others'"),
    "gpu_call": ("GPU calls", "outer_span", "class like 'gpu%'"),
}
"""What can be measured: its words, the view and the condition."""

_SPAN = """
    select s.host_id, r.rank, s.start_ns, {length} as length_ns
    from {view} as s
    inner join rank_thread as r on s.host_id = r.host_id and s.thread_id = r.thread_id
    where r.job_id = $job_id and {where} and {length} > 0
"""

LATENCY = """
    with span as ({span}),
    shown as (
        select rank from span group by rank
        order by rank <> $rank, max(length_ns) desc, rank limit 64
    ),
    ruler as (
        select
            greatest(0.125, log2(max(length_ns) / min(length_ns)) / 76) as width
        from span
    ),
    binned as (
        select rank, floor(log2(length_ns) / width) as bin, width,
            count(*) as span_count
        from span semi join shown using (rank) cross join ruler
        group by all
    )
    select
        rank,
        1e-6 * pow(2, bin * width) as low_ms,
        (sum(span_count) over (
            partition by rank order by bin desc
        ) / sum(span_count) over (partition by rank))::double as share,
        rank = $rank as is_subject,
        $label as label
    from binned
    order by rank, low_ms
"""

LATENCY_MAP = """
    with span as ({span}),
    clock as ({clock}),
    placed as (
        select p.length_ns, {at_s} as at_s
        from span as p
        asof inner join clock as c on p.host_id = c.host_id and p.start_ns >= c.from_ns
    ),
    ruler as (
        select greatest((max(at_s) - min(at_s)) / 80, 1e-6) as width_s from placed
    )
    select
        floor(at_s / width_s) * width_s as from_s,
        (floor(at_s / width_s) + 1) * width_s as to_s,
        1e-6 * pow(2, floor(2 * log2(length_ns)) / 2) as low_ms,
        1e-6 * pow(2, floor(2 * log2(length_ns) + 1) / 2) as high_ms,
        count(*) as span_count,
        $label as label
    from placed cross join ruler
    group by all
    order by from_s, low_ms
"""


def _span_sql(source: str) -> tuple[str, str]:
    label, view, where = SOURCES[source]
    length = "s.runq_latency_ns" if source == "run_queue" else "s.duration_ns"
    return _SPAN.format(view=view, where=where, length=length), label


def latency_frame(
    case: Case,
    *,
    source: str = "off_cpu",
    job_id: str | None = None,
    rank: int | None = None,
) -> pl.DataFrame:
    """Return how often each rank's waits or calls are at least so long.

    As `LATENCY_SCHEMA`, in bins of an eighth of a doubling or more.
    """
    job_id = job_id or job_of_interest(case)
    if job_id is not None and rank is None:
        rank = rank_of_interest(case, job_id)
    span, label = _span_sql(source)
    return chart_frame(
        case,
        LATENCY.format(span=span),
        {"job_id": job_id, "rank": rank, "label": label},
    )


def latency_map_frame(
    case: Case, *, source: str = "off_cpu", job_id: str | None = None
) -> pl.DataFrame:
    """Return how many waits or calls of each length there are over time.

    As `LATENCY_MAP_SCHEMA`, with bins of half a doubling.
    """
    job_id = job_id or job_of_interest(case)
    span, label = _span_sql(source)
    sql = LATENCY_MAP.format(span=span, clock=PLACED_CLOCK, at_s=axis_s("p.start_ns"))
    params = {"job_id": job_id, "label": label, "origin_ns": case.origin_ns}
    return chart_frame(case, sql, params)


def latency_chart(frame: pl.DataFrame) -> alt.Chart:
    """Return one falling line a rank: the share of its spans that long or longer.

    Parameters
    ----------
    frame
        Columns of `LATENCY_SCHEMA`.
    """
    title, subtitle = _tail_reading(frame)
    label = frame["label"][0] if frame.height else "spans"
    chart = (
        alt.Chart(frame)
        .mark_line(interpolate="step-before")
        .encode(
            x=alt.X("low_ms:Q", title="length (ms, log)", scale=alt.Scale(type="log")),
            y=alt.Y(
                "share:Q",
                title=f"share of {label} that long (log)",
                scale=alt.Scale(type="log"),
                axis=alt.Axis(format="%"),
            ),
            detail="rank:N",
            color=alt.Color(
                "is_subject:N",
                title="rank",
                scale=alt.Scale(domain=[True, False], range=[STRAGGLER, PEER]),
                legend=alt.Legend(labelExpr=_legend(frame)),
            ),
            opacity=alt.condition("datum.is_subject", alt.value(1), alt.value(0.5)),
            order="low_ms:Q",
            tooltip=["rank", "low_ms", "share"],
        )
        .properties(width=WIDTH, height=280)
    )
    return themed(chart, title=title, subtitle=subtitle)


def _legend(frame: pl.DataFrame) -> str:
    mine = frame.filter("is_subject")
    name = mine["rank"][0] if mine.height else "none"
    return f"datum.value ? 'rank {name}' : 'other ranks'"


def _tail_reading(frame: pl.DataFrame) -> tuple[str, str]:
    """Return whose longest is longest."""
    if frame.is_empty():
        return "Nothing of this kind was recorded", ""
    longest = frame.group_by("rank").agg(pl.col("low_ms").max()).sort("low_ms", "rank")
    rank, length = longest.row(-1)
    others = max(longest.head(-1)["low_ms"], default=None)
    beyond = f", {figure(others)} ms on any other rank" if others is not None else ""
    return (
        f"Rank {rank} has the longest {frame['label'][0]}",
        f"up to {figure(length)} ms{beyond}",
    )


def latency_map_chart(frame: pl.DataFrame) -> alt.Chart:
    """Return a heat map of lengths (logarithmic) over time, coloured by how many.

    Parameters
    ----------
    frame
        Columns of `LATENCY_MAP_SCHEMA`.
    """
    title, subtitle = _spread_reading(frame)
    chart = (
        alt.Chart(frame)
        .mark_rect()
        .encode(
            x=alt.X("from_s:Q", title="time since the first event (s)"),
            x2="to_s:Q",
            y=alt.Y("low_ms:Q", title="length (ms, log)", scale=alt.Scale(type="log")),
            y2="high_ms:Q",
            color=alt.Color(
                "span_count:Q",
                title="how many (log)",
                scale=alt.Scale(scheme="lighttealblue", type="log"),
                legend=alt.Legend(gradientLength=220),
            ),
            tooltip=["from_s", "low_ms", "high_ms", "span_count"],
        )
        .properties(width=WIDTH, height=280)
    )
    return themed(chart, title=title, subtitle=subtitle)


def _spread_reading(frame: pl.DataFrame) -> tuple[str, str]:
    """Return how many bins of length the case has, and where the longest are."""
    if frame.is_empty():
        return "Nothing of this kind was recorded", ""
    top = max(frame["low_ms"])
    when = frame.filter(pl.col("low_ms") == top)
    count, moments = when["span_count"].sum(), when.height
    share = f"{count} of {frame['span_count'].sum():,}"
    return (
        f"The longest {frame['label'][0]} are over {figure(top)} ms",
        f"{share}, in {moments} of {frame['from_s'].n_unique()} time bins",
    )
