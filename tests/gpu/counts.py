"""Calls in a bundle against the calls that PyTorch's profiler counted at once."""

from __future__ import annotations

import json
import tempfile
import zipfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tests.gpu.processes import recording, workload
from tests.gpu.workloads import WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Sequence

STEPS = 5

# What the profiler calls a call, by the operation that a bundle gives it.  Launches are
# recorded at the driver layer, which the runtime's pass through; of the others the
# profiler names the layer that the program called.
FAMILIES = {
    "launch": ("LaunchKernel", "LaunchCooperativeKernel"),
    "memcpy": ("Memcpy",),
    "memset": ("Memset",),
    "malloc": ("Malloc", "MemAlloc"),
    "free": ("Free", "MemFree"),
    "stream_sync": ("StreamSynchronize",),
    "device_sync": ("DeviceSynchronize", "CtxSynchronize"),
    "event_sync": ("EventSynchronize",),
    "graph_launch": ("GraphLaunch",),
}
MERGED = {"memcpy_async": "memcpy", "memset_async": "memset"}


@dataclass(frozen=True)
class Comparison:
    """Counts of one family of calls in the same window of one workload."""

    workload: str
    family: str
    recorded: int
    profiled: int


def compare(recorder: Sequence[str], name: str) -> list[Comparison]:
    """Return recorded and profiled counts of each family that either saw."""
    with tempfile.TemporaryDirectory() as folder:
        with workload(name) as running, recording(recorder, running.pid, Path(folder)):
            seen = running.ask("profile", STEPS)
        (bundle,) = Path(folder).glob("*.bundle")
        recorded = _recorded(bundle, seen["from_ns"], seen["to_ns"])
    profiled = _families(seen["counts"])
    return [
        Comparison(name, family, recorded[family], profiled[family])
        for family in FAMILIES
        if recorded[family] or profiled[family]
    ]


def compare_all(recorder: Sequence[str]) -> list[Comparison]:
    """Return the comparisons of every workload."""
    return [row for name in WORKLOADS for row in compare(recorder, name)]


def _families(counts: dict[str, int]) -> Counter[str]:
    found: Counter[str] = Counter()
    for name, count in counts.items():
        bare = name.removeprefix("cuda").removeprefix("cu")
        for family, prefixes in FAMILIES.items():
            if bare.startswith(prefixes):
                found[family] += count
    return found


def _recorded(bundle: Path, from_ns: int, to_ns: int) -> Counter[str]:
    """Return the outermost calls by family that began in a window of time."""
    found: Counter[str] = Counter()
    with zipfile.ZipFile(bundle) as archive:
        manifest = json.loads(archive.read("manifest.json"))
        names = {int(code): str(name) for code, name in manifest["operations"].items()}
        for chunk in range(len(manifest["streams"]["gpu_call"]["chunk_rows"])):
            columns = {
                column: _column(archive, chunk, column)
                for column in ("start_ns", "operation", "depth")
            }
            start = columns["start_ns"]
            keep = (start >= from_ns) & (start < to_ns) & (columns["depth"] == 0)
            codes, counts = np.unique(columns["operation"][keep], return_counts=True)
            for code, count in zip(codes, counts, strict=True):
                operation = names[int(code)]
                found[MERGED.get(operation, operation)] += int(count)
    return found


def _column(archive: zipfile.ZipFile, chunk: int, name: str) -> np.ndarray:
    with archive.open(f"events/gpu_call/{chunk:06d}/{name}.npy") as member:
        return np.lib.format.read_array(member)
