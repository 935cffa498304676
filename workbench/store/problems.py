"""What went wrong while loading, as rows: ``raw.load_problem``.

Kinds that a bundle's bytes give stand in ``capture/BUNDLE.md``; the kinds of a whole
case are made here, anew at each load, because the next bundle can solve them (the
missing rank arrives) or cause them (a second process claims rank 3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from numpy.typing import NDArray

NOTES = {
    "cloned_machine_id": "two boots that ran at once share a machine id; they stay "
    "two hosts",
    "different_jobs": "bundles of the case have no job in common",
    "duplicate_bundle": "another copy of a capture that is loaded; skipped",
    "missing_rank": "ranks of a job that no bundle brings",
    "overlapping_capture": "two captures of one boot overlap; nothing counts twice",
    "rank_conflict": "two processes that ran at once claim one rank of a job",
}
"""Kinds that are no damage, every byte recorded has been read; and what they mean."""

DAMAGE = {
    "id_collision": "host or bundle whose key another one has; it is not loaded",
    "impossible_time": "rows whose start is below 0 or beyond 2^62 ns; left out",
    "negative_duration": "lengths below 0; null",
}
"""Kinds of damage beside those in BUNDLE.md, and what they mean."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadProblem:
    """One row of ``raw.load_problem``."""

    kind: str
    message: str
    path: str | None = None
    member: str | None = None
    bundle_id: int | None = None
    host_id: int | None = None

    @property
    def is_damage(self) -> bool:
        """Return whether something that was recorded could not be read."""
        return self.kind not in NOTES


def insert_problems(
    connection: DuckDBPyConnection, problems: list[LoadProblem]
) -> None:
    """Append rows; a row that is there already is not repeated by a second load."""
    if not problems:
        return
    fields = ("bundle_id", "host_id", "path", "kind", "member", "message")
    data: dict[str, NDArray[Any]] = {"seq": np.arange(len(problems))}
    for field in fields:
        data[field] = np.empty(len(problems), object)
        data[field][:] = [getattr(problem, field) for problem in problems]
    connection.register("_problem", data)
    try:
        connection.execute(_INSERT)
    finally:
        connection.unregister("_problem")


_INSERT = """
insert into raw.load_problem
select bundle_id, host_id, path, kind, member, message
from (
    select
        seq,
        bundle_id::integer as bundle_id,
        host_id::integer as host_id,
        path::varchar as path,
        kind::varchar as kind,
        member::varchar as member,
        message::varchar as message,
    from _problem
) as new
where not exists (
    select 1
    from raw.load_problem as old
    where old.path is not distinct from new.path
        and old.kind = new.kind
        and old.member is not distinct from new.member
        and old.message = new.message
)
order by seq
"""


def refresh_case_problems(connection: DuckDBPyConnection) -> list[LoadProblem]:
    """Replace the rows about the case as a whole and return them."""
    kinds = ", ".join(f"'{kind}'" for kind in sorted(_CASE_CHECKS))
    connection.execute(f"delete from raw.load_problem where kind in ({kinds})")
    problems = [
        LoadProblem(kind=kind, message=message, bundle_id=bundle_id, host_id=host_id)
        for kind, sql in _CASE_CHECKS.items()
        for message, bundle_id, host_id in connection.execute(sql).fetchall()
    ]
    insert_problems(connection, problems)
    return problems


# A machine id on two boots is a clone only if both ran at once: the same machine after
# a reboot shares it too.  Wall clocks are good enough to tell days from seconds.
_CLONED = """
with boot as (
    select
        host_id,
        machine_id,
        any_value(host_name) as host_name,
        min(epoch_ns(start_utc::timestamptz::timestamp) - start_ns) as from_ns,
        max(epoch_ns(start_utc::timestamptz::timestamp) + stop_ns - start_ns) as to_ns,
    from raw.bundle
    where machine_id is not null
        and try_cast(start_utc as timestamptz) is not null
    group by host_id, machine_id
)
select
    'machine id ' || one.machine_id || ' is shared by ' || one.host_name || ' and '
    || other.host_name || ', two hosts that ran at the same time' as message,
    null::integer as bundle_id,
    one.host_id
from boot as one
inner join boot as other
    on one.machine_id = other.machine_id
    and (one.host_name, one.host_id) < (other.host_name, other.host_id)
    and one.from_ns < other.to_ns and other.from_ns < one.to_ns
order by message
"""

# Jobs of a bundle are those of its processes and ranks.
_DIFFERENT_JOBS = """
with job as (
    select distinct bundle_id, job_id from raw.fact_process where job_id is not null
    union
    select distinct bundle_id, job_id from raw.fact_rank where job_id is not null
),
shape as (
    select bundle_id, list_sort(list(job_id)) as jobs from job group by bundle_id
),
apart as (
    select distinct one.jobs
    from shape as one
    inner join shape as other on not list_has_any(one.jobs, other.jobs)
)
select
    'bundles of different jobs in one case: '
    || string_agg(array_to_string(jobs, '+'), ', ' order by jobs) as message,
    null::integer as bundle_id,
    null::integer as host_id
from apart
having count(*) > 0
"""

# A worker that a rank forks has the rank's environment, and no claim of its own as long
# as it makes no collective call.
# Two processes may hold a rank one after the other (a restart).  Times of two hosts are
# compared by wall clock, which is enough to tell a restart from a conflict.
_CLAIM = """
with wall as (
    select bundle_id, min_by(realtime_ns - monotonic_ns, monotonic_ns) as lead_ns
    from raw.clock_reading
    group by bundle_id
),
inherited as (
    select child.bundle_id, child.pid, child.start_ticks
    from raw.fact_rank as child
    inner join raw.fact_process as process
        on child.bundle_id = process.bundle_id and child.pid = process.pid
        and child.start_ticks = process.start_ticks
    inner join raw.fact_rank as parent
        on child.bundle_id = parent.bundle_id and process.parent_pid = parent.pid
        and child.rank = parent.rank
        and child.job_id is not distinct from parent.job_id
    anti join raw.collective as call
        on child.bundle_id = call.bundle_id and child.pid = call.pid
),
claim as (
    select
        rank.job_id,
        rank.rank,
        rank.host_id,
        rank.pid,
        rank.start_ticks,
        any_value(bundle.host_name) as host_name,
        min(process.first_ns + coalesce(wall.lead_ns, 0)) as from_ns,
        max(process.exit_ns + coalesce(wall.lead_ns, 0)) as exit_ns,
    from raw.fact_rank as rank
    inner join raw.bundle as bundle on rank.bundle_id = bundle.bundle_id
    left join raw.fact_process as process
        on rank.bundle_id = process.bundle_id and rank.pid = process.pid
        and rank.start_ticks = process.start_ticks
    left join wall on rank.bundle_id = wall.bundle_id
    anti join inherited
        on rank.bundle_id = inherited.bundle_id and rank.pid = inherited.pid
        and rank.start_ticks = inherited.start_ticks
    group by all
)
"""

_RANK_CONFLICT = f"""
{_CLAIM}
select
    'rank ' || one.rank || ' of job ' || coalesce(one.job_id, '(unknown)')
    || ' is claimed by process ' || one.pid || ' on ' || one.host_name
    || ' and process ' || other.pid || ' on ' || other.host_name as message,
    null::integer as bundle_id,
    null::integer as host_id
from claim as one
inner join claim as other
    on one.rank = other.rank and one.job_id is not distinct from other.job_id
    and (one.host_name, one.host_id, one.pid, one.start_ticks)
    < (other.host_name, other.host_id, other.pid, other.start_ticks)
where not coalesce(one.exit_ns <= other.from_ns, false)
    and not coalesce(other.exit_ns <= one.from_ns, false)
order by message
"""

_MISSING_RANK = """
with job as (
    select
        job_id,
        max(world_size) as world_size,
        list(distinct rank) as ranks,
    from raw.fact_rank
    group by job_id
),
gap as (
    select
        job_id,
        world_size,
        list_filter(
            range(world_size::bigint), lambda r: not list_contains(ranks, r)
        ) as missing,
    from job
    where world_size between 1 and 1000000
)
select
    'no bundle brings ' || if(len(missing) = 1, 'rank ', 'ranks ')
    || array_to_string(missing[1:32], ', ')
    || if(len(missing) > 32, ' and ' || (len(missing) - 32) || ' more', '')
    || ' of the ' || world_size || ' of job '
    || coalesce(job_id, '(unknown)') as message,
    null::integer as bundle_id,
    null::integer as host_id
from gap
where len(missing) > 0
order by message
"""

_CASE_CHECKS = {
    "cloned_machine_id": _CLONED,
    "different_jobs": _DIFFERENT_JOBS,
    "missing_rank": _MISSING_RANK,
    "rank_conflict": _RANK_CONFLICT,
}
