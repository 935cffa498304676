"""Bundles into a case: each in one transaction, damage and doubts as rows.

A bundle that cannot be read never stops the others.  Bundles load in the order of their
start, whatever order they are named in, and every key comes from content, so the same
bundles give the same tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.bundle.reader import BundleReader
from workbench.bundle.verify import refusals
from workbench.errors import BundleError, CaseError
from workbench.store.bundle_load import BundleLoad
from workbench.store.copies import AlreadyLoadedError, refuse_known
from workbench.store.problems import (
    LoadProblem,
    insert_problems,
    refresh_case_problems,
)
from workbench.store.views import build_library

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from duckdb import DuckDBPyConnection

    from workbench.store.bundle_load import Progress
    from workbench.store.case import Case


_MEMORY_LIMIT = "768MiB"
"""What DuckDB may cache while rows arrive; none of it is read again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadReport:
    """What one load did."""

    bundle_count: int
    """Bundles that brought rows."""
    row_count: int
    """Events that were read."""
    problems: tuple[LoadProblem, ...]
    is_any_read: bool
    """Whether at least one bundle was loaded or was there already."""

    @property
    def is_damaged(self) -> bool:
        """Return whether something recorded could not be read."""
        return any(problem.is_damage for problem in self.problems)


def load_bundles(
    case: Case,
    paths: Iterable[Path | str],
    *,
    progress: Progress | None = None,
    build: bool = True,
) -> LoadReport:
    """Fill the raw tables from bundles, then build the view library.

    Parameters
    ----------
    case
        Case that is open for writing.
    paths
        Bundle files; a folder stands for the ``*.bundle`` files in it.
    progress
        Called while events are loaded.
    build
        Whether to build the kept views and run the models.
    """
    if case.is_read_only:
        raise CaseError(f"{case.path} is open for reading only")
    ordered, problems = _in_order(find_bundles(paths))
    loads: list[_Load] = []
    if case.path is not None:
        case.connection.execute(f"set memory_limit = '{_MEMORY_LIMIT}'")
    for path in ordered:
        reader, refused = _open(path)
        problems += refused
        if reader is not None:
            with reader:
                loads.append(_load_one(case.connection, reader, progress))
    case.connection.execute("reset memory_limit")
    insert_problems(case.connection, problems)
    superseded = frozenset().union(*(load.superseded for load in loads))
    problems += [
        problem
        for load in loads
        for problem in load.problems
        if problem.bundle_id not in superseded
    ]
    problems += refresh_case_problems(case.connection)
    if build:
        build_library(case, _view_progress(progress))
    return LoadReport(
        bundle_count=sum(load.is_new for load in loads),
        row_count=sum(load.row_count for load in loads),
        problems=tuple(problems),
        is_any_read=any(load.is_known for load in loads),
    )


def _view_progress(progress: Progress | None) -> Callable[[str], None] | None:
    """Return what tells the names of the views that are built."""
    if progress is None:
        return None
    return lambda view: progress(f"view {view}", 0, 0)


def find_bundles(paths: Iterable[Path | str]) -> list[Path]:
    """Return the files that `paths` name; a folder gives its ``*.bundle`` files."""
    found: list[Path] = []
    for path in map(Path, paths):
        found += sorted(path.glob("*.bundle")) if path.is_dir() else [path]
    return found


def _in_order(paths: Iterable[Path]) -> tuple[list[Path], list[LoadProblem]]:
    """Return bundles by the start of their capture, and why some are none.

    They are opened for it one by one: a thousand open files are too many.
    """
    keys: list[tuple[int, str, Path]] = []
    problems: list[LoadProblem] = []
    for path in paths:
        reader, refused = _open(path)
        problems += refused
        if reader is not None:
            with reader:
                manifest = reader.manifest
                keys.append((manifest.capture.start_ns, manifest.capture_id, path))
    return [path for _, _, path in sorted(keys)], problems


def _open(path: Path) -> tuple[BundleReader | None, list[LoadProblem]]:
    """Return a reader, or why there is none."""
    try:
        return BundleReader.open(path), []
    except (BundleError, ExceptionGroup) as error:
        problems = [
            LoadProblem(kind=fault.kind, message=fault.message, path=str(path))
            for fault in refusals(error)
        ]
        return None, problems


@dataclass(frozen=True, kw_only=True, slots=True)
class _Load:
    """What one bundle brought."""

    problems: list[LoadProblem]
    superseded: frozenset[int] = frozenset()
    """Damaged bundles of the same capture that this one replaces."""
    row_count: int = 0
    is_new: bool = False
    is_known: bool = False


def _load_one(
    connection: DuckDBPyConnection, reader: BundleReader, progress: Progress | None
) -> _Load:
    connection.execute("begin")
    try:
        load = _load_new(connection, reader, progress)
        insert_problems(connection, load.problems)
    except AlreadyLoadedError as known:
        connection.execute("rollback")
        duplicate = LoadProblem(
            kind="duplicate_bundle", message=str(known), path=str(reader.path)
        )
        insert_problems(connection, [duplicate])
        return _Load(problems=[duplicate], is_known=True)
    except BaseException:
        connection.execute("rollback")
        raise
    connection.execute("commit")
    return load


def _load_new(
    connection: DuckDBPyConnection, reader: BundleReader, progress: Progress | None
) -> _Load:
    content = reader.sums_sha256 or reader.file_sha256()
    refuse_known(connection, content)
    load = BundleLoad(connection, reader, content)
    collision = load.collision()
    if collision is not None:
        return _Load(problems=[collision])
    load.run(progress)
    return _Load(
        problems=load.problems,
        superseded=load.superseded,
        row_count=load.row_count,
        is_new=True,
        is_known=True,
    )
