"""A worker that a rank forks has its environment, but does not take its place.

Claim: of two processes that say they are one rank, the one that makes collective calls
is the rank, though the other started later; and where the other is its child, that is
no conflict.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.builders import case

if TYPE_CHECKING:
    from pathlib import Path

WORKER = {"pid": 2000, "start_ticks": 9}
CLAIM = {"local_rank": 0, "world_size": 1, "source": "openmpi", "job_id": "job"}
PROCESS = {
    "pid_namespace": None,
    "process_name": "worker",
    "target_reason": "fork",
    "first_ns": 150,
    "exit_ns": None,
    "job_id": "job",
    "cgroup": None,
}


@pytest.mark.parametrize(("parent_pid", "conflict_count"), [(1000, 0), (1, 1)])
def test_the_process_that_makes_collective_calls_is_the_rank(
    tmp_path: Path, parent_pid: int, conflict_count: int
) -> None:
    host = case().host("a")
    host.rank(0).collective(start_ns=100, duration_ns=10)
    host.fact("rank", **WORKER, **CLAIM, rank=0)
    host.fact("process", **WORKER, **PROCESS, parent_pid=parent_pid)

    with host.build(tmp_path) as built:
        ranks = built.frame("select rank, pid from rank").rows()
        conflicts = built.frame(
            "select message from raw.load_problem where kind = 'rank_conflict'"
        ).rows()

    assert ranks == [(0, 1000)]
    assert len(conflicts) == conflict_count
