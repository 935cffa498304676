"""What this recorder runs from: a folder, or one archive whose hash names the build."""

from __future__ import annotations

import hashlib
import pkgutil
from pathlib import Path

import capture


def archive() -> Path | None:
    """Return the archive that this program runs from, or None if it is a folder."""
    loader = getattr(capture.__spec__, "loader", None)
    path = getattr(loader, "archive", None)
    return None if path is None else Path(path).resolve()


def created_by() -> dict[str, str]:
    """Return what a bundle says of its recorder: name, version, hash of an archive."""
    told = {"name": "coldtrace-capture", "version": capture.__version__}
    path = archive()
    if path is not None:
        told["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    return told


def read(name: str) -> bytes | None:
    """Return a file of the package ``capture``, or None if it has no such file.

    From an archive nothing is unpacked to disk.
    """
    try:
        return pkgutil.get_data("capture", name)
    except OSError:
        return None
