"""Overlapping captures of one boot: the same event must not count twice.

Two recorders, or two captures one after the other with a common stretch, bring the same
event of the same thread with the same start to the nanosecond.  Which copy stays does
not depend on load order: a closed one before an open one, then the capture that began
first, then the smaller bundle key.  The tid names the thread here, not ``thread_id``,
so that a bundle whose thread facts are damaged is de-duplicated too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.store.problems import LoadProblem

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_KEYS = {
    "collective": "tid, start_ns, operation",
    "gpu_call": "tid, start_ns, operation, layer",
    "off_cpu": "tid, start_ns, is_totals_only",
}

_OTHERS = """
select
    other.bundle_id,
    mine.capture_id = other.capture_id as is_copy,
    other.path,
    mine.path
from raw.bundle as mine
inner join raw.bundle as other
    on mine.host_id = other.host_id and mine.bundle_id <> other.bundle_id
    and mine.start_ns <= other.stop_ns and other.start_ns <= mine.stop_ns
where mine.bundle_id = ?
order by other.start_ns, other.bundle_id
"""


def remove_twice_recorded(
    connection: DuckDBPyConnection, bundle_id: int, host_id: int
) -> list[LoadProblem]:
    """Remove the second copy of events that another capture of the boot holds."""
    problems: list[LoadProblem] = []
    others = connection.execute(_OTHERS, [bundle_id]).fetchall()
    for other_id, is_copy, *paths in others:
        count = sum(
            _remove(connection, stream, bundle_id, other_id) for stream in _KEYS
        )
        if is_copy:
            continue  # damaged copies of one capture; their damage is said already
        first, second = sorted(paths)
        problems.append(
            LoadProblem(
                kind="overlapping_capture",
                message=f"{first} and {second} overlap on one boot: "
                f"{count} events recorded twice are kept once",
                path=second,
                host_id=host_id,
            )
        )
    return problems


def _remove(
    connection: DuckDBPyConnection, stream: str, bundle_id: int, other_id: int
) -> int:
    # Equal keys within one bundle are not ours to judge, hence the last condition.
    removed = connection.execute(
        f"""
        delete from raw.{stream}
        where rowid in (
            select event.rowid
            from raw.{stream} as event
            inner join (
                select bundle_id, start_ns as capture_start_ns from raw.bundle
            ) as capture on event.bundle_id = capture.bundle_id
            where event.bundle_id in ($1, $2)
            qualify first_value(event.bundle_id) over (
                partition by {_KEYS[stream]}
                order by is_open, capture_start_ns, event.bundle_id
            ) <> event.bundle_id
        )
        """,
        [bundle_id, other_id],
    ).fetchall()
    return int(removed[0][0])
