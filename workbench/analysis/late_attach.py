"""The late-attach model: whose call is whose, where recorders came late.

Sequence numbers of a communicator that was made before its recorder came start at
different calls on different hosts.  First the processes of each host are brought to one
numbering; they share a clock, so that is exact.  Then each host is brought to the
numbering of a base by the one shift that is possible (``shift_search``); hosts that the
base cannot decide are tried against the hosts that it did.

The base is a host whose recorder saw the communicator being made, if there is one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from workbench.analysis import model_rows, shift_search, wall_clock
from workbench.analysis.shift_search import Calls, ShiftSearch, WallLimit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from workbench.analysis.wall_clock import WallReadings
    from workbench.store.case import Case

READS = ("_collective_span", "clock_rule", "stg_clock_reading")
WRITES = ("late_attach",)

OTHER_BASES = 3
"""Matched hosts that are tried as a base for hosts which the first cannot decide."""

SAME_CLOCK = WallLimit(low_ns=0, high_ns=0)

CALLS = """
    with late as (
        select distinct communicator_id
        from _collective_span
        where
            not coalesce(is_base_known, false) and collective_seq is not null
            and operation not in ('send', 'recv')
    )
    select
        s.communicator_id, s.host_id, s.pid, s.rank, s.collective_seq, s.operation,
        s.data_type,
        case when r.operation is not null then s.element_count end as element_count,
        s.arrival_ns, s.completion_ns, coalesce(s.is_base_known, false) as is_known,
        r.operation is not null and not s.is_captured and not s.is_failed
            and (
                s.operation = 'barrier' or s.operation like 'comm%'
                or s.element_count > 0
            ) as is_law
    from _collective_span as s
    semi join late as l on s.communicator_id = l.communicator_id
    left join clock_rule as r
        on
            s.operation = r.operation
            and r.part = 'all'
            and r.arrival_of = 'every'
            and r.completion_of = 'every'
    where s.collective_seq is not null and s.operation not in ('send', 'recv')
    order by s.communicator_id, s.host_id, s.pid, s.collective_seq
"""

COLUMNS = (
    "host_id",
    "pid",
    "communicator_id",
    "matched_id",
    "rank",
    "state",
    "shift",
    "base_host_id",
    "call_count",
    "refuted_count",
    "excluded_count",
    "wall_error_ns",
    "is_wall_stated",
    "reason",
)

WHY = {
    "several shifts": "more than one shift of its call numbers is possible: the calls "
    "order nothing between the hosts",
    "no shift": "no shift that leaves enough common calls is possible",
    "too few calls": "too few calls in common to tell one shift from another",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Member:
    """One process in one communicator, as its recorder counted."""

    host_id: int
    pid: int
    rank: int | None
    calls: Calls
    is_known: bool
    """Counted from the communicator's creation."""


@dataclass(kw_only=True, slots=True)
class Placed:
    """Members of one host in one numbering, and what was found about it."""

    host_id: int
    members: list[Member]
    calls: Calls
    is_known: bool
    inner: dict[int, ShiftSearch | None]
    """Search of each process against the first of its host; None: the first."""

    found: ShiftSearch | None = None
    shift: int | None = None
    base_host_id: int | None = None
    limit: WallLimit | None = None
    is_stated: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Attachment:
    """All hosts of one communicator."""

    communicator_id: str
    hosts: list[Placed] = field(default_factory=list)


def run(case: Case) -> None:
    """Compute ``model.late_attach`` of a case."""
    readings = case.frame("select * from stg_clock_reading order by host_id")
    walls = wall_clock.by_host(readings)
    rows = [
        row
        for (name,), calls in numbered(case.frame(CALLS)).group_by(
            "communicator_id", maintain_order=True
        )
        for row in rows_of(attach(str(name), members_of(calls), walls))
    ]
    columns = {name: [row[name] for row in rows] for name in COLUMNS}
    model_rows.replace_rows(case, "late_attach", columns)


def numbered(calls: pl.DataFrame) -> pl.DataFrame:
    """Return the calls with a number for each kind: operation, type and count."""
    kind = pl.struct("operation", "data_type", "element_count").rank("dense")
    return calls.with_columns(kind=kind.cast(pl.Int64))


def members_of(calls: pl.DataFrame) -> list[Member]:
    """Return the members in the numbered calls of one communicator."""
    return [
        _member(rows)
        for _, rows in calls.group_by("host_id", "pid", maintain_order=True)
        if rows["collective_seq"].is_unique().all()
    ]


def _member(rows: pl.DataFrame) -> Member:
    number = rows["collective_seq"].to_numpy().astype(np.int64)
    at = number - number[0]
    length = int(at[-1]) + 1

    def spread(values: pl.Series) -> np.ndarray[Any, np.dtype[np.int64]]:
        whole = np.zeros(length, dtype=np.int64)
        whole[at] = values.fill_null(0).to_numpy()
        return whole

    kind = np.full(length, -1, dtype=np.int64)
    kind[at] = rows["kind"].to_numpy()
    has_both = np.zeros(length, dtype=bool)
    is_law = rows["is_law"] & rows["arrival_ns"].is_not_null()
    has_both[at] = (is_law & rows["completion_ns"].is_not_null()).to_numpy()
    first = rows.row(0, named=True)
    return Member(
        host_id=first["host_id"],
        pid=first["pid"],
        rank=first["rank"],
        calls=Calls(
            first=int(number[0]),
            kind=kind,
            arrival_ns=spread(rows["arrival_ns"]),
            completion_ns=spread(rows["completion_ns"]),
            has_both=has_both,
        ),
        is_known=bool(rows["is_known"].all()),
    )


def attach(
    communicator_id: str,
    members: Sequence[Member],
    walls: Mapping[int, WallReadings],
) -> Attachment:
    """Return the members of one communicator with what is proved of their numbers."""
    by_host: dict[int, list[Member]] = {}
    for member in members:
        by_host.setdefault(member.host_id, []).append(member)
    hosts = [on_one_host(mine) for mine in by_host.values()]
    hosts.sort(key=lambda host: (not host.is_known, -len(host.calls.kind)))
    for host in hosts:
        if host.is_known or host is hosts[0]:
            host.shift, host.base_host_id = 0, hosts[0].host_id
    bases, tried = hosts[:1], 0
    while tried < min(len(bases), 1 + OTHER_BASES):
        bases += _match(bases[tried], hosts, walls)
        tried += 1
    return Attachment(communicator_id=communicator_id, hosts=hosts)


def _match(
    base: Placed, hosts: Sequence[Placed], walls: Mapping[int, WallReadings]
) -> list[Placed]:
    """Bring hosts without a numbering to that of a base; return which it did."""
    matched = []
    for host in hosts:
        if host.shift is not None or base.shift is None:
            continue
        one, two = walls.get(base.host_id), walls.get(host.host_id)
        limit = wall_clock.limit(one, two)
        found = shift_search.search(base.calls, host.calls, limit)
        if host.found is None or found.shift is not None:
            host.found, host.limit = found, limit
            host.base_host_id = base.host_id
            host.is_stated = wall_clock.is_stated(one, two)
        if found.shift is not None:
            host.shift = found.shift + base.shift
            matched.append(host)
    return matched


def on_one_host(members: Sequence[Member]) -> Placed:
    """Return the members of a host in the numbering of one of them."""
    order = sorted(members, key=lambda m: (not m.is_known, -len(m.calls.kind), m.pid))
    first = order[0]
    inner: dict[int, ShiftSearch | None] = {first.pid: None}
    together = first.calls
    for member in order[1:]:
        if member.is_known and first.is_known:
            found, shift = None, 0
        else:
            found = shift_search.search(first.calls, member.calls, SAME_CLOCK)
            shift = found.shift
        inner[member.pid] = found
        if shift is not None:
            moved = replace(member.calls, first=member.calls.first + shift)
            together = merged(together, moved)
    return Placed(
        host_id=first.host_id,
        members=order,
        calls=together,
        is_known=first.is_known,
        inner=inner,
    )


def merged(one: Calls, two: Calls) -> Calls:
    """Return latest arrival and earliest completion of two processes of a host."""
    first, last = min(one.first, two.first), max(one.last, two.last)
    length = last - first + 1
    arrival = np.full(length, np.iinfo(np.int64).min)
    completion = np.full(length, np.iinfo(np.int64).max)
    kind = np.full(length, -1, dtype=np.int64)
    for each in (one, two):
        at = np.arange(len(each.kind)) + each.first - first
        kind[at] = np.where(each.kind >= 0, each.kind, kind[at])
        mine = at[each.has_both]
        np.maximum.at(arrival, mine, each.arrival_ns[each.has_both])
        np.minimum.at(completion, mine, each.completion_ns[each.has_both])
    has_both = arrival > np.iinfo(np.int64).min
    return Calls(
        first=first,
        kind=kind,
        arrival_ns=np.where(has_both, arrival, 0),
        completion_ns=np.where(has_both, completion, 0),
        has_both=has_both,
    )


def rows_of(attachment: Attachment) -> Iterator[dict[str, Any]]:
    """Return the rows of ``model.late_attach`` of one communicator."""
    is_alone = sum(len(host.members) for host in attachment.hosts) == 1
    is_matched = _is_matched(attachment.hosts)
    for host in attachment.hosts:
        for member in host.members:
            if not member.is_known:
                row = _row(host, member, is_matched=is_matched, is_alone=is_alone)
                yield row | {
                    "communicator_id": attachment.communicator_id,
                    "matched_id": attachment.communicator_id,
                }


def _is_matched(hosts: Sequence[Placed]) -> bool:
    """Return whether two hosts have one numbering, or two processes of the only one."""
    matched = [host for host in hosts if host.shift is not None]
    if len(hosts) > 1:
        return len(matched) > 1
    inner = [_inner_shift(hosts[0], member) for member in hosts[0].members]
    return sum(shift is not None for shift in inner) > 1


def _inner_shift(host: Placed, member: Member) -> int | None:
    found = host.inner[member.pid]
    return 0 if found is None else found.shift


def _row(
    host: Placed, member: Member, *, is_matched: bool, is_alone: bool
) -> dict[str, Any]:
    inner = _inner_shift(host, member)
    found = host.inner[member.pid] if inner is None else host.found
    shift = None
    if inner is not None and host.shift is not None and is_matched:
        shift = inner + host.shift
    state = "base" if found is None else found.state
    if shift is None and state in ("base", "shift proved"):
        state = "alone" if is_alone else "not matched"
    return {
        "host_id": member.host_id,
        "pid": member.pid,
        "rank": member.rank,
        "state": state,
        "shift": shift,
        "base_host_id": host.base_host_id,
        "call_count": len(member.calls.kind) if found is None else found.call_count,
        "refuted_count": 0 if found is None else found.refuted_count,
        "excluded_count": 0 if found is None else found.excluded_count,
        "wall_error_ns": _half_width(host.limit),
        "is_wall_stated": host.is_stated,
        "reason": _reason(host, state, found),
    }


def _half_width(limit: WallLimit | None) -> int | None:
    return None if limit is None else (limit.high_ns - limit.low_ns) // 2


def _reason(host: Placed, state: str, found: ShiftSearch | None) -> str:
    """Return how a shift is known, or why it is not."""
    if state == "base":
        return "the others are given its numbers"
    if state == "alone":
        return "no other member's calls are in this case"
    if state == "not matched":
        return "no other member could be given its numbers"
    if found is None or found.shift is None:
        return WHY[state]
    if not found.is_by_wall_clock:
        return (
            f"the only one of {found.refuted_count + 1} that its "
            f"{found.call_count} common calls allow"
        )
    width = _half_width(host.limit) or 0
    whose = "as the hosts state" if host.is_stated else "assumed, for none is stated"
    return (
        f"the only one that wall clocks right to +-{width / 1e6:.3f} ms allow, {whose}"
    )
