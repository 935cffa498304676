"""Copies of one capture: which of them a case keeps.

A bundle's identity is the hash of its ``SHA256SUMS``.  A damaged one is not the content
that list speaks of: it takes the hash of its file instead.  Of one capture the sound
copy is enough: it takes the place of damaged ones, whichever comes first.  Damaged
copies without a sound one stay, for each may hold what the other has lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.store.problems import NOTES, LoadProblem
from workbench.store.raw_schema import table_columns

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from duckdb import DuckDBPyConnection


class AlreadyLoadedError(Exception):
    """The case holds this content already; the message says as what."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Copy:
    """One loaded bundle of a capture."""

    bundle_id: int
    path: str
    is_damaged: bool


def refuse_known(connection: DuckDBPyConnection, content: str) -> None:
    """Raise if a bundle of that content is in the case."""
    rows = connection.execute(
        "select path from raw.bundle where content_sha256 = ?", [content]
    ).fetchall()
    if rows:
        raise AlreadyLoadedError(f"a copy of {rows[0][0]}, skipped")


def refuse_damaged_copy(others: Sequence[Copy]) -> None:
    """Raise if a sound bundle of the same capture is in the case."""
    for other in others:
        if not other.is_damaged:
            raise AlreadyLoadedError(f"a copy of {other.path}, skipped")


_OF_CAPTURE = """
select
    bundle_id,
    path,
    bundle_id in (
        select bundle_id
        from raw.load_problem
        where bundle_id is not null and not list_contains($4, kind)
    ) as is_damaged
from raw.bundle
where host_id = $1 and capture_id = $2 and bundle_id <> $3
order by path
"""


def of_capture(
    connection: DuckDBPyConnection, host_id: int, capture_id: str, but: int
) -> list[Copy]:
    """Return the loaded bundles of a capture without the one whose key is `but`."""
    rows = connection.execute(
        _OF_CAPTURE, [host_id, capture_id, but, sorted(NOTES)]
    ).fetchall()
    return [
        Copy(bundle_id=bundle_id, path=path, is_damaged=is_damaged)
        for bundle_id, path, is_damaged in rows
    ]


def remove(
    connection: DuckDBPyConnection, damaged: Sequence[Copy], *, for_path: Path
) -> list[LoadProblem]:
    """Remove damaged bundles, and all that is said of them, for a sound one."""
    for copy in damaged:
        for table in table_columns():
            connection.execute(
                f"delete from raw.{table} where bundle_id = ?",
                [copy.bundle_id],
            )
        connection.execute(
            "delete from raw.load_problem"
            " where kind = 'overlapping_capture' and contains(message, ?)",
            [copy.path],
        )
    return [
        LoadProblem(
            kind="duplicate_bundle",
            message=f"a copy of {for_path}, skipped",
            path=copy.path,
        )
        for copy in damaged
    ]


def rename(
    connection: DuckDBPyConnection, bundle_id: int, new_id: int, content: str
) -> None:
    """Give a loaded bundle the identity of `content`."""
    for table in table_columns():
        connection.execute(
            f"update raw.{table} set bundle_id = ? where bundle_id = ?",
            [new_id, bundle_id],
        )
    connection.execute(
        "update raw.bundle set content_sha256 = ? where bundle_id = ?",
        [content, new_id],
    )
