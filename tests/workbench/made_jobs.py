"""Jobs of ranks on hosts, as loaded cases: steps of work, then one meeting of all.

Everything is planted: the work of each rank and step, the clocks, who is late.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tests.builders import case

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from tests.builders import CaseBuilder
    from workbench.store.case import Case

MILLISECOND = 1_000_000
LATENCY_NS = 20_000


def work_of(
    ranks: int, steps: int, *, step_ns: int = 10 * MILLISECOND, seed: int = 0
) -> NDArray[np.int64]:
    """Return own work [step, rank] with noise of a hundred microseconds or so."""
    random = np.random.default_rng(seed)
    noise = random.exponential(100_000, (steps, ranks))
    return (step_ns + noise).astype(np.int64)


def job_of(
    work: NDArray[np.int64],
    *,
    hosts: Mapping[str, list[int]],
    clocks: Mapping[str, dict[str, Any]] | None = None,
    seen_from: Mapping[str, int] | None = None,
    seed: int = 1,
) -> CaseBuilder:
    """Return a case of ranks that work and then meet in one all-reduce, each step.

    Parameters
    ----------
    work
        Own work [step, rank], ns.
    hosts, clocks
        Ranks of each host, and the options of its builder.
    seen_from
        Step from which on each host was recorded; its calls are then numbered from
        the first one seen.
    """
    random = np.random.default_rng(seed)
    made = case()
    threads = {
        rank: made.host(name, **((clocks or {}).get(name, {}))).rank(rank)
        for name, ranks in hosts.items()
        for rank in ranks
    }
    ready = np.full(work.shape[1], 10**9)
    if seen_from:
        made.communicator("world", is_base_known=False)
    first_step = {
        rank: (seen_from or {}).get(name, 0)
        for name, ranks in hosts.items()
        for rank in ranks
    }
    for step, own in enumerate(work):
        arrival = ready + own
        exits = arrival.max() + LATENCY_NS + random.exponential(15_000, len(own))
        ready = exits.astype(np.int64)
        for rank, thread in threads.items():
            if step >= first_step[rank]:
                thread.collective(
                    start_ns=int(arrival[rank]),
                    duration_ns=int(ready[rank] - arrival[rank]),
                    is_base_known=seen_from is None,
                )
    return made


def loaded_job(
    folder: Path,
    work: NDArray[np.int64],
    *,
    hosts: Mapping[str, list[int]],
    clocks: Mapping[str, dict[str, Any]] | None = None,
    seen_from: Mapping[str, int] | None = None,
) -> Case:
    """Return that job recorded, loaded and computed."""
    made = job_of(work, hosts=hosts, clocks=clocks, seen_from=seen_from)
    return made.build(folder)
