"""From bundles to what is wrong with the answer, compared with a label."""

from __future__ import annotations

from typing import TYPE_CHECKING

import workbench.analysis  # noqa: F401 - registers the models
from workbench.store.case import Case
from workbench.store.load import load_bundles

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import polars as pl

    from tests.lab.scenarios import Truth

_VERDICTS = """
    select
        finding.*,
        host.host_name
    from finding
    left join host on host.host_id = finding.host_id
    order by finding.finding, finding.rank
"""


def diagnose(bundles: Sequence[Path]) -> Case:
    """Return a case in memory with these bundles loaded and all views built."""
    case = Case.create(None)
    load_bundles(case, list(bundles))
    return case


def verdicts(case: Case) -> pl.DataFrame:
    """Return the view ``finding`` with the name of each subject's host."""
    return case.frame(_VERDICTS)


def mismatches(case: Case, truth: Truth) -> list[str]:
    """Return what is wrong with a case's verdicts, in words; nothing if all is right.

    Nobody but the labelled rank may be accused of anything, by any finding.
    """
    rows = verdicts(case).to_dicts()
    stragglers = [row for row in rows if row["finding"] == "finding_straggler"]
    wrong = [
        f"accuses {row['rank']} of {row['finding']} ({row['cause']})"
        for row in rows
        if row["verdict"] == "found" and row["rank"] != truth.rank
    ]
    if truth.rank is None:
        return wrong + _all_are(stragglers, truth.verdict)
    found = [
        row
        for row in stragglers
        if row["verdict"] == "found" and row["rank"] == truth.rank
    ]
    if not found:
        said = {row["verdict"] for row in stragglers if row["rank"] == truth.rank}
        return [*wrong, f"does not find rank {truth.rank}: {said or 'no row'}"]
    return wrong + [line for row in found for line in _differences(row, truth)]


def _all_are(rows: list[dict[str, object]], verdict: str) -> list[str]:
    if not rows:
        return ["says nothing about stragglers"]
    return [
        f"says {row['verdict']} of rank {row['rank']}, not {verdict}"
        for row in rows
        if row["verdict"] != verdict
    ]


def _differences(row: dict[str, object], truth: Truth) -> list[str]:
    exact = ("host_name", "cause", "period_steps", "affected_step_count")
    wrong = [
        f"says {name} {row[name]}, not {getattr(truth, name)}"
        for name in exact
        if getattr(truth, name) is not None and row[name] != getattr(truth, name)
    ]
    if truth.magnitude_ns is not None and truth.tolerance_ns is not None:
        said = row["magnitude_ns"]
        off = None if said is None else abs(int(str(said)) - truth.magnitude_ns)
        if off is None or off > truth.tolerance_ns:
            wrong.append(f"says {said} ns, not {truth.magnitude_ns}")
    return wrong
