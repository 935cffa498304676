"""Measure the recorder on this machine's GPU, and print the tables of the manual."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from tests.gpu.counts import compare_all
from tests.gpu.overhead import measure
from tests.gpu.probe_cost import probe_costs
from tests.gpu.workloads import SMALL_LAUNCHES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.gpu.overhead import Overhead

RUNS = (
    # workload, options of the recorder, steps a block, items a step
    ("train", ("--set", "standard"), 60, 1),
    ("train", ("--set", "full"), 60, 1),
    ("launches", ("--set", "standard"), 100, SMALL_LAUNCHES),
    ("launches", ("--set", "standard", "--streams", "gpu_call"), 100, SMALL_LAUNCHES),
    ("launches", ("--set", "full"), 100, SMALL_LAUNCHES),
    ("graph", ("--set", "standard"), 200, 20),
    ("hidden_sync", ("--set", "standard"), 200, 10),
)


def main() -> None:
    """Run everything that is asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu", description=__doc__)
    parser.add_argument(
        "--recorder",
        default=f"{sys.executable} -m capture",
        help="command that starts the recorder (%(default)s)",
    )
    parser.add_argument("--pairs", type=int, default=10, help="pairs (%(default)s)")
    parser.add_argument(
        "--parts",
        default="probes,counts,overhead",
        help="comma-separated (%(default)s)",
    )
    parser.add_argument(
        "--workloads", help="comma-separated, for the overhead (all of its table)"
    )
    parser.add_argument("-o", "--output", type=Path, help="the figures as JSON too")
    args = parser.parse_args()
    recorder, parts = shlex.split(args.recorder), args.parts.split(",")
    figures: dict[str, object] = {}
    if "probes" in parts:
        figures["probes"] = _probes(recorder)
    if "counts" in parts:
        figures["counts"] = _counts(recorder)
    if "overhead" in parts:
        figures["overhead"] = _overhead(recorder, args.pairs, args.workloads)
    if args.output:
        args.output.write_text(json.dumps(figures, indent=1))


def _row(*cells: object) -> None:
    print("|", " | ".join(str(cell) for cell in cells), "|", flush=True)


def _probes(recorder: Sequence[str]) -> list[dict[str, object]]:
    costs = probe_costs(recorder)
    _row("probe", "call alone", "with an empty program", "recorded")
    for cost in costs:
        times = (cost.bare_ns, cost.trap_ns, cost.recorded_ns)
        _row(cost.what, *(f"{ns:,.0f} ns" for ns in times))
    return [asdict(cost) for cost in costs]


def _counts(recorder: Sequence[str]) -> list[dict[str, object]]:
    _row("workload", "call", "recorded", "profiled")
    rows = compare_all(recorder)
    for row in rows:
        _row(row.workload, row.family, row.recorded, row.profiled)
    return [asdict(row) for row in rows]


def _overhead(
    recorder: Sequence[str], pairs: int, workloads: str | None
) -> list[dict[str, object]]:
    _row("workload", "options", "untraced", "traced", "added", "95 %", "share")
    return [
        _said(measure(recorder, name, options, pairs=pairs, steps=s, items_per_step=n))
        for name, options, s, n in RUNS
        if workloads is None or name in workloads.split(",")
    ]


def _said(row: Overhead) -> dict[str, object]:
    times = (row.untraced_ns, row.traced_ns, row.added_ns)
    band = f"{row.added_low_ns:,.0f} to {row.added_high_ns:,.0f} ns"
    said = [f"{ns:,.0f} ns" for ns in times]
    _row(row.workload, row.options, *said, band, f"{row.added_ratio:.2%}")
    return asdict(row)


if __name__ == "__main__":
    main()
