"""Builds the driver of the loader tests, and runs a loader around it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PYTHON = {
    "core": sys.executable,
    "core_perf": sys.executable,
    "core_of_task": sys.executable,
    "bcc": "/usr/bin/python3",
}
"""bcc is importable by the system's Python only."""

_LIBRARIES = (
    ("libcuda.so.1", "gpu.c", ("-DDRIVER",), ()),
    ("libcudart.so.12", "gpu.c", ("-DRUNTIME",), ("libcuda.so.1",)),
    ("libnccl.so.2", "nccl.c", (), ("libcuda.so.1",)),
)


def build(folder: Path) -> Path:
    """Compile libraries and driver into a folder, and return it."""
    shared = ["gcc", "-O2", "-fPIC", "-shared"]
    for name, source, options, needed in _LIBRARIES:
        command = [*shared, *options, f"-Wl,-soname,{name}", "-o", str(folder / name)]
        command.append(str(HERE / "fake" / source))
        command += [str(folder / library) for library in needed]
        subprocess.run(command, check=True)
    libraries = [str(folder / name) for name, *_ in _LIBRARIES]
    target = ["-o", str(folder / "driver"), str(HERE / "fake/driver.c"), *libraries]
    command = ["gcc", "-O2", "-pthread", *target, "-Wl,-rpath,$ORIGIN"]
    subprocess.run(command, check=True)
    return folder


@dataclass(frozen=True)
class Session:
    """What one run of a loader around the driver told."""

    pid: int
    detail: str
    missing_columns: dict[str, dict[str, str]]
    symbols: dict[str, str]
    attached: list[dict[str, Any]]
    records: dict[str, list[dict[str, Any]]]
    in_flight: dict[str, list[dict[str, Any]]]
    facts: list[dict[str, Any]]
    counters: list[dict[str, Any]]

    def rows(self, stream: str) -> list[dict[str, Any]]:
        """Return the records of the driver and its children, with their symbols."""
        found = [
            {**row, "symbol": self.symbols.get(str(row.get("probe_id")), "")}
            for row in self.records[stream]
        ]
        pids = self.pids()
        return [row for row in found if row["pid"] in pids]

    def pids(self) -> set[int]:
        """Return the driver's process and its children."""
        children = {
            fact["pid"]
            for fact in self.facts
            if fact["fact"] == "fork" and fact["parent_pid"] == self.pid
        }
        return {self.pid, *children}

    def count(self, stream: str, *columns: str) -> Counter[tuple[Any, ...]]:
        """Return how often each combination of columns was recorded."""
        return Counter(
            tuple(row[column] for column in columns) for row in self.rows(stream)
        )

    def facts_of(self, kind: str) -> list[dict[str, Any]]:
        """Return the facts of one kind about the driver."""
        pids = self.pids()
        return [f for f in self.facts if f["fact"] == kind and f["pid"] in pids]

    def hits(self, symbol: str) -> int:
        """Return what the kernel counted for a probe."""
        return sum(
            counter["hit_count"]
            for counter in self.counters
            if self.symbols.get(str(counter["probe_id"])) == symbol
        )


def run(
    loader: str,
    folder: Path,
    what: str,
    *,
    probe_set: str = "standard",
    streams: str = "collective,gpu_call",
) -> Session:
    """Run the driver under a loader, in a process of its own."""
    script = str(HERE / "loader_session.py")
    result = subprocess.run(
        [PYTHON[loader], script, loader, str(folder), what, probe_set, streams],
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        check=True,
        timeout=120,
    )
    return Session(**json.loads(result.stdout))
