"""Builds of the one file from copies of the sources, as `make capture` makes it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def why_not_built() -> str | None:
    """Return why it cannot be built here, or nothing."""
    tools = ("make", "clang-14", "llvm-strip-14")
    missing = [tool for tool in tools if shutil.which(tool) is None]
    return f"needs {', '.join(missing)}" if missing else None


def build(folder: Path, umask: int = 0o022, zone: str = "UTC") -> Path:
    """Copy the sources, build in the copy, and return the folder with the results."""
    for part in ("capture", ".ci/capture"):
        shutil.copytree(ROOT / part, folder / part, dirs_exist_ok=True)
    shutil.copyfile(ROOT / "LICENSE", folder / "LICENSE")
    for path in (folder / "capture").rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o666 & ~umask)
    subprocess.run(
        [sys.executable, folder / ".ci/capture/build.py"],
        check=True,
        capture_output=True,
        umask=umask,
        env={"PATH": os.environ["PATH"], "TZ": zone},
    )
    return folder / "dist"
