"""The step model: finds the repeating unit of work in a job's collective calls.

The calls on a job's widest communicator have the same order on every member, so their
signature (operation, elements, type) by call number belongs to the job.  Its smallest
period is taken for one step.  The period is sought in the longest stretch that repeats
exactly: what comes before (start-up) and after, or now and then in between
(evaluation, checkpoints), is no obstacle and lengthens the step in which it falls.

A step runs from the completion of one marking call, the last of its period, to the
next.  The first period has no completion before it and gives no step: what a job does
before its first step is not work of one.  A user may name the marking call instead; it
is then as sure as its numbering.  Numbers count periods, so a rank that is seen late
has the same numbers as the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from workbench.analysis import model_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from workbench.store.case import Case

    Marker = tuple[str, str | None]
    """Operation and communicator of the call that ends a step."""

READS = ("collective_span", "activity", "stg_step_marker")
WRITES = ("step",)

LOOKED_AT = 20_000
"""Calls in which a period is sought; the found one is then matched in all."""

LONGEST_PERIOD = 4096
FEWEST_PERIODS = 3
LEAST_EXPLAINED = 0.5
"""Share of the calls that a period must explain to be one."""

UNFOUND_CONFIDENCE = 0.2
UNNUMBERED_CONFIDENCE = 0.5
"""Factor where calls are not numbered from the start of their communicator: then the
numbers of two ranks need not mean the same step."""

CALLS = """
    select
        job_id, rank, host_id, communicator_id, communicator_size, collective_seq,
        operation, element_count, data_type, arrival_ns, completion_ns,
        is_enqueue_only, is_base_known
    from collective_span
    where
        rank is not null and communicator_id is not null
        and collective_seq is not null and not is_captured
        and operation not like 'comm%' and operation not in ('send', 'recv')
"""

GIVEN = """
    select
        host_id, rank, job_id, step,
        min(start_ns) as start_ns, max(end_ns) as end_ns,
        count(*) as period_calls, 1.0::double as confidence
    from activity
    group by host_id, rank, job_id, step
    order by job_id, rank, step
"""
"""Steps of imported traces, which number them themselves."""

SCHEMA = {
    "host_id": pl.Int32,
    "rank": pl.Int32,
    "job_id": pl.String,
    "step": pl.Int64,
    "start_ns": pl.Int64,
    "end_ns": pl.Int64,
    "period_calls": pl.Int64,
    "confidence": pl.Float64,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Periods:
    """Where the periods of a signature begin."""

    length: int
    starts: NDArray[np.int64]
    """Positions in the signature."""

    confidence: float


def run(case: Case) -> None:
    """Compute ``model.step`` of a case."""
    markers = case.frame("from stg_step_marker").rows()
    found = find_steps(case.frame(CALLS), marker=markers[0] if markers else None)
    steps = pl.concat([found, case.frame(GIVEN).select(found.columns)])
    columns = {name: steps[name].to_list() for name in SCHEMA if name == "job_id"}
    columns |= {name: steps[name].to_numpy() for name in SCHEMA if name != "job_id"}
    columns["job_id"] = np.array(columns["job_id"], dtype=object)
    model_rows.replace_rows(case, "step", columns)


def find_steps(calls: pl.DataFrame, *, marker: Marker | None = None) -> pl.DataFrame:
    """Return the steps of every rank of every job.

    Parameters
    ----------
    calls
        Rows of ``CALLS``.
    marker
        Operation and communicator of the call that ends a step, the latter None for the
        widest on which it is called; steps are sought if not given.

    Returns
    -------
    polars.DataFrame
        Rows of ``model.step``, sorted by job, rank and step.
    """
    parts = [
        steps_of_job(mine, marker)
        for _, mine in calls.group_by("job_id", maintain_order=True)
    ]
    empty = pl.DataFrame(schema=SCHEMA)
    steps = pl.concat([empty, *parts])
    return steps.sort("job_id", "rank", "step")


def steps_of_job(calls: pl.DataFrame, marker: Marker | None = None) -> pl.DataFrame:
    """Return the steps of every rank of one job."""
    operation, widest = marker or (None, None)
    marking = calls if operation is None else calls.filter(operation=operation)
    if widest is None and not marking.is_empty():
        widest = widest_communicator(marking)
    calls = calls.filter(pl.col("communicator_id") == widest)
    calls = calls.unique(["rank", "collective_seq"], keep="first", maintain_order=True)
    calls = calls.sort("rank", "collective_seq")
    by_number = calls.unique("collective_seq", keep="first", maintain_order=True).sort(
        "collective_seq"
    )
    if operation is None:
        periods = find_periods(signature(by_number))
    else:
        periods = marked_periods(by_number["operation"].to_numpy() == operation)
    last = periods.starts + periods.length - 1
    markers = pl.DataFrame(
        {
            "collective_seq": by_number["collective_seq"].to_numpy()[last],
            "step": np.arange(len(last)),
        },
        schema={"collective_seq": pl.Int64, "step": pl.Int64},
    )
    return _between_markers(calls, markers, periods)


def marked_periods(is_marker: NDArray[np.bool_]) -> Periods:
    """Return the periods that end where a user said so; their usual length."""
    ends = np.flatnonzero(is_marker)
    length = int(np.median(np.diff(ends))) if len(ends) > 1 else 1
    return Periods(length=length, starts=ends - length + 1, confidence=1.0)


def widest_communicator(calls: pl.DataFrame) -> str:
    """Return the communicator with most members; of equals that with most calls."""
    return (
        calls.group_by("communicator_id")
        .agg(
            pl.col("communicator_size").max().fill_null(0),
            pl.col("rank").n_unique().alias("seen"),
            pl.len().alias("calls"),
        )
        .sort(
            "communicator_size",
            "seen",
            "calls",
            "communicator_id",
            descending=[True, True, True, False],
        )
        .item(0, "communicator_id")
    )


def signature(by_number: pl.DataFrame) -> NDArray[np.int64]:
    """Return a number for each call that is equal where the calls look equal."""
    look = by_number.select(pl.struct("operation", "element_count", "data_type"))
    return look.to_series().rank("dense").to_numpy().astype(np.int64)


def find_periods(signature: NDArray[np.int64]) -> Periods:
    """Return the smallest period of a signature and all places where it stands."""
    stretch = longest_repeat(signature)
    if len(stretch):
        length = smallest_period(stretch)
        starts = places_of(stretch[:length], signature)
        explained = len(starts) * length / len(signature)
        if len(starts) >= FEWEST_PERIODS and explained >= LEAST_EXPLAINED:
            return Periods(length=length, starts=starts, confidence=explained)
    return Periods(
        length=1,
        starts=np.arange(len(signature)),
        confidence=UNFOUND_CONFIDENCE,
    )


def longest_repeat(signature: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the longest stretch that repeats exactly three times or more.

    For each candidate period the calls that equal the one a period later form runs; the
    longest run of any period, plus that period, is the stretch.
    """
    head = signature[:LOOKED_AT]
    best = (0, 0, 0)
    for period in range(1, min(len(head) // FEWEST_PERIODS, LONGEST_PERIOD) + 1):
        if len(head) <= best[0]:
            break
        begin, length = _longest_run(head[:-period] == head[period:])
        if length >= (FEWEST_PERIODS - 1) * period and length + period > best[0]:
            best = (length + period, begin, period)
    length, begin, _ = best
    return head[begin : begin + length]


def _longest_run(is_equal: NDArray[np.bool_]) -> tuple[int, int]:
    """Return begin and length of the longest run of True."""
    edges = np.flatnonzero(np.diff(is_equal, prepend=False, append=False))
    if not len(edges):
        return 0, 0
    lengths = edges[1::2] - edges[::2]
    longest = int(lengths.argmax())
    return int(edges[2 * longest]), int(lengths[longest])


def smallest_period(stretch: NDArray[np.int64]) -> int:
    """Return the smallest exact period of a sequence.

    Notes
    -----
    Knuth, Morris and Pratt's failure function: a sequence of length n whose longest
    border has length b has the smallest period n - b.
    """
    values = stretch.tolist()
    border = [0] * len(values)
    length = 0
    for at in range(1, len(values)):
        while length and values[at] != values[length]:
            length = border[length - 1]
        if values[at] == values[length]:
            length += 1
        border[at] = length
    return len(values) - border[-1]


def places_of(
    pattern: NDArray[np.int64], signature: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return where a pattern stands, without overlaps, from the first on."""
    found = np.arange(len(signature) - len(pattern) + 1)
    for at, value in enumerate(pattern.tolist()):
        found = found[signature[found + at] == value]
    starts, free = [], 0
    for start in found.tolist():
        if start >= free:
            starts.append(start)
            free = start + len(pattern)
    return np.array(starts, dtype=np.int64)


def _between_markers(
    calls: pl.DataFrame, markers: pl.DataFrame, periods: Periods
) -> pl.DataFrame:
    """Return a row for each rank and step whose begin and end it shows."""
    following = pl.col("arrival_ns").shift(-1).over("rank")
    known = pl.col("is_base_known").fill_null(value=False)
    cut = pl.coalesce(
        "completion_ns", pl.when(pl.col("is_enqueue_only")).then(following)
    )
    return (
        calls.with_columns(cut.alias("end_ns"))
        .join(markers, on="collective_seq")
        .sort("rank", "step")
        .with_columns(
            start_ns=pl.when(pl.col("step").diff().over("rank") == 1).then(
                pl.col("end_ns").shift(1).over("rank")
            ),
            period_calls=pl.lit(periods.length, dtype=pl.Int64),
            confidence=pl.when(known)
            .then(pl.lit(periods.confidence))
            .otherwise(periods.confidence * UNNUMBERED_CONFIDENCE),
        )
        .filter(pl.col("end_ns") > pl.col("start_ns"))
        .select(*(pl.col(name).cast(kind) for name, kind in SCHEMA.items()))
    )
