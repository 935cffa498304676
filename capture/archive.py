"""The ZIP of a bundle, written by the rules of BUNDLE.md (section Container).

``zipfile`` does the format; this module takes away its freedom: order, date, mode and
level are fixed, every member has its true sizes in its local header, and each goes into
``SHA256SUMS``, which the archive writes last.

Level 4, measured on 2 M records of a GPU-call mix: 6.5 bytes an event, against 9.0 at
level 1 for 5 % less CPU time in all, and 5.9 at level 6 for a third more.
"""

from __future__ import annotations

import hashlib
import os
import stat
import zipfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

SUMS_NAME = "SHA256SUMS"
DEFLATE_LEVEL = 4
_DATE = (1980, 1, 1, 0, 0, 0)
_UNIX = 3


class ArchiveWriter:
    """Write members in order to a file that must not exist yet."""

    def __init__(self, path: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._file = os.fdopen(os.open(path, flags, 0o600), "w+b")
        self._zip = zipfile.ZipFile(self._file, "w", zipfile.ZIP_DEFLATED)
        self._sums: list[str] = []

    def add(self, name: str, data: bytes) -> None:
        """Append one member."""
        self._sums.append(f"{hashlib.sha256(data).hexdigest()}  {name}\n")
        self._write(name, data)

    def finish(self) -> None:
        """Write the check sums and the directory, and bring all of it to the disk."""
        self._write(SUMS_NAME, "".join(self._sums).encode("ascii"))
        self._zip.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def abandon(self) -> None:
        """Close what is there; the file is no bundle."""
        # Without this the destructor would write a directory that makes it look whole.
        self._zip.fp = None
        self._file.close()

    def _write(self, name: str, data: bytes) -> None:
        info = zipfile.ZipInfo(name, _DATE)
        info.create_system = _UNIX
        info.external_attr = (stat.S_IFREG | 0o600) << 16
        self._zip.writestr(info, data, zipfile.ZIP_DEFLATED, DEFLATE_LEVEL)
