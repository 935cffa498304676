"""Which part of a case is exported: a window of cluster time, hosts, ranks.

Times are seconds since the case's origin, as every command takes them.  What touches
the window is in it, whole: a span that began before is not cut, for a cut span has a
false duration.  A table is narrowed by the columns it has; what has neither time nor
host nor rank comes whole, and :attr:`Narrowed.by` says what was done.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.errors import QueryError
from workbench.store.raw_schema import EVENT_TABLES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workbench.store.case import Case
    from workbench.store.header import Column

SECOND = 10**9
HOST_TIME = "host MONOTONIC"
"""How a header says that a column counts on the host's own clock."""

LENGTHS = {
    "end_ns": "t.end_ns",
    "stop_ns": "t.stop_ns",
    "duration_ns": "t.start_ns + t.duration_ns",
}
"""Columns that give the end of what begins at start_ns."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """What was asked for; None and empty mean all."""

    from_s: float | None = None
    to_s: float | None = None
    hosts: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Scope:
    """A selection as a case understands it."""

    origin_ns: int
    from_ns: int | None
    to_ns: int | None
    """Window in cluster time, half-open."""
    host_ids: tuple[int, ...] | None
    ranks: tuple[int, ...] | None

    @property
    def has_window(self) -> bool:
        """Return whether time is narrowed."""
        return self.from_ns is not None or self.to_ns is not None

    @property
    def is_all(self) -> bool:
        """Return whether nothing is narrowed."""
        return not self.has_window and self.host_ids is None and self.ranks is None


@dataclass(frozen=True, kw_only=True, slots=True)
class Narrowed:
    """A select of the chosen rows of a table, and what chose them."""

    sql: str
    by: tuple[str, ...]


def cluster_time(instant: str, clock: str) -> str:
    """Return the SQL of a host's instant in cluster time, by its row of model.clock.

    A host without a row has a cluster time of its own.
    """
    moved = f"({instant} - {clock}.from_ns) * {clock}.rate"
    return f"coalesce({instant} + {clock}.offset_ns + ({moved})::bigint, {instant})"


def clock_join(instant: str, clock: str, *, of: str = "t") -> str:
    """Return the join that gives each row of `of` its row of model.clock."""
    return (
        f"asof left join model.clock as {clock}"
        f" on {of}.host_id = {clock}.host_id and {instant} >= {clock}.from_ns"
    )


def resolve(case: Case, selection: Selection) -> Scope:
    """Return the scope that a selection means in a case.

    Raises
    ------
    QueryError
        If the window is empty or holds no event, or the case has no such host or rank.
    """
    window = [
        None if at is None else case.origin_ns + round(at * SECOND)
        for at in (selection.from_s, selection.to_s)
    ]
    scope = Scope(
        origin_ns=case.origin_ns,
        from_ns=window[0],
        to_ns=window[1],
        host_ids=_host_ids(case, selection.hosts),
        ranks=_ranks(case, selection.ranks),
    )
    if scope.has_window:
        _check_window(case, scope, selection)
    return scope


def _host_ids(case: Case, wanted: Sequence[str]) -> tuple[int, ...] | None:
    if not wanted:
        return None
    known = case.frame("select host_id, host_name from host order by host_name").rows()
    chosen: list[int] = []
    for word in wanted:
        found = [id_ for id_, name in known if word in (name, str(id_))]
        if not found:
            names = ", ".join(str(name or id_) for id_, name in known)
            raise QueryError(
                f"no host is called {word}", hint=f"this case has {names or 'none'}"
            )
        chosen += found
    return tuple(dict.fromkeys(chosen))


def _ranks(case: Case, wanted: Sequence[int]) -> tuple[int, ...] | None:
    if not wanted:
        return None
    known = case.frame("select distinct rank from rank order by rank")["rank"].to_list()
    for rank in wanted:
        if rank not in known:
            has = ", ".join(map(str, known)) or "none"
            raise QueryError(f"no rank {rank}", hint=f"this case has {has}")
    return tuple(dict.fromkeys(wanted))


def _check_window(case: Case, scope: Scope, selection: Selection) -> None:
    from_s, to_s = selection.from_s, selection.to_s
    if from_s is not None and to_s is not None and from_s >= to_s:
        raise QueryError(f"the window from {from_s:g} s to {to_s:g} s is empty")
    last_ns = _last_ns(case)
    columns = ["host_id", "thread_id", "start_ns", "duration_ns", "is_open"]
    events = " union all ".join(
        f"select {', '.join(columns)} from raw.{name}" for name in EVENT_TABLES
    )
    chosen = narrow(scope, f"({events})", columns, host_time=True).sql
    is_after = scope.from_ns is not None and scope.from_ns >= last_ns
    if is_after or case.frame(f"select 1 from ({chosen}) limit 1").is_empty():
        words = " to ".join(f"{at:g} s" for at in (from_s, to_s) if at is not None)
        last_s = (last_ns - case.origin_ns) / SECOND
        raise QueryError(
            f"no event in the window {words}",
            hint=f"this case was recorded from 0 s to {last_s:.3f} s",
        )


def _last_ns(case: Case) -> int:
    """Return when the last recording ended, in cluster time."""
    ends = case.frame(
        f"select max({cluster_time('t.stop_ns', 'c')}) from host as t"
        f" {clock_join('t.stop_ns', 'c')}"
    )
    return ends.item() or case.origin_ns


def narrow_view(scope: Scope, relation: str, columns: Sequence[Column]) -> Narrowed:
    """Return the chosen rows of a view, by what its header says of its columns."""
    is_host_time = any(
        column.name == "start_ns" and HOST_TIME in column.meaning for column in columns
    )
    names = [column.name for column in columns]
    return narrow(scope, relation, names, host_time=is_host_time)


def narrow(
    scope: Scope, relation: str, columns: Sequence[str], *, host_time: bool
) -> Narrowed:
    """Return the chosen rows of a relation with these columns."""
    has = set(columns)
    where: list[str] = []
    by: list[str] = []
    joins = ""
    if scope.host_ids is not None and "host_id" in has:
        where.append(f"t.host_id in ({_listed(scope.host_ids)})")
        by.append("host")
    if scope.ranks is not None and (rule := _rank_rule(scope.ranks, has)):
        where.append(rule)
        by.append("rank")
    if scope.has_window:
        joins, rules = _window_rules(scope, has, host_time=host_time)
        where += rules
        by += ["window"] if rules else []
    sql = f"select t.* from {relation} as t {joins}"
    return Narrowed(
        sql=f"{sql} where {' and '.join(where)}" if where else sql, by=tuple(by)
    )


def _rank_rule(ranks: tuple[int, ...], has: set[str]) -> str | None:
    """Return the condition that picks ranks: by thread, by process, or by number."""
    chosen = f"rank in ({_listed(ranks)})"
    if {"host_id", "thread_id"} <= has:
        mine = f"select (host_id, thread_id) from rank_thread where {chosen}"
        return f"(t.host_id, t.thread_id) in ({mine})"
    if {"host_id", "pid"} <= has:
        mine = f"select (host_id, pid) from rank where {chosen}"
        return f"(t.host_id, t.pid) in ({mine})"
    return f"t.{chosen}" if "rank" in has else None


def _window_rules(
    scope: Scope, has: set[str], *, host_time: bool
) -> tuple[str, list[str]]:
    if host_time and {"host_id", "start_ns"} <= has:
        start, ends = "t.start_ns", [LENGTHS[each] for each in LENGTHS if each in has]
        end = ends[0] if ends else start
        begin_ts, end_ts = cluster_time(start, "c"), cluster_time(end, "d")
        joins = f"{clock_join(start, 'c')} {clock_join(end, 'd')}"
        # Without an end it was still going on, unless it says that it was not.
        is_open = "t.is_open" if "is_open" in has else f"{end} is null"
    elif "ts_ns" in has:
        begin_ts = end_ts = "t.ts_ns"
        joins, is_open = "", "false"
    else:
        return "", []
    rules: list[str] = []
    if scope.to_ns is not None:
        rules.append(f"{begin_ts} < {scope.to_ns}")
    if scope.from_ns is not None:
        touches = f"{begin_ts} >= {scope.from_ns} or {end_ts} > {scope.from_ns}"
        rules.append(f"({touches} or {is_open})")
    return joins, rules


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
