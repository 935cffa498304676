"""No verdict turns on what the clocks of the hosts show, or it becomes undecided.

One job, its clocks shifted by hours, drifting, stepped or slept, and once without a
call that two hosts have in common: findings stay as they are, or are not decidable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.builders import SECOND
from tests.made_bundle import REALTIME_BASE_NS
from tests.workbench.made_jobs import MILLISECOND, job_of, work_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

HOUR_NS = 3_600 * SECOND
HOSTS = {"a": [0, 1], "b": [2, 3], "c": [4, 5]}
STEPS = 60

Verdicts = set[tuple[Any, ...]]


def verdicts(
    folder: Path, clocks: Mapping[str, dict[str, Any]], *, is_shared: bool = True
) -> Verdicts:
    """Return what is found of each rank, rank 2 late by 40 ms at each 7th step."""
    work = work_of(6, STEPS)
    work[6::7, 2] += 40 * MILLISECOND
    folder.mkdir()
    job = job_of(work, hosts=HOSTS, clocks=clocks)
    if not is_shared:
        job.communicator("world", origin=None)
    with job.build(folder) as made:
        rows = made.frame(
            "select finding, rank, verdict, cause, affected_step_count, period_steps,"
            " round(magnitude_ns / 1e6) from finding"
        )
        return set(rows.rows())


@pytest.fixture(scope="module")
def true_clocks(tmp_path_factory: pytest.TempPathFactory) -> Verdicts:
    """Return the verdicts where every clock is true."""
    return verdicts(tmp_path_factory.mktemp("true") / "case", {})


def set_back(row: dict[str, Any]) -> dict[str, Any]:
    """Set the wall clock back by 7 s in the middle of the job."""
    is_after = row["realtime_ns"] - REALTIME_BASE_NS > 1_300 * MILLISECOND
    return row | {"realtime_ns": row["realtime_ns"] - is_after * 7 * SECOND}


def is_same_or_undecided(found: Verdicts, true: Verdicts) -> bool:
    """Return whether verdicts differ only where they are no longer decided."""
    return {row[2] for row in found - true} <= {"not_decidable"}


@pytest.mark.slow
def test_clocks_that_are_off_drift_or_were_set_change_no_verdict(
    tmp_path: Path, true_clocks: Verdicts
) -> None:
    random = np.random.default_rng(5)
    clocks = {
        name: {
            "offset_ns": int(random.integers(0, 1_000)) * HOUR_NS,
            "rate": float(random.uniform(-80e-6, 80e-6)),
            "reading": set_back if name == "b" else None,
        }
        for name in HOSTS
    }

    found = verdicts(tmp_path / "case", clocks)

    assert any(row[2] == "found" and row[1] == 2 for row in true_clocks)
    assert is_same_or_undecided(found, true_clocks)


@pytest.mark.slow
def test_hosts_without_a_common_communicator_leave_verdicts_undecided(
    tmp_path: Path, true_clocks: Verdicts
) -> None:
    found = verdicts(tmp_path / "case", {"b": {"offset_ns": HOUR_NS}}, is_shared=False)

    assert is_same_or_undecided(found, true_clocks)
    assert not any(row[2] == "found" for row in found)
