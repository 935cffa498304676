"""The whole exception tree.

::

    WorkbenchError                    message, hint
    ├─ BundleError                    + path, kind (the word of raw.load_problem)
    │  ├─ ManifestError               + where ("streams.off_cpu.row_count")
    │  ├─ UnsupportedVersionError     + found, supported
    │  └─ IntegrityError              + file, expected, actual
    ├─ EvidenceError                + path of a foreign file that cannot be imported
    ├─ CaseError
    │  ├─ ClockAlignmentError         + hosts
    │  └─ MissingDataError            + view, raw_table, the probe that would record it
    ├─ QueryError
    └─ ViewError                      + view, line
       └─ ViewHeaderError

A message says what is wrong with the value in it, lower-case and without a full stop; a
hint says the one thing to do next.  A manifest with several faults raises an
``ExceptionGroup`` of :class:`ManifestError`, so that one run shows all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class WorkbenchError(Exception):
    """Anything that the workbench refuses to do, with a hint where there is one."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class BundleError(WorkbenchError):
    """A bundle that cannot be read, or a part of one."""

    def __init__(
        self,
        message: str,
        *,
        path: Path | None = None,
        kind: str = "unreadable",
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.path = path
        self.kind = kind


class ManifestError(BundleError):
    """A manifest that breaks the format, with the place where it does."""

    def __init__(self, message: str, *, where: str, path: Path | None = None) -> None:
        super().__init__(message, path=path, kind="bad_manifest")
        self.where = where


class UnsupportedVersionError(BundleError):
    """A bundle of a newer format than this workbench reads."""

    def __init__(self, *, found: int, supported: int, path: Path | None = None) -> None:
        super().__init__(
            f"format version {found} is newer than version {supported}, "
            "the newest this reader opens",
            path=path,
            kind="unsupported_version",
            hint="load it with a newer coldtrace",
        )
        self.found = found
        self.supported = supported


class IntegrityError(BundleError):
    """Bytes that are not what the bundle itself says they are."""

    def __init__(
        self,
        message: str,
        *,
        kind: str,
        file: str | None = None,
        expected: str | None = None,
        actual: str | None = None,
        path: Path | None = None,
    ) -> None:
        super().__init__(message, path=path, kind=kind)
        self.file = file
        self.expected = expected
        self.actual = actual


class EvidenceError(WorkbenchError):
    """A file of another tool that is not what its kind says it is."""

    def __init__(self, message: str, *, path: Path, hint: str | None = None) -> None:
        super().__init__(f"{path}: {message}", hint=hint)
        self.path = path


class CaseError(WorkbenchError):
    """A case that cannot be opened, made or asked."""


class ClockAlignmentError(CaseError):
    """A comparison of hosts whose clocks have no relation."""

    def __init__(
        self, message: str, *, hosts: Sequence[str] = (), hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.hosts = tuple(hosts)


class MissingDataError(CaseError):
    """A question whose evidence was not recorded."""

    def __init__(
        self,
        message: str,
        *,
        view: str,
        raw_table: str,
        probe: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.view = view
        self.raw_table = raw_table
        self.probe = probe


class QueryError(WorkbenchError):
    """A query that DuckDB refuses, or that asks for what the open case has not."""


class ViewError(WorkbenchError):
    """A view file that does not do what the library demands."""

    def __init__(
        self,
        message: str,
        *,
        view: str,
        line: int | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.view = view
        self.line = line

    def __str__(self) -> str:
        place = f"{self.view}, line {self.line}" if self.line else self.view
        return f"{place}: {self.message}"


class ViewHeaderError(ViewError):
    """A view file whose header cannot be read or does not match the view."""
