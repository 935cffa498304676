"""What a rank did with its time against its peers, in the same steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from workbench.charts.accused import LATE_STEP, job_of_interest, rank_of_interest
from workbench.charts.class_bars import class_bars
from workbench.charts.frame import chart_frame
from workbench.charts.reading import figure
from workbench.charts.theme import WAITS, themed

if TYPE_CHECKING:
    import altair as alt

    from workbench.store.case import Case

TIME_BUDGET_SCHEMA = {
    "who": pl.String,
    "place": pl.Int64,
    "rank": pl.Int32,
    "class": pl.String,
    "mean_ms": pl.Float64,
    "is_subject": pl.Boolean,
    "step_count": pl.Int64,
    "is_late_only": pl.Boolean,
}
"""Frame of :func:`time_budget_chart`, one row a rank (or all peers) and class.

``mean_ms`` is per step, over the steps in which the subject is accused where there are
any, else over all.
"""

MOST_PEERS = 15
"""Peers with a bar of their own; more are one bar, their mean."""

ALIKE_RATIO = 0.05
"""A difference below this part of a step is no reading, as in the view threshold."""

TIME_BUDGET = f"""
    with late as ({LATE_STEP}),
    mine as (select step from late where rank = $rank and job_id = $job_id),
    chosen as (
        select distinct b.step
        from step_budget as b
        where b.job_id = $job_id and b.rank = $rank
            and (
                b.step in (select step from mine) or not exists (select 1 from mine)
            )
    ),
    peer as (
        select p.rank
        from rank as p
        inner join rank as r
            on p.job_id = r.job_id and p.role is not distinct from r.role
        where r.job_id = $job_id and r.rank = $rank
    ),
    spent as (
        select b.rank, b.class, sum(b.duration_ns)::bigint as duration_ns
        from step_budget as b
        semi join chosen as c on b.step = c.step
        semi join peer as p on b.rank = p.rank
        where b.job_id = $job_id and b.is_main
        group by b.rank, b.class
    ),
    named as (
        select
            *,
            rank = $rank as is_subject,
            if(
                rank = $rank or (select count(*) from peer) <= {MOST_PEERS + 1},
                rank,
                null
            ) as bar
        from spent
    )
    select
        if(bar is null, 'mean of ' || ((select count(*) from peer) - 1) || ' peers',
            'rank ' || bar) as who,
        coalesce(bar, {2**31 - 1})::bigint as place,
        bar as rank,
        class,
        1e-6 * sum(duration_ns)::bigint / (select count(*) from chosen)
            / if(bar is null, (select count(*) from peer) - 1, 1) as mean_ms,
        is_subject,
        (select count(*) from chosen) as step_count,
        exists (select 1 from mine) as is_late_only
    from named
    group by bar, class, is_subject
    order by place, class
"""


def time_budget_frame(
    case: Case, *, job_id: str | None = None, rank: int | None = None
) -> pl.DataFrame:
    """Return the mean time of a step by class, of a rank and of the peers of its role.

    As `TIME_BUDGET_SCHEMA`.  The rank is the accused one unless named, and the steps
    are those in which it is late; where nobody is accused, all.
    """
    job_id = job_id or job_of_interest(case)
    if job_id is not None and rank is None:
        rank = rank_of_interest(case, job_id)
    if rank is None:
        return pl.DataFrame(schema=TIME_BUDGET_SCHEMA)
    return chart_frame(case, TIME_BUDGET, {"job_id": job_id, "rank": rank})


def time_budget_chart(frame: pl.DataFrame) -> alt.Chart:
    """Return stacked bars of a step's time by class, one bar a rank.

    Parameters
    ----------
    frame
        Columns of `TIME_BUDGET_SCHEMA`.
    """
    title, subtitle = _reading(frame)
    chart = class_bars(frame, "who", title="mean time of a step (ms)", bar=18, step=24)
    return themed(chart, title=title, subtitle=subtitle)


def _reading(frame: pl.DataFrame) -> tuple[str, str]:
    """Return the class in which the subject exceeds its peers most."""
    if frame.is_empty():
        return "No time budget in this case", ""
    mine = frame.filter("is_subject")
    peers = frame.filter(~pl.col("is_subject"))
    if mine.is_empty() or peers.is_empty():
        return "One rank alone: there are no peers to compare with", ""
    count = peers["who"].n_unique()
    mean = peers.group_by("class").agg(peer_ms=pl.col("mean_ms").sum() / count)
    excess = (
        mine.join(mean, on="class", how="left")
        .with_columns(more=pl.col("mean_ms") - pl.col("peer_ms").fill_null(0))
        .filter(~pl.col("class").is_in(WAITS))
        .sort("more", descending=True)
    )
    steps = mine["step_count"][0]
    over = f"mean of {'its ' if mine['is_late_only'][0] else 'all '}{steps} "
    over += "late steps" if mine["is_late_only"][0] else "steps"
    if excess.is_empty():
        return f"{_subject(mine)} only waited for others", over
    top = excess.row(0, named=True)
    beyond = f"{figure(top['more'], signed=True)} ms a step in {top['class']}"
    if top["more"] < ALIKE_RATIO * sum(mine["mean_ms"]):
        return f"{_subject(mine)} spends its steps as its peers do", f"{beyond}; {over}"
    return (
        f"{_subject(mine)} spends {beyond} beyond its peers",
        f"{figure(top['mean_ms'])} against {figure(top['peer_ms'] or 0)} ms; {over}",
    )


def _subject(mine: pl.DataFrame) -> str:
    return f"Rank {mine['rank'][0]}"
