"""The lab's C parts, compiled when a test first needs them."""

from __future__ import annotations

import fcntl
import functools
import shutil
import subprocess
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
BUILD = FOLDER / "build"


def why_not_built() -> str | None:
    """Return why the C parts cannot be compiled here, or nothing."""
    missing = [tool for tool in ("make", "cc", "mpicc") if shutil.which(tool) is None]
    return f"needs {', '.join(missing)}" if missing else None


@functools.cache
def build() -> Path:
    """Return the folder with the stand-in libraries and the workloads, up to date.

    Two test runs may ask at once, and a library that is being probed must not be
    written: make runs under a lock and rewrites only what changed.
    """
    BUILD.mkdir(exist_ok=True)
    with (BUILD / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run(["make", "--silent", "-C", str(FOLDER)], check=True)
    return BUILD
