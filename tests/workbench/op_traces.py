"""Made operation traces: pipeline jobs in the form that StragglerAnalysis publishes.

Each replica runs the same schedule: all forward passes, then all backward passes, with
sends and receives between stages, then the reductions over all replicas.  Every time is
computed from the lengths that a test gives, so the truth is known.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Add = Callable[..., None]

TRANSFER_S = 0.001
WIDE = ("grads-reduce-scatter", "optimizer-clip-main-grad")
TAIL = (
    "layernorm-grads-all-reduce",
    "grads-reduce-scatter",
    "optimizer-clip-main-grad",
    "optimizer",
)


@dataclass(frozen=True, kw_only=True)
class Trace:
    """A job of replicas x stages; `forward_s` by replica, stage, step, micro-batch."""

    replicas: int = 4
    stages: int = 2
    steps: int = 6
    batches: int = 4
    forward_s: Callable[[int, int, int, int], float] = field(
        default=lambda _replica, _stage, _step, _batch: 0.01
    )

    def frame(self) -> pl.DataFrame:
        """Return the operations, with the columns and types of the published files."""
        rows: list[tuple[object, ...]] = []
        begin = 0.0
        for step in range(self.steps):
            begin = self._step(step, begin, rows) + TRANSFER_S
        names = ("dp_rank", "stage", "rank", "step", "optype", "start_ts", "duration")
        frame = pl.DataFrame(rows, schema=[*names, "seq_id"], orient="row")
        return frame.with_columns(
            pl.col("optype").cast(pl.Categorical),
            pl.col("start_ts", "duration").cast(pl.Float32),
            pl.col("dp_rank", "stage").cast(pl.Int8),
            pl.col("rank").cast(pl.Int16),
            pl.col("seq_id").cast(pl.Int32),
        )

    def write(self, path: Path) -> Path:
        """Write the trace as Parquet and return its path."""
        self.frame().write_parquet(path)
        return path

    def _step(self, step: int, begin: float, rows: list[tuple[object, ...]]) -> float:
        """Add one step and return its end."""

        def add(worker: tuple[int, int], name: str, seq: int, *span: float) -> None:
            replica, stage = worker
            start, end = span
            rank = stage * self.replicas + replica
            rows.append((replica, stage, rank, step, name, start, end - start, seq))

        workers = [(r, s) for r in range(self.replicas) for s in range(self.stages)]
        for worker in workers:
            add(worker, "params-all-gather", 0, begin, begin + TRANSFER_S)
        latest = {
            worker: self._passes(step, worker[0], begin + TRANSFER_S, add)
            if worker[1] == 0
            else 0.0
            for worker in workers
        }
        for replica, stage in workers:
            latest[replica, stage] = latest[replica, 0]
        for name in TAIL:
            top = max(latest.values()) + TRANSFER_S
            for worker, start in latest.items():
                end = top if name in WIDE else start + TRANSFER_S
                add(worker, name, 0, start, end)
                latest[worker] = end
        return max(latest.values())

    def _passes(self, step: int, replica: int, begin: float, add: Add) -> float:
        """Add the passes of one replica, all stages in turn, and return their end."""
        free = [begin] * self.stages
        forward = list(range(self.stages))
        for name, stages, factor in (
            ("forward", forward, 1),
            ("backward", forward[::-1], 2),
        ):
            for batch in range(self.batches):
                ready = begin
                for at, stage in enumerate(stages):
                    worker = (replica, stage)
                    posted = free[stage]
                    if at:
                        ready = max(ready, posted) + TRANSFER_S
                        add(worker, f"{name}-recv", batch, posted, ready)
                    start = max(posted, ready)
                    end = start + factor * self.forward_s(replica, stage, step, batch)
                    add(worker, f"{name}-compute", batch, start, end)
                    free[stage] = ready = end
                    if at + 1 < self.stages:
                        arrived = max(end, free[stages[at + 1]]) + TRANSFER_S
                        add(worker, f"{name}-send", batch, end, arrived)
        return max(free)
