"""The case: one DuckDB file, and the one owner of its connection.

Settings are made at the opening and nowhere else.  Python variables do not answer for
missing tables (one called ``rank`` would silently answer ``select * from rank``), no
extension is fetched, and no query reads or writes another file, even one that came with
a hostile bundle.  DuckDB still spills to ``<case>.tmp`` beside the case: it allows
itself that one folder.

A case is a cache; bundles are the evidence.  It is made under a temporary name and
renamed when the first load has ended, so a case that exists is whole.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import duckdb
import polars as pl

from workbench.errors import CaseError
from workbench.store.raw_schema import EVENT_TABLES, create_raw_tables

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from duckdb import DuckDBPyConnection

    from workbench.store.views import Library

_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "python_enable_replacements": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "enable_external_access": "false",
    # Merging row groups at each checkpoint would rewrite a third of a fresh load.
    "max_vacuum_tasks": "0",
}


class Case:
    """An open case.

    Use :func:`open_case` for one that exists and :meth:`Case.create` for a new one;
    both are context managers.
    """

    def __init__(
        self,
        connection: DuckDBPyConnection,
        path: Path | None,
        *,
        is_read_only: bool,
        unpublished: Path | None = None,
    ) -> None:
        self.connection = connection
        self.path = path
        self.is_read_only = is_read_only
        self._unpublished = unpublished
        self._origin_ns: int | None = None
        self.library: Library | None = None
        """Views of this case, once `open_library` has looked at them."""

    @classmethod
    def create(cls, path: Path | str | None) -> Self:
        """Return a new, empty case, open for writing; None makes it in memory.

        The file appears under its name when the case is closed without an error.

        Raises
        ------
        CaseError
            If the path exists, or its folder does not.
        """
        if path is None:
            case = cls(_connect(":memory:", read_only=False), None, is_read_only=False)
        else:
            case = cls._create_file(Path(path))
        create_raw_tables(case.connection)
        return case

    @classmethod
    def _create_file(cls, path: Path) -> Self:
        if path.exists():
            raise CaseError(
                f"{path} exists already", hint="open it, or give another name"
            )
        if not path.parent.is_dir():
            raise CaseError(f"{path.parent} is not a folder")
        unpublished = path.with_name(f".{path.name}.{os.getpid()}.partial")
        _remove_files(unpublished)
        connection = _connect(str(unpublished), read_only=False)
        return cls(connection, path, is_read_only=False, unpublished=unpublished)

    def frame(self, sql: str, params: Any = None) -> pl.DataFrame:  # noqa: ANN401 - as DuckDB takes them
        """Return the rows of a query as a frame."""
        return pl.DataFrame(self.connection.sql(sql, params=params))

    def save_view(
        self,
        name: str,
        sql: str,
        doc: str,
        *,
        grain: Sequence[str] = (),
        replace: bool = False,
    ) -> Path:
        """Write a query as a view of the user's own and return its file.

        It is a view of this session at once, and of every case that is opened later;
        the case itself is not touched.  See `workbench.store.saved_view.save_view`.

        Raises
        ------
        ViewError
            If the name is taken, the query breaks a rule, or the file is there.
        """
        # Late: what reads view files is no part of opening a case.
        from workbench.store.saved_view import save_view  # noqa: PLC0415

        return save_view(self, name, sql, doc, grain=grain, replace=replace)

    @property
    def origin_ns(self) -> int:
        """Return the case's zero: its first event in cluster time.

        Cluster time of a host is its own MONOTONIC until the clock model has run.  An
        empty case begins at 0.
        """
        if self._origin_ns is None:
            self._origin_ns = self._find_origin()
        return self._origin_ns

    def _find_origin(self) -> int:
        firsts = " union all ".join(
            f"select host_id, min(start_ns) as start_ns from raw.{stream} group by all"
            for stream in EVENT_TABLES
        )
        first = (
            f"select host_id, min(start_ns) as start_ns from ({firsts}) group by all"
        )
        if self.has_table("model", "clock"):
            first = f"""
                select
                    coalesce(
                        first.start_ns + clock.offset_ns
                        + ((first.start_ns - clock.from_ns) * clock.rate)::bigint,
                        first.start_ns
                    ) as start_ns
                from ({first}) as first
                left join model.clock as clock
                    on first.host_id = clock.host_id
                    and first.start_ns >= clock.from_ns
                    and first.start_ns < clock.to_ns
            """
        # fetchall, always: a half-read result would block the connection.
        rows = self.connection.execute(
            f"select min(start_ns) from ({first})"
        ).fetchall()
        return 0 if rows[0][0] is None else int(rows[0][0])

    def has_table(self, schema: str, name: str) -> bool:
        """Return whether the case has a table or view of that name."""
        found = self.connection.execute(
            "select count(*) from information_schema.tables"
            " where table_schema = ? and table_name = ?",
            [schema, name],
        ).fetchall()
        return bool(found[0][0])

    def close(self) -> None:
        """Close the case, and give a new one its name."""
        self.connection.close()
        if self._unpublished is not None and self.path is not None:
            self._unpublished.replace(self.path)
            self._unpublished = None

    def discard(self) -> None:
        """Close the case without publishing it, if it is new."""
        self.connection.close()
        if self._unpublished is not None:
            _remove_files(self._unpublished)
            self._unpublished = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()


def open_case(path: Path | str, *, read_only: bool = True) -> Case:
    """Return the case at `path`, open for reading unless told otherwise.

    Raises
    ------
    CaseError
        If there is none, it is no case, or another process has it open for writing.
    """
    path = Path(path)
    if not path.is_file():
        raise CaseError(
            f"{path} is not a case", hint="make one with: coldtrace load CASE BUNDLE..."
        )
    connection = _connect(str(path), read_only=read_only)
    case = Case(connection, path, is_read_only=read_only)
    if not case.has_table("raw", "bundle"):
        connection.close()
        raise CaseError(f"{path} is a DuckDB file, but not a case")
    if not read_only:
        create_raw_tables(connection)
    return case


def _connect(target: str, *, read_only: bool) -> DuckDBPyConnection:
    try:
        return duckdb.connect(target, read_only=read_only, config=_SETTINGS)
    except duckdb.IOException as error:
        first = str(error).splitlines()[0]
        if "lock" in first:
            raise CaseError(
                f"{target} is open in another process",
                hint="close that process, or wait until its load has ended",
            ) from error
        raise CaseError(f"cannot open {target}: {first}") from error
    except duckdb.Error as error:
        raise CaseError(
            f"cannot open {target}: {str(error).splitlines()[0]}"
        ) from error


def _remove_files(path: Path) -> None:
    """Remove a database file that nobody wants, and its log."""
    path.unlink(missing_ok=True)
    path.with_name(f"{path.name}.wal").unlink(missing_ok=True)
