"""What the ranks were doing over time: lanes that aggregate by zoom.

Spans as long as a cell of the zoom are drawn as they are.  Shorter ones are added up by
class and drawn side by side from the start of their cell, as wide as their sum, with
the longest of them in the tooltip: nothing is dropped, and no long span is thinned out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import altair as alt
import polars as pl

from workbench.charts.accused import LATE_STEP, job_of_interest, rank_of_interest
from workbench.charts.cluster_time import PLACED_CLOCK, axis_s
from workbench.charts.frame import MOST_ROWS, chart_frame
from workbench.charts.reading import figure
from workbench.charts.theme import WAITS, WIDTH, class_colour, themed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workbench.store.case import Case

LANES_SCHEMA = {
    "lane": pl.String,
    "place": pl.Int64,
    "kind": pl.String,
    "class": pl.String,
    "from_s": pl.Float64,
    "to_s": pl.Float64,
    "span_count": pl.Int64,
    "longest_ms": pl.Float64,
    "cell_s": pl.Float64,
}
"""Frame of :func:`lanes_chart`, one row a span, or the short spans of a cell."""

MOST_LANES = 8
CELLS = (1440, 720, 360, 180, 90, 45, 24)
"""Cells over the window, finest first: the finest that fits the rows is taken."""

SPANS = """
    with clock as ({clock}),
    reach as (
        select
            host_id,
            min(greatest(from_ns, from_ns + (zero_ns + $from_ns - from_ns - offset_ns)
                / (1 + rate)))::bigint as low_ns,
            max(least(to_ns, from_ns + (zero_ns + $to_ns - from_ns - offset_ns)
                / (1 + rate)))::bigint as high_ns
        from clock
        where from_ns + offset_ns - zero_ns <= $to_ns
            and to_ns + offset_ns + ((to_ns - from_ns) * rate)::bigint - zero_ns
                >= $from_ns
        group by host_id
    ),
    lane as (
        select
            r.host_id,
            r.thread_id,
            r.rank,
            'rank ' || r.rank || if(m.is_main, '', ' ' || coalesce(t.thread_name, '')
                || ' ' || t.tid) as lane,
            row_number() over (order by r.rank, not m.is_main, t.tid, r.thread_id)
                as place
        from rank_thread as r
        inner join thread as t on r.host_id = t.host_id and r.thread_id = t.thread_id
        left join (
            select host_id, thread_id, bool_or(is_main) as is_main
            from step_budget group by all
        ) as m on r.host_id = m.host_id and r.thread_id = m.thread_id
        where r.job_id = $job_id and list_contains($ranks, r.rank)
            and ($with_threads or m.is_main)
    ),
    span as (
        select host_id, thread_id, 'calls' as kind, class, start_ns, end_ns
        from outer_span where class not like 'gpu%' and class <> 'launch_gap'
        union all
        select host_id, thread_id, 'GPU' as kind, class, start_ns, end_ns
        from outer_span where class like 'gpu%' or class = 'launch_gap'
        union all
        select host_id, thread_id, 'off CPU' as kind, class, start_ns, ready_ns
        from wait_span where not is_totals_only
        union all
        select host_id, thread_id, 'off CPU' as kind, runq_class, ready_ns, end_ns
        from wait_span where not is_totals_only
        union all
        select o.host_id, o.thread_id, 'off CPU' as kind,
            if(o.is_preempted, 'run_queue', coalesce(c.class, 'unexplained')),
            o.start_ns, o.start_ns + o.duration_ns
        from stg_off_cpu as o
        left join syscall_class as c on o.syscall = c.syscall
        anti join (select distinct host_id, thread_id from wait_span) as w
            on o.host_id = w.host_id and o.thread_id = w.thread_id
        where not o.is_totals_only and $with_threads
    ),
    placed as (
        select
            l.lane, l.place, s.kind, s.class,
            {begin} as from_s,
            {begin} + 1e-9 * (least(s.end_ns, h.high_ns)
                - greatest(s.start_ns, h.low_ns)) as to_s,
            1e-6 * (s.end_ns - s.start_ns) as whole_ms
        from span as s
        inner join lane as l on s.host_id = l.host_id and s.thread_id = l.thread_id
        inner join reach as h
            on s.host_id = h.host_id and s.start_ns < h.high_ns and s.end_ns > h.low_ns
        asof inner join clock as c
            on s.host_id = c.host_id and s.start_ns >= c.from_ns
        where s.end_ns > s.start_ns
    )
"""

LANES = """
    , long as (select * from placed where to_s - from_s >= $cell_s),
    short as (
        select
            lane, place, kind, class, floor(from_s / $cell_s) as cell,
            count(*) as span_count, sum(to_s - from_s) as sum_s,
            max(whole_ms) as longest_ms
        from placed
        where to_s - from_s < $cell_s
        group by all
    ),
    beside as (
        select
            *,
            coalesce(sum(sum_s) over (
                partition by lane, place, kind, cell order by class
                rows between unbounded preceding and 1 preceding
            ), 0) as before_s
        from short
    )
    select
        lane, place, kind, class, cell * $cell_s + before_s as from_s,
        cell * $cell_s + before_s + sum_s as to_s, span_count, longest_ms,
        $cell_s::double as cell_s
    from beside
    union all
    select
        lane, place, kind, class, from_s, to_s, 1 as span_count,
        whole_ms as longest_ms, $cell_s::double as cell_s
    from long
    order by place, kind, from_s
"""

FITTING = """
    select g.cells
    from placed as p
    cross join (select unnest($cells) as cells) as g
    group by g.cells
    having
        count(*) filter (p.to_s - p.from_s >= $width_s / g.cells)
        + count(distinct if(
            p.to_s - p.from_s < $width_s / g.cells,
            (p.lane, p.kind, p.class, floor(p.from_s * g.cells / $width_s)),
            null
        )) <= $most
    order by g.cells desc
    limit 1
"""
"""The finest cells that fit the rows of a chart."""

EXTENT = """
    select min({at_s}) as from_s, max({end_s}) as to_s
    from model.step as s
    inner join ({clock}) as c
        on s.host_id = c.host_id and s.start_ns >= c.from_ns and s.start_ns < c.to_ns
    where s.job_id = $job_id
        and ($step is null or s.step between $step - 1 and $step + 1)
"""


def lanes_frame(
    case: Case,
    *,
    job_id: str | None = None,
    ranks: Sequence[int] | None = None,
    window_s: tuple[float, float] | None = None,
    with_threads: bool = False,
) -> pl.DataFrame:
    """Return calls, GPU calls and times off the CPU of some ranks, as `LANES_SCHEMA`.

    The window, in seconds since the case's first event, is that of all steps unless
    given (:func:`late_window` has that of a late one).  The ranks are the accused one
    and its neighbours, eight in all.  With threads, each thread has its lane.
    """
    job_id = job_id or job_of_interest(case)
    if job_id is None:
        return pl.DataFrame(schema=LANES_SCHEMA)
    window_s = window_s or _extent(case, job_id, None)
    ranks = list(ranks) if ranks is not None else _neighbours(case, job_id)
    if window_s is None or not ranks:
        return pl.DataFrame(schema=LANES_SCHEMA)
    spans = SPANS.format(clock=PLACED_CLOCK, begin=axis_s(_INSIDE))
    params = {
        "origin_ns": case.origin_ns,
        "from_ns": round(1e9 * window_s[0]),
        "to_ns": round(1e9 * window_s[1]),
        "job_id": job_id,
        "ranks": ranks,
        "with_threads": with_threads,
    }
    width_s = window_s[1] - window_s[0]
    wanted = {"cells": list(CELLS), "width_s": width_s, "most": MOST_ROWS}
    fitting = case.frame(spans + FITTING, params | wanted)
    cells = CELLS[-1] if fitting.is_empty() else fitting.item()
    return chart_frame(case, spans + LANES, params | {"cell_s": width_s / cells})


_INSIDE = "greatest(s.start_ns, h.low_ns)"


def late_window(case: Case, *, job_id: str | None = None) -> tuple[float, float] | None:
    """Return the window around the first late step of the accused rank, in seconds.

    None where nobody is accused.
    """
    job_id = job_id or job_of_interest(case)
    late = case.frame(f"select min(step) from ({LATE_STEP}) where job_id = ?", [job_id])
    step = late.item()
    return None if step is None else _extent(case, str(job_id), step)


def _extent(case: Case, job_id: str, step: int | None) -> tuple[float, float] | None:
    sql = EXTENT.format(
        clock=PLACED_CLOCK, at_s=axis_s("s.start_ns"), end_s=axis_s("s.end_ns")
    )
    params = {"origin_ns": case.origin_ns, "job_id": job_id, "step": step}
    low, high = case.frame(sql, params).row(0)
    return None if low is None else (low, high)


def _neighbours(case: Case, job_id: str) -> list[int]:
    """Return the rank of interest and those next to it in number."""
    middle = rank_of_interest(case, job_id) or 0
    near = case.frame(
        "select rank from (select rank from rank where job_id = $job_id"
        " order by abs(rank - $middle), rank limit $most) order by rank",
        {"job_id": job_id, "middle": middle, "most": MOST_LANES},
    )
    return near["rank"].to_list()


def lanes_chart(frame: pl.DataFrame) -> alt.Chart:
    """Return bars over time, a lane a rank or thread, split into calls and off CPU.

    Parameters
    ----------
    frame
        Columns of `LANES_SCHEMA`.
    """
    title, subtitle = _reading(frame)
    order = frame.sort("place")["lane"].unique(maintain_order=True).to_list()
    kinds = [k for k in ("calls", "GPU", "off CPU") if k in frame["kind"]]
    colour = class_colour(frame["class"])
    chart = (
        alt.Chart(frame)
        .mark_rect(stroke=None)
        .encode(
            x=alt.X(
                "from_s:Q",
                title="time since the first event (s)",
                scale=alt.Scale(zero=False, nice=False),
            ),
            x2="to_s:Q",
            y=alt.Y("lane:N", sort=order, title=None, axis=alt.Axis(tickSize=0)),
            yOffset=alt.YOffset("kind:N", sort=kinds),
            color=colour,
            tooltip=["lane", "kind", "class", "span_count", "longest_ms", "from_s"],
        )
        .properties(width=WIDTH, height=alt.Step(14))
    )
    return themed(chart, title=title, subtitle=subtitle)


def _reading(frame: pl.DataFrame) -> tuple[str, str]:
    """Return the longest time that somebody did not spend waiting for others."""
    if frame.is_empty():
        return "Nothing was recorded in this window", ""
    cell = (
        f"calls above, off CPU below; finer than {figure(1e3 * frame['cell_s'][0])} ms"
    )
    cell += " is added up"
    own = frame.filter(~pl.col("class").is_in(WAITS))
    if own.is_empty():
        return "All lanes wait for one another", cell
    top = own.sort("longest_ms", descending=True).row(0, named=True)
    away = f"{figure(top['longest_ms'])} ms in {top['class']}"
    return f"{top['lane'].capitalize()} is longest away: {away}", cell
