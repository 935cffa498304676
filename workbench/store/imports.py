"""Foreign evidence into a case: whole files or nothing, each with its provenance.

All files of one call are imported in one transaction: a file that is refused leaves the
case as it was.  A file whose bytes the case already holds, as the same kind, brings
nothing, so importing twice gives the same tables.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import polars as pl

from workbench.errors import CaseError, EvidenceError
from workbench.store.identity import short_hash
from workbench.store.import_schema import IMPORT_TABLES, IMPORTED_FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from duckdb import DuckDBPyConnection
    from numpy.typing import NDArray

    from workbench.store.case import Case

    Progress = Callable[[str, int, int], None]
    """Called with what is at work, how much of it is done and how much there is."""

_ROWS = "import_rows"


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """A file that its importer has looked at and will give."""

    row_count: int
    parts: Iterable[tuple[str, pl.DataFrame]]
    """Table of ``IMPORT_TABLES``, and rows with its columns; a part at a time."""


class Importer(Protocol):
    """What a module of ``workbench.importers`` offers."""

    KIND: str
    HELP: str

    def read(self, path: Path) -> Reading:
        """Return what a file holds.

        Raises
        ------
        EvidenceError
            If it is not a file of this kind.
        """
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportReport:
    """What one import did."""

    row_count: int
    known: tuple[Path, ...]
    """Files that the case held already."""


def import_files(
    case: Case,
    importer: Importer,
    paths: Sequence[Path],
    progress: Progress | None = None,
) -> ImportReport:
    """Put files of one kind into the raw tables of a case open for writing.

    The views are not built; a caller who has imported all it wants builds them once.

    Raises
    ------
    EvidenceError
        If a file is not of that kind; then none of them is imported.
    """
    if case.is_read_only:
        raise CaseError(f"{case.path} is open for reading only")
    connection = case.connection
    row_count, known = 0, []
    connection.execute("begin")
    try:
        for path in paths:
            rows = _import_one(connection, importer, path, progress)
            row_count += rows or 0
            if rows is None:
                known.append(path)
    except BaseException:
        connection.execute("rollback")
        raise
    connection.execute("commit")
    return ImportReport(row_count=row_count, known=tuple(known))


def _import_one(
    connection: DuckDBPyConnection,
    importer: Importer,
    path: Path,
    progress: Progress | None,
) -> int | None:
    """Import a file and return its rows; None if the case holds it already."""
    with path.open("rb") as file:
        content = hashlib.file_digest(file, "sha256").hexdigest()
    import_id = short_hash(f"{importer.KIND} {content}")
    held = _held(connection, import_id)
    if held == (importer.KIND, content):
        return None
    if held is not None:
        raise EvidenceError("another file of this case has the same key", path=path)
    reading = importer.read(path)
    done = 0
    for table, frame in _checked(path, reading.parts):
        insert_frame(connection, table, frame, import_id)
        done += frame.height
        if progress is not None:
            progress(path.name, done, reading.row_count)
    connection.execute(
        f"insert into raw.{IMPORTED_FILE} values (?, ?, ?, ?, ?, ?, ?)",
        [
            import_id,
            importer.KIND,
            _free_name(connection, path.stem, content),
            str(path),
            content,
            done,
            datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        ],
    )
    return done


def _held(connection: DuckDBPyConnection, import_id: int) -> tuple[str, str] | None:
    """Return kind and content of what has this key; a host of a bundle is neither."""
    rows = connection.execute(
        f"select kind, content_sha256 from raw.{IMPORTED_FILE} where import_id = $1"
        " union all select 'host', boot_id from raw.bundle where host_id = $1",
        [import_id],
    ).fetchall()
    return rows[0] if rows else None


def _free_name(connection: DuckDBPyConnection, name: str, content: str) -> str:
    """Return the name of a file within the case: its stem, told apart if taken."""
    taken = connection.execute(
        f"select 1 from raw.{IMPORTED_FILE} where name = ?", [name]
    ).fetchall()
    return f"{name}-{content[:6]}" if taken else name


def _checked(
    path: Path, parts: Iterable[tuple[str, pl.DataFrame]]
) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield the parts; what polars cannot read of a file speaks of that file."""
    try:
        yield from parts
    except pl.exceptions.PolarsError as error:
        first = str(error).splitlines()[0]
        raise EvidenceError(f"cannot be read: {first}", path=path) from error


def insert_frame(
    connection: DuckDBPyConnection, table: str, frame: pl.DataFrame, import_id: int
) -> None:
    """Append the rows of a frame to a table of ``IMPORT_TABLES``."""
    columns = IMPORT_TABLES[table]
    connection.register(_ROWS, {name: _array(frame[name]) for name in columns})
    try:
        listed = ", ".join(f"{name}::{kind}" for name, kind in columns.items())
        connection.execute(
            f"insert into raw.{table} select $import_id, {listed} from {_ROWS}",
            {"import_id": import_id},
        )
    finally:
        connection.unregister(_ROWS)


def _array(series: pl.Series) -> NDArray[Any]:
    """Return a column as DuckDB takes it without pyarrow; null is masked or None."""
    if not series.dtype.is_numeric():
        array = np.empty(len(series), object)
        array[:] = series.cast(pl.String).to_list()
        return array
    filled = series.fill_null(0).to_numpy()
    return np.ma.masked_array(filled, series.is_null().to_numpy())
