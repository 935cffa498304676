"""Series of steps out of a case: what is compared, before anything is.

A value is the mean over the ranks of a host, or of all hosts, in one step.  Steps that
not every rank shows are left out: the mean over other ranks would be another quantity.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from workbench.analysis.comparison.settings import QUERY, settings_of
from workbench.errors import CaseError, QueryError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workbench.analysis.comparison.change import Series
    from workbench.analysis.comparison.settings import Settings
    from workbench.store.case import Case

PARTS = """
select
    p.job_id,
    if(
        count(distinct h.host_id) over (partition by h.host_name) > 1,
        h.host_name || ' (' || h.host_id || ')',
        h.host_name
    ) as host,
    p.step,
    p.kind,
    p.part,
    p.rank_count,
    p.duration_ns
from step_part as p
inner join host as h on p.host_id = h.host_id
"""

STEP = ("time", "step")
OWN = ("time", "own")


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One recorded run, or the part of it on some hosts.

    A key of `series` is (host, kind, part); host None stands for all of them together.
    """

    name: str
    job_id: str
    other_jobs: tuple[str, ...]
    """Jobs of the case that have fewer steps, which are left out."""

    hosts: tuple[str, ...]
    rank_count: int
    left_out_count: int
    """Steps that not every rank shows."""

    series: dict[tuple[str | None, str, str], Series]
    settings: Settings
    """What its hosts are set up with."""

    @property
    def step_count(self) -> int:
        """Return the number of steps that every rank shows."""
        return len(self.series[None, *STEP])

    def steps(self, host: str | None, kind: str, part: str) -> Series | None:
        """Return the times of a part, in ns a step; None where the host is not there.

        A part that a present host never spent time in is 0 in every step.
        """
        if host is not None and host not in self.hosts:
            return None
        return self.series.get((host, kind, part), np.zeros(self.step_count))


def read_run(case: Case, *, hosts: Sequence[str] = ()) -> Run:
    """Return the series of the job with the most steps in a case.

    Parameters
    ----------
    case
        Open case.
    hosts
        Names of the hosts that are wanted; all of them if empty.

    Raises
    ------
    CaseError
        If the case shows no steps.
    QueryError
        If one of the hosts shows no steps in it.
    """
    frame = case.frame(PARTS).with_columns(pl.col("job_id").fill_null("(unnamed)"))
    if frame.is_empty():
        raise CaseError(
            f"{case.path} shows no steps",
            hint="record the job's collectives; steps are found in them",
        )
    of_job = frame.filter(kind=STEP[0], part=STEP[1]).group_by("job_id").len()
    jobs = of_job.sort("len", "job_id", descending=[True, False])["job_id"].to_list()
    frame = _on_hosts(frame.filter(job_id=jobs[0]), hosts)
    whole, rank_count, all_count = _whole_steps(frame)
    names = sorted(whole["host"].unique())
    return Run(
        name=str(case.path),
        job_id=jobs[0],
        other_jobs=tuple(jobs[1:]),
        hosts=tuple(names),
        rank_count=rank_count,
        left_out_count=all_count - whole["step"].n_unique(),
        series=_series(whole, rank_count),
        settings=settings_of(case.frame(QUERY), names),
    )


def _on_hosts(frame: pl.DataFrame, hosts: Sequence[str]) -> pl.DataFrame:
    known = set(frame["host"])
    for name in hosts:
        if name not in known:
            raise QueryError(
                f"no host {name} with steps of the job",
                hint=f"its hosts are {', '.join(sorted(known))}",
            )
    return frame.filter(pl.col("host").is_in(list(hosts))) if hosts else frame


def _whole_steps(frame: pl.DataFrame) -> tuple[pl.DataFrame, int, int]:
    """Return the rows of steps that every rank shows, their ranks, and all steps."""
    ranks = (
        frame.filter(kind=STEP[0], part=STEP[1])
        .group_by("step")
        .agg(pl.col("rank_count").sum())
    )
    most = ranks["rank_count"].max()
    whole = ranks.filter(rank_count=most).select("step")
    return frame.join(whole, on="step", how="semi"), int(str(most)), ranks.height


def _series(
    frame: pl.DataFrame, rank_count: int
) -> dict[tuple[str | None, str, str], Series]:
    steps = frame["step"].unique().sort().to_numpy()
    series: dict[tuple[str | None, str, str], Series] = {}
    keys = ["host", "kind", "part"]
    for (host, kind, part), rows in frame.partition_by(keys, as_dict=True).items():
        total = np.zeros(len(steps))
        total[np.searchsorted(steps, rows["step"].to_numpy())] = rows["duration_ns"]
        series[str(host), str(kind), str(part)] = total / rows["rank_count"][0]
        whole = series.setdefault((None, str(kind), str(part)), np.zeros(len(steps)))
        whole += total / rank_count
    return series
