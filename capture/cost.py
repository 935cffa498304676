"""What a recording itself costs: processor time, memory, rings, disk, and its programs.

Processor time and memory are those of the recorder's process.  The run time of the BPF
programs is paid by whoever runs into them; it is sampled, a tenth of a second at a
time, and only where the kernel lets us (:mod:`capture.loaders.run_time`).  The trap
that leads to a program is in neither figure: README.md says what that costs.
"""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from capture.budget import Budget
    from capture.facts import FactBook
    from capture.loaders import Loader
    from capture.loaders.run_time import ProgramRuns
    from capture.probes import ProbeSite
    from capture.ring import Drainer, Ring
    from capture.spool import SpoolWriter

_NS_PER_S = 1_000_000_000
_WINDOW_NS = 100_000_000
_STATUS = Path("/proc/self/status")

Row = dict[str, Any]


class CostBook:
    """Writes what a recording costs to its facts, and thins it where that is too much.

    Parameters
    ----------
    book
        Where the facts go.
    loader, drainer, rings, spool
        What costs.
    budget
        What it may cost, None for any.
    """

    def __init__(
        self,
        book: FactBook,
        loader: Loader,
        drainer: Drainer,
        rings: dict[str, Ring],
        spool: SpoolWriter,
        *,
        budget: Budget | None,
    ) -> None:
        self._book = book
        self._drainer = drainer
        self._rings = rings
        self._spool = spool
        self._budget = budget
        self._run_time = RunTime(loader)
        self.sample_every_s = 1.0 if budget else 5.0

    @property
    def is_spent(self) -> bool:
        """Tell whether the recording has to stop to stay within its budget."""
        return self._budget is not None and self._budget.is_spent

    def is_wanted(self, site: ProbeSite) -> bool:
        """Tell whether a probe that was found now is still to be attached."""
        return self._budget is None or site.probe.part not in self._budget.muted_parts

    def sample(self) -> None:
        """Begin to look at the run time of the programs for a moment."""
        self._run_time.begin()

    def tick(self, *, is_hashing: bool) -> None:
        """Do what is due now; files are hashed once, so that counts for no budget."""
        self._run_time.tick()
        if self._budget is None:
            return
        if is_hashing:
            self._budget.restart()
        row = self._budget.look(self._run_time.last_share)
        if row is not None:
            self._book.put("budget_step", row)

    def stop(self) -> None:
        """Let the kernel count run time no longer."""
        self._run_time.end()

    def write(self) -> list[Row]:
        """Write the facts as they stand now, and return them."""
        rows = [("cost", own_cost(self._drainer, self._rings, self._spool.size_bytes))]
        rows += [("ring", row) for row in ring_rows(self._rings)]
        rows += [("program", row) for row in self._run_time.rows()]
        for fact, row in rows:
            self._book.put(fact, row)
        return [{"fact": fact, **row} for fact, row in rows]


class RunTime:
    """Samples the run time of a loader's programs, one window after another."""

    def __init__(self, loader: Loader) -> None:
        self.window_ns = 0
        """All windows together; 0 where the kernel refuses, or before the first."""
        self.run_ns: dict[str, int] = {}
        self.run_count: dict[str, int] = {}
        self.last_share = 0.0
        """Run time in the last window, in CPUs."""
        self._loader = loader
        self._counting: int | None = None
        self._before: dict[str, ProgramRuns] = {}
        self._began_ns = 0

    def begin(self) -> None:
        """Open a window, unless one is open or the kernel refuses."""
        if self._counting is not None:
            return
        try:
            self._counting = self._loader.count_run_time()
        except OSError:
            return
        self._before = self._loader.program_runs()
        self._began_ns = time.monotonic_ns()

    def tick(self) -> None:
        """Close the window that is open, once it is wide enough."""
        width = time.monotonic_ns() - self._began_ns
        if self._counting is None or width < _WINDOW_NS:
            return
        self.end()
        self.window_ns += width
        total = 0
        for name, runs in self._loader.program_runs().items():
            before = self._before.get(name)
            if before is not None:
                run_ns = runs.run_ns - before.run_ns
                total += run_ns
                self.run_ns[name] = self.run_ns.get(name, 0) + run_ns
                count = runs.run_count - before.run_count
                self.run_count[name] = self.run_count.get(name, 0) + count
        self.last_share = total / width

    def end(self) -> None:
        """Close the window, if one is open; what it saw does not count."""
        if self._counting is not None:
            os.close(self._counting)
            self._counting = None

    def rows(self) -> list[Row]:
        """Return a row of facts/program for each program."""
        is_known = self.window_ns > 0
        return [
            {
                "program": name,
                "window_ns": self.window_ns,
                "run_ns": self.run_ns.get(name, 0) if is_known else None,
                "run_count": self.run_count.get(name, 0) if is_known else None,
                "missed_count": runs.missed_count,
            }
            for name, runs in self._loader.program_runs().items()
        ]


def own_cost(drainer: Drainer, rings: dict[str, Ring], spool_bytes: int) -> Row:
    """Return the row of facts/cost as it stands."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    rss = rss_bytes()
    # The kernel maps every page of a ring, and its data twice in a row.
    mapped = sum(ring.mapped_bytes for ring in rings.values())
    return {
        "time_ns": time.monotonic_ns(),
        "user_ns": round(usage.ru_utime * _NS_PER_S),
        "system_ns": round(usage.ru_stime * _NS_PER_S),
        **{f"{name}_ns": _thread_cost(drainer, name) for name in drainer.thread_ids},
        "rss_bytes": rss,
        "rss_without_rings_bytes": max(0, rss - mapped),
        "spool_bytes": spool_bytes,
    }


def ring_rows(rings: dict[str, Ring]) -> list[Row]:
    """Return the rows of facts/ring: how full each ring ever was."""
    return [
        {"stream": s, "size_bytes": r.size_bytes, "most_used_bytes": r.most_used_bytes}
        for s, r in rings.items()
    ]


def rss_bytes() -> int:
    """Return the resident memory of this process."""
    for line in _STATUS.read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


def _thread_cost(drainer: Drainer, name: str) -> int | None:
    """Return the processor time of one of its threads, running or ended."""
    return drainer.spent_ns.get(name) or thread_ns(drainer.thread_ids[name])


def thread_ns(thread_id: int | None) -> int | None:
    """Return the processor time of a thread of this process, None if it is gone."""
    path = Path(f"/proc/self/task/{thread_id}/schedstat")
    try:
        return int(path.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return None
