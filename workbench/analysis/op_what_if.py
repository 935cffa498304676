"""What-if of an imported operation trace: its schedule again, with other lengths.

Every replica runs one schedule in every step, so an array of own lengths [place, step,
replica] and the edges of one replica hold the job; a lane is such an array, and one
pass over the schedule in order gives the ends of all lanes at once.

Notes
-----
The slowdown S and the worker share M_W are those of "Understanding Stragglers in Large
Model Training" (OSDI 2025): S is the mean step over the mean ideal step, M_W the part
of the excess that goes if the worst 3 % of the workers were ideal, a worker's slowdown
taken as the smaller of its replica's and its stage's; M_S the same for the last stage.
They use the ideal of the paper.  Who is accused follows the ideal of the role.
"""

from __future__ import annotations

import graphlib
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from workbench.analysis.paper_slowdown import part, worst_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from workbench.store.case import Case

READS = ("activity_rendezvous", "activity_edge", "activity_length", "activity_ideal")

LENGTHS = """
    select
        l.job_id, l.rank, l.dp_rank, l.stage, l.step, l.place_id,
        l.is_communication, l.own_ns::double as own_ns, l.wait_ns,
        i.role_ns, i.paper_ns
    from activity_length as l
    inner join activity_ideal as i
        on l.job_id = i.job_id and l.step = i.step and l.place_id = i.place_id
    order by l.job_id, l.place_id, l.step, l.dp_rank
"""

LANE_CELLS = 4_000_000
"""Array cells of one pass; lanes beyond it wait for the next."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Schedule:
    """The places of one replica's step and how they depend on each other."""

    order: list[list[int]]
    """Meetings in an order in which each comes after those it waits for."""
    before: Mapping[int, list[int]]
    """What each place waits for."""
    wide: frozenset[int]
    """Places at which all replicas meet."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Trace:
    """One job: lengths [place, step, replica] in ns, and the role of each place."""

    job_id: str
    schedule: Schedule
    steps: NDArray[np.int64]
    stage: NDArray[np.int64]
    """Pipeline stage of each place."""
    ranks: NDArray[np.int64]
    """Global rank by [stage, replica]; -1: none."""
    own: NDArray[np.float64]
    role: NDArray[np.float64]
    paper: NDArray[np.float64]
    computing: NDArray[np.float64]
    """Length of the passes by [stage, step, replica]."""
    wait: NDArray[np.float64]
    """Waiting for others by [stage, step, replica]."""

    @property
    def workers(self) -> list[tuple[int, int]]:
        """Return stage and replica of each rank, in the order of the ranks."""
        there = np.argwhere(self.ranks >= 0).tolist()
        return sorted(((s, d) for s, d in there), key=lambda at: int(self.ranks[at]))


def traces(case: Case) -> Iterator[Trace]:
    """Yield the jobs of a case that were imported and have known roles."""
    lengths = case.frame(LENGTHS)
    if lengths.is_empty():
        return
    places = case.frame("from activity_rendezvous order by job_id, place_id")
    edges = case.frame("from activity_edge")
    for (job_id,), mine in lengths.group_by("job_id", maintain_order=True):
        made = _trace(
            mine, places.filter(job_id=job_id), edges.filter(job_id=job_id), str(job_id)
        )
        if made is not None:
            yield made


def _trace(
    lengths: pl.DataFrame, places: pl.DataFrame, edges: pl.DataFrame, job_id: str
) -> Trace | None:
    """Return one job, from the steps of which every operation is there.

    None, and the findings cannot decide, where there is no such step, or where the
    operations wait for each other in a circle: then it is no schedule that we know.
    """
    replicas = lengths["dp_rank"].unique().sort()
    expected = places.height * len(replicas)
    whole = lengths.filter(pl.len().over("step") == expected)
    number = {int(place): at for at, place in enumerate(places["place_id"])}
    schedule = _schedule(places, edges, number)
    if whole.is_empty() or schedule is None:
        return None
    steps = whole["step"].unique().sort()
    shape = (places.height, len(steps), len(replicas))
    stage = places["stage"].to_numpy().astype(np.int64)
    ranks = np.full((stage.max() + 1, len(replicas)), -1)
    dp_at = {int(dp): at for at, dp in enumerate(replicas)}
    for where, dp, rank in whole.select("stage", "dp_rank", "rank").unique().rows():
        ranks[where, dp_at[dp]] = rank
    cube = {
        name: whole[name].to_numpy().astype(float).reshape(shape)
        for name in ("own_ns", "role_ns", "paper_ns", "wait_ns")
    }
    is_pass = places["operation"].str.ends_with("-compute").to_numpy()
    computing = np.where(is_pass[:, None, None], cube["own_ns"], 0.0)
    return Trace(
        job_id=job_id,
        schedule=schedule,
        steps=steps.to_numpy(),
        stage=stage,
        ranks=ranks,
        own=cube["own_ns"],
        role=cube["role_ns"],
        paper=cube["paper_ns"],
        computing=_by_stage(computing, stage),
        wait=_by_stage(cube["wait_ns"], stage),
    )


def _by_stage(
    values: NDArray[np.float64], stage: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the sums of the places of each stage."""
    sums = np.zeros((stage.max() + 1, *values.shape[1:]))
    np.add.at(sums, stage, values)
    return sums


def _schedule(
    places: pl.DataFrame, edges: pl.DataFrame, number: Mapping[int, int]
) -> Schedule | None:
    meetings = dict(
        places.group_by("rendezvous").agg("place_id").sort("rendezvous").rows()
    )
    meeting_of = {place: name for name, them in meetings.items() for place in them}
    waits_for: dict[str, set[str]] = {name: set() for name in meetings}
    before: dict[int, list[int]] = {}
    for _, first, then in edges.select("job_id", "before_id", "after_id").rows():
        before.setdefault(number[then], []).append(number[first])
        if meeting_of[first] != meeting_of[then]:
            waits_for[meeting_of[then]].add(meeting_of[first])
    try:
        order = list(graphlib.TopologicalSorter(waits_for).static_order())
    except graphlib.CycleError:
        return None
    wide = places.filter("is_job_wide")["place_id"]
    return Schedule(
        order=[[number[place] for place in meetings[name]] for name in order],
        before=before,
        wide=frozenset(number[place] for place in wide),
    )


def step_times(
    schedule: Schedule, lanes: Iterable[NDArray[np.float64]]
) -> NDArray[np.float64]:
    """Return the length of each step in each lane, [step, lane].

    Parameters
    ----------
    lanes
        Own lengths [place, step, replica] of each lane, ns.
    """
    times: list[NDArray[np.float64]] = []
    held: list[NDArray[np.float64]] = []
    for lane in lanes:
        held.append(lane)
        if len(held) * lane.size >= LANE_CELLS:
            times.append(_step_times(schedule, np.stack(held, axis=-1)))
            held = []
    if held:
        times.append(_step_times(schedule, np.stack(held, axis=-1)))
    return np.concatenate(times, axis=1)


def _step_times(schedule: Schedule, own: NDArray[np.float64]) -> NDArray[np.float64]:
    end = np.zeros_like(own)
    for meeting in schedule.order:
        waited = [at for place in meeting for at in schedule.before.get(place, ())]
        start = end[waited].max(axis=0) if waited else np.zeros(own.shape[1:])
        if meeting[0] in schedule.wide:
            start = start.max(axis=1, keepdims=True)
        for place in meeting:
            end[place] = start + own[place]
    return end.max(axis=(0, 2))


def _with(
    base: NDArray[np.float64],
    other: NDArray[np.float64],
    places: NDArray[np.bool_],
    replica: int | slice,
) -> NDArray[np.float64]:
    """Return `base` with some places of some replicas taken from `other`."""
    mixed = base.copy()
    mixed[places, :, replica] = other[places, :, replica]
    return mixed


def role_times(trace: Trace) -> NDArray[np.float64]:
    """Return [step, lane], the lanes those of the module ``replay``, by rank."""
    own, role, workers = trace.own, trace.role, trace.workers
    lanes = chain(
        (own, role),
        (_with(role, own, trace.stage == stage, at) for stage, at in workers),
        (_with(own, role, trace.stage == stage, at) for stage, at in workers),
    )
    return step_times(trace.schedule, lanes)


def job_row(trace: Trace) -> dict[str, Any]:
    """Return the row of ``model.what_if_job`` of a trace."""
    every = slice(None)
    stages, replicas = trace.ranks.shape
    nowhere = np.zeros(len(trace.stage), dtype=bool)
    lanes = [trace.own, trace.paper]
    lanes += [
        _with(trace.paper, trace.own, ~nowhere, replica) for replica in range(replicas)
    ]
    lanes += [
        _with(trace.paper, trace.own, trace.stage == stage, every)
        for stage in range(stages)
    ]
    mean = step_times(trace.schedule, lanes).mean(axis=0)
    by_replica, by_stage = mean[2 : 2 + replicas], mean[2 + replicas :]
    workers = trace.workers
    slowness = [min(by_replica[at], by_stage[stage]) for stage, at in workers]
    worst = [workers[at] for at in worst_of(np.array(slowness))]
    removed = trace.own.copy()
    for stage, replica in worst:
        removed = _with(removed, trace.paper, trace.stage == stage, replica)
    last = _with(trace.own, trace.paper, trace.stage == stages - 1, every)
    without = step_times(trace.schedule, [removed, last]).mean(axis=0)
    return {
        "step_count": len(trace.steps),
        "actual_ns": round(mean[0]),
        "ideal_ns": round(mean[1]),
        "slowdown_ratio": float(mean[0] / mean[1]),
        "worst_ranks": [int(trace.ranks[worker]) for worker in worst],
        "worst_share_ratio": part(mean[0] - without[0], mean),
        "last_stage_share_ratio": part(mean[0] - without[1], mean),
    }


def own_times(trace: Trace) -> pl.DataFrame:
    """Return rank, role, step, own_ns and wait_ns of each worker and step."""
    parts = [
        pl.DataFrame(
            {
                "rank": np.full(len(trace.steps), trace.ranks[stage, replica]),
                "role": [f"stage {stage}"] * len(trace.steps),
                "step": trace.steps,
                "own_ns": trace.computing[stage, :, replica],
                "wait_ns": trace.wait[stage, :, replica],
            }
        )
        for stage, replica in trace.workers
    ]
    return pl.concat(parts).with_columns(pl.col("rank").cast(pl.Int32))
