"""PyTorch workloads that run in blocks of steps, on command.

``python -m tests.gpu.workloads NAME`` reads one command a line and answers each with
one line of JSON, so that the same process can be measured with and without a recorder:

- ``block N`` runs N steps and waits for the GPU: ``{"ns": wall time of all}``
- ``profile N`` does so under PyTorch's profiler: ``{"from_ns", "to_ns", "counts"}``,
  CLOCK_MONOTONIC of the first and last moment, and the calls by name that the
  profiler saw between them
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

# PyTorch is on the machines that this is for, and no dependency of ours.
import torch  # pyright: ignore[reportMissingImports]
from torch.profiler import (  # pyright: ignore[reportMissingImports]
    ProfilerActivity,
    profile,
    record_function,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    Step = Callable[[], object]

WINDOW = "coldtrace window"
SMALL_LAUNCHES = 1_000


def _train() -> Step:
    """Return a training step that keeps the GPU busy and the host waiting."""
    width = 8_192
    layers = [torch.nn.Linear(width, width, bias=False) for _ in range(4)]
    model = torch.nn.Sequential(*layers).to("cuda", torch.bfloat16)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    batch = torch.randn(width, width, device="cuda", dtype=torch.bfloat16)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        model(batch).square().mean().backward()
        optimizer.step()
        torch.cuda.synchronize()

    return step


def _launches() -> Step:
    """Return launches of one element and nothing else: a job bound by launches."""
    one = torch.zeros(1, device="cuda")

    def step() -> None:
        for _ in range(SMALL_LAUNCHES):
            one.add_(1)
        torch.cuda.synchronize()

    return step


def _graph() -> Step:
    """Return replays of one CUDA graph of 50 kernels."""
    one = torch.zeros(1, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(50):
            one.add_(1)

    def step() -> None:
        for _ in range(20):
            graph.replay()
        torch.cuda.synchronize()

    return step


def _hidden_sync() -> Step:
    """Return copies into NumPy, each of which waits for the GPU unseen."""
    matrix = torch.randn(1_024, 1_024, device="cuda")

    def step() -> None:
        for _ in range(10):
            torch.mm(matrix, matrix)
            matrix.sum().cpu().numpy()

    return step


def _allocations() -> Step:
    """Return allocations that the emptied cache must ask the driver for anew."""

    def step() -> None:
        for size in (1 << 22, 1 << 24, 1 << 25):
            torch.empty(size, device="cuda").zero_()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()

    return step


WORKLOADS: dict[str, Callable[[], Step]] = {
    "train": _train,
    "launches": _launches,
    "graph": _graph,
    "hidden_sync": _hidden_sync,
    "allocations": _allocations,
}


def block(step: Step, count: int) -> dict[str, object]:
    """Return the wall time of some steps."""
    start = time.perf_counter_ns()
    for _ in range(count):
        step()
    torch.cuda.synchronize()
    return {"ns": time.perf_counter_ns() - start}


def profiled(step: Step, count: int) -> dict[str, object]:
    """Return what PyTorch's profiler counted in some steps, and when they ran."""
    activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    with profile(activities=activities, acc_events=True) as profiler:
        step()  # the profiler's own first calls stay outside
        torch.cuda.synchronize()
        with record_function(WINDOW):
            from_ns = time.monotonic_ns()
            for _ in range(count):
                step()
            to_ns = time.monotonic_ns()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    counts = _calls_in_window(events)
    return {"from_ns": from_ns, "to_ns": to_ns, "counts": counts}


def _calls_in_window(events: list[dict[str, object]]) -> dict[str, int]:
    """Return runtime and driver calls by name that began inside the window."""
    window = next(
        e
        for e in events
        if e.get("name") == WINDOW and e.get("cat") == "user_annotation"
    )
    start = float(str(window["ts"]))
    end = start + float(str(window["dur"]))
    return dict(
        Counter(
            str(event["name"])
            for event in events
            if event.get("cat") in ("cuda_runtime", "cuda_driver")
            and start <= float(str(event["ts"])) < end
        )
    )


def main() -> None:
    """Obey commands until there are no more."""
    step = WORKLOADS[sys.argv[1]]()
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    print(json.dumps({"ready": torch.__version__}), flush=True)
    for line in sys.stdin:
        command, count = line.split()
        run = {"block": block, "profile": profiled}[command]
        print(json.dumps(run(step, int(count))), flush=True)


if __name__ == "__main__":
    main()
