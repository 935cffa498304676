"""Return what each rank did between its meetings with others, free of clocks.

An event is one rank's part in one rendezvous.  Its own segment runs from the end of
the rank's event before to its arrival; its stay from arrival to completion.  All are
differences of one clock.  What all members stay is the transfer; what one stays longer
is waiting.

Who waits for whom follows the operation: in a broadcast or scatter the members wait for
the root, in a reduce or gather the root for the members, in a receive the receiver for
the sender; a sender waits for its receiver only where it was seen to (it stayed
longer), for small messages are sent without.  Elsewhere all wait for all.

Enqueue-only calls that one synchronisation completes are one event: the host waits
once.  Where even the last to issue stayed longer than the others waited, the ranks run
ahead of their GPUs and the order in which they issue says nothing: such events carry no
excess and no waiting.
"""

from __future__ import annotations

import polars as pl

READS = ("collective_span", "rank", "model.step")

SENDER_WAIT_NS = 50_000
"""A sender that stays this much longer than its receiver waited for it."""

ROOT_SENDS = ("broadcast", "scatter")
ROOT_RECEIVES = ("reduce", "gather")

EVENTS = """
    select
        c.job_id, c.rank, r.role, s.step, s.start_ns, c.communicator_id,
        c.collective_seq,
        if(c.operation in ('send', 'recv'), 'send_recv', c.operation) as meeting_kind,
        case c.operation
            when 'send' then c.communicator_rank || '>' || c.peer_rank
            when 'recv' then c.peer_rank || '>' || c.communicator_rank
            else 'all'
        end as pairing,
        c.operation, c.communicator_rank = c.peer_rank as is_root,
        c.arrival_ns, c.completion_ns, c.is_enqueue_only
    from collective_span as c
    asof inner join model.step as s
        on c.job_id = s.job_id and c.rank = s.rank and c.arrival_ns >= s.start_ns
    inner join rank as r on c.job_id = r.job_id and c.rank = r.rank
    where
        c.arrival_ns < s.end_ns
        and c.communicator_id is not null and c.communicator_rank is not null
        and c.completion_ns is not null and c.is_base_known
        and not c.is_captured and not c.is_failed and not c.is_open
        and c.operation not like 'comm%'
        and (c.operation not in ('send', 'recv') or c.peer_rank >= 0)
"""

SCHEMA = {
    "rank": pl.Int32,
    "role": pl.String,
    "step": pl.Int64,
    "meeting": pl.Int64,
    "own_ns": pl.Float64,
    "ideal_ns": pl.Float64,
    "stay_ns": pl.Float64,
    "transfer_ns": pl.Float64,
    "wait_ns": pl.Float64,
    "is_source": pl.Boolean,
    "is_waiting": pl.Boolean,
}


def events(calls: pl.DataFrame) -> pl.DataFrame:
    """Return the events of one job.

    Parameters
    ----------
    calls
        Rows of ``EVENTS`` of one job.

    Returns
    -------
    polars.DataFrame
        One row a rank and rendezvous, in the rank's own order.

        ============  =======  ====  ==========================================
        rank          Int32          global rank
        role          String         role of the rank
        step          Int64          step it falls in
        meeting       Int64          number of the rendezvous
        own_ns        Float64  ns    own segment before it
        ideal_ns      Float64  ns    median of the role at this place of the step
        stay_ns       Float64  ns    arrival to completion
        transfer_ns   Float64  ns    least stay of any member
        wait_ns       Float64  ns    stay beyond it
        is_source     Boolean        others wait for its arrival
        is_waiting    Boolean        it waits for others
        ============  =======  ====  ==========================================
    """
    met = _one_a_synchronisation(_matched(calls))
    placed = _with_own_segments(met)
    return (
        placed.with_columns(
            ideal_ns=pl.col("own_ns").median().over("role", "step", "place")
        )
        .with_columns(
            own_ns=pl.when("is_hidden").then("ideal_ns").otherwise("own_ns"),
            wait_ns=pl.when(pl.col("is_hidden") | ~pl.col("is_waiting"))
            .then(0.0)
            .otherwise("wait_ns"),
        )
        .sort("rank", "arrival_ns", "meeting")
        .select(pl.col(name).cast(kind) for name, kind in SCHEMA.items())
    )


def _matched(calls: pl.DataFrame) -> pl.DataFrame:
    """Return the calls whose rendezvous another member of the case attended."""
    key = ("communicator_id", "collective_seq", "meeting_kind", "pairing")
    stay = pl.col("stay_ns")
    return (
        calls.with_columns(
            meeting=pl.struct(*key).rank("dense").cast(pl.Int64),
            stay_ns=(pl.col("completion_ns") - pl.col("arrival_ns")).cast(pl.Float64),
        )
        .with_columns(
            transfer_ns=stay.min().over("meeting"),
            wait_ns=stay - stay.min().over("meeting"),
            skew_ns=stay.max().over("meeting") - stay.min().over("meeting"),
            members=pl.len().over("meeting"),
        )
        .filter(pl.col("members") > 1)
        .with_columns(
            is_hidden=pl.col("is_enqueue_only")
            & (pl.col("skew_ns") <= pl.col("transfer_ns")),
            is_waiting=_is_waiting(),
        )
        .with_columns(is_source=_is_source())
    )


def _is_waiting() -> pl.Expr:
    operation = pl.col("operation")
    sender_waits = pl.col("wait_ns") > SENDER_WAIT_NS
    return (
        pl.when(operation.is_in(ROOT_SENDS))
        .then(~pl.col("is_root"))
        .when(operation.is_in(ROOT_RECEIVES))
        .then(pl.col("is_root"))
        .when(operation == "send")
        .then(sender_waits)
        .otherwise(statement=True)
        .fill_null(value=True)
    )


def _is_source() -> pl.Expr:
    operation = pl.col("operation")
    all_wait = pl.col("is_waiting").all().over("meeting")
    return (
        pl.when(operation.is_in(ROOT_SENDS))
        .then(pl.col("is_root"))
        .when(operation.is_in(ROOT_RECEIVES))
        .then(~pl.col("is_root"))
        .when(operation == "recv")
        .then(all_wait)
        .otherwise(statement=True)
        .fill_null(value=True)
    )


def _one_a_synchronisation(met: pl.DataFrame) -> pl.DataFrame:
    """Return the calls with those that one synchronisation completes taken as one."""
    bunch = ("rank", "completion_ns")
    issued = met.filter("is_enqueue_only").sort("rank", "arrival_ns", "meeting")
    last = issued.with_columns(wait_ns=pl.col("wait_ns").max().over(bunch)).unique(
        bunch, keep="last", maintain_order=True
    )
    return pl.concat([met.filter(~pl.col("is_enqueue_only")), last])


def _with_own_segments(met: pl.DataFrame) -> pl.DataFrame:
    """Return the events with their own segment and their place in the step."""
    before = pl.col("completion_ns").cum_max().shift(1).over("rank")
    begin = pl.max_horizontal(before, "start_ns")
    return met.sort("rank", "arrival_ns", "meeting").with_columns(
        own_ns=(pl.col("arrival_ns") - begin).clip(lower_bound=0).cast(pl.Float64),
        place=pl.int_range(pl.len()).over("rank", "step"),
        role=pl.col("role").fill_null("none"),
    )
