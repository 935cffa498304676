"""The recording while it runs: discovery, facts, and everything done by the clock."""

from __future__ import annotations

import contextlib
import errno
import threading
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Callable

from capture import probes, settings
from capture.budget import Budget
from capture.clocks import read_clocks
from capture.cost import CostBook
from capture.facts import FactBook, ProbeFacts
from capture.layout import LAYOUTS
from capture.loaders import FACT, decode_fact
from capture.ring import Drainer, iter_records
from capture.silent_probes import refused, silence
from capture.world import WorldFinder

if TYPE_CHECKING:
    from collections.abc import Generator

    from capture.libraries import LibraryTable
    from capture.loaders import Loader
    from capture.options import RecordOptions
    from capture.spool import SpoolWriter
    from capture.targets import Discovery, TargetFinder

_TICK_S = 0.01
"""How long a new library may stay without probes, the time to attach them apart."""
_LOOK_AFTER_S = (0.0, 0.02, 0.05, 0.1, 0.3)
_MOST_LOOKS = 512
"""A host that compiles starts hundreds of programs a second; the polls see them too."""
_OPEN_MIN_NS = 1_000_000_000
_YOUNG_NS = 10_000_000_000


@dataclass
class Task:
    """Something done again and again, at the first tick after it is due."""

    every_s: float
    run: Callable[[], object]
    due: float = 0.0


class Recording:
    """One recording with a loaded loader and an open spool.

    Parameters
    ----------
    options
        What was asked for.
    loader
        Loaded, nothing attached yet.
    finder, libraries
        Where targets and their files come from.
    spool
        Where everything goes.
    """

    def __init__(
        self,
        options: RecordOptions,
        loader: Loader,
        finder: TargetFinder,
        libraries: LibraryTable,
        spool: SpoolWriter,
    ) -> None:
        self.record_count = 0
        self.lost_count = 0
        self._options = options
        self._loader = loader
        self._finder = finder
        self._libraries = libraries
        self._spool = spool
        self._book = FactBook(self._append_facts, libraries)
        self._probe_facts = ProbeFacts(self._book)
        self._worlds = WorldFinder(libraries)
        self._world_known: set[int] = set()
        self._had_targets = False
        self._disk_is_low = False
        self._open_regions: dict[str, bytes] = {}
        self._seen_ns: dict[int, int] = {}
        self._unnoted: dict[int, bool] = {}
        self._looks: list[tuple[float, int]] = []
        self._refreshed = 0
        self._hasher: threading.Thread | None = None
        rings = loader.rings()
        self._facts_ring = rings.get("facts")
        events = {name: ring for name, ring in rings.items() if name != "facts"}
        self._drainer = Drainer(events, self._append_events)
        off_cpu = options.off_cpu_min_ns if "off_cpu" in options.streams else None
        limit = options.budget_ppm
        budget = Budget(limit, loader, off_cpu) if limit is not None else None
        self._cost = CostBook(
            self._book, loader, self._drainer, rings, spool, budget=budget
        )
        self._tasks = (
            Task(0.5, self._discover),
            Task(1.0, self._read_clock),
            Task(1.0, self._refresh_facts),
            Task(1.0, self._check_disk),
            Task(2.0, self._write_open),
            Task(self._cost.sample_every_s, self._cost.sample),
            Task(5.0, self._write_counters),
            Task(5.0, spool.sync),
        )

    def silence(self) -> str | None:
        """Return what is to be said about probes that were never hit."""
        return silence(self._book.rows("probe"), self._book.rows("library"))

    def refused(self) -> str | None:
        """Return what is to be said about probes that the kernel refused."""
        return refused(self._book.rows("probe"))

    def start(self, host: dict[str, Any]) -> None:
        """Attach everything that can be attached now, and record from then on."""
        self._book.put("host", host)
        self._book.config(settings.of_host())
        self._read_clock()
        self._drainer.start()
        self._probe_facts.tracepoints(self._loader.attach_tracepoints())
        self._discover()
        self._note_processes()
        self._book.flush()
        self._spool.sync()

    def run(self, is_stopped: Callable[[], bool]) -> str:
        """Record until something ends it, and return what did."""
        try:
            return self._run(is_stopped)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            return "disk_low"

    def _run(self, is_stopped: Callable[[], bool]) -> str:
        now = time.monotonic()
        limit = self._options.duration_ns
        deadline = None if limit is None else now + limit / 1e9
        for task in self._tasks:
            task.due = now + task.every_s
        self._cost.sample()
        while True:
            reason = self._reason(deadline, is_stopped=is_stopped())
            if reason is not None:
                return reason
            self._drain_facts()
            self._welcome(self._finder.poll_groups())
            self._look_now()
            self._note_processes()
            self._cost.tick(is_hashing=self._is_hashing())
            now = time.monotonic()
            for task in self._tasks:
                if now >= task.due:
                    task.run()
                    task.due = now + task.every_s
            self._book.flush()
            time.sleep(_TICK_S)

    def finish(self, reason: str) -> None:
        """Write everything that is still to be written, and close the spool."""
        with _full_disk_ignored():
            self._drain_facts()
            self._note_processes()
        self._cost.stop()
        self._loader.quiesce()
        stop_ns = time.monotonic_ns()
        with _full_disk_ignored():
            self._drainer.stop()
        with _full_disk_ignored():
            self._drain_facts()
            self._write_totals()
            self._write_open(everything=True)
        for target in list(self._finder.targets.values()):
            self._book.process(target, is_new=False)
        self._book.relate_ranks()
        self._hash(wait=True)
        rows = self._write_counters()
        rows += self._probe_facts.unwritten(self._drainer.unwritten)
        self.lost_count += sum(self._drainer.unwritten.values())
        with _full_disk_ignored():
            self._read_clock()
            self._book.flush()
        with _full_disk_ignored():
            end = {"stop_reason": reason, "stop_ns": stop_ns, "facts": rows}
            self._spool.append_rows("end", [end])
        self._spool.close()

    def _reason(self, deadline: float | None, *, is_stopped: bool) -> str | None:
        """Return why the recording is over, if it is."""
        error = self._drainer.error
        is_full = isinstance(error, OSError) and error.errno == errno.ENOSPC
        if error is not None and not is_full:
            raise error
        if is_stopped:
            return "signal"
        if self._disk_is_low or is_full:
            return "disk_low"
        if self._cost.is_spent:
            return "budget"
        if deadline is not None and time.monotonic() >= deadline:
            return "duration"
        is_alone = self._had_targets and not self._finder.targets
        return "targets_gone" if self._options.until_exit and is_alone else None

    # What the kernel tells, and what /proc does.

    def _drain_facts(self) -> None:
        ring = self._facts_ring
        while ring is not None and (region := ring.drain()) is not None:
            for record in iter_records(region, FACT.size):
                self._take_fact(decode_fact(record))

    def _take_fact(self, fact: dict[str, Any]) -> None:
        kind, pid = fact["fact"], fact["pid"]
        if kind == "communicator":
            self._book.communicator(fact)
        elif kind == "destroyed":
            self._book.destroyed(fact["communicator_ref"], fact["destroyed_ns"])
        elif kind in ("fork", "target"):
            reason = "fork" if kind == "fork" else "library"
            self._welcome(self._finder.adopt(pid, reason))
        elif kind == "exec":
            self._world_known.discard(pid)
            self._look_soon(pid)
        elif kind == "thread" and pid in self._finder.targets:
            self._book.thread(pid, fact["tid"])
        elif kind == "exit":
            self._book.ended(pid, fact["time_ns"])
            self._tasks[0].due = 0.0  # it may have been the last target

    def _look_soon(self, pid: int) -> None:
        """Look at a process again and again while its program is being loaded.

        Nothing tells when a library is mapped, and a program may call it at once.
        """
        if len(self._looks) < _MOST_LOOKS:
            now = time.monotonic()
            self._looks += [(now + delay, pid) for delay in _LOOK_AFTER_S]

    def _look_now(self) -> None:
        now = time.monotonic()
        due = {pid for at, pid in self._looks if at <= now}
        self._looks = [(at, pid) for at, pid in self._looks if at > now]
        for pid in due:
            self._welcome(self._finder.look_at(pid))
            self._update(pid)

    def _discover(self) -> None:
        self._welcome(self._finder.poll())

    def _welcome(self, found: Discovery) -> None:
        """Record new targets and probe new libraries."""
        for target in found.new_targets:
            self._had_targets = True
            self._loader.add_target(target.pid)
            self._seen_ns[target.pid] = time.monotonic_ns()
            self._world_known.discard(target.pid)
            self._look_soon(target.pid)
            # Before the probes: a running job's next call would be met as one on an
            # unknown communicator, and say so after our correction of it.
            self._find_world(target.pid)
            self._unnoted[target.pid] = True
        self._attach(found)
        for target in found.gone_targets:
            self._book.ended(target.pid, time.monotonic_ns())

    def _attach(self, found: Discovery) -> None:
        """Probe new libraries; each is attached as a whole."""
        if not found.new_libraries:
            return
        sites = [
            site
            for site in probes.plan(found.new_libraries, self._options.probe_set)
            if site.probe.stream in self._options.streams and self._cost.is_wanted(site)
        ]
        if not self._options.return_probes:
            sites = [replace(site, has_return=False) for site in sites]
        self._probe_facts.sites(sites, self._loader.attach(sites))
        for library in found.new_libraries:
            self._book.library(library)
        self._hash(wait=False)

    def _update(self, pid: int) -> None:
        """Note a target anew: it runs another program, or maps another file."""
        if pid in self._finder.targets:
            self._find_world(pid)
            self._unnoted.setdefault(pid, False)

    def _note_processes(self) -> None:
        """Write the facts of new and changed targets.

        Only after all probes are attached and all worlds are told, for these take many
        milliseconds and a program does not wait.
        """
        unnoted, self._unnoted = self._unnoted, {}
        for pid, is_new in unnoted.items():
            target = self._finder.targets.get(pid)
            if target is not None:
                self._book.process(target, is_new=is_new)

    def _find_world(self, pid: int) -> None:
        """Tell the kernel side where MPI_COMM_WORLD is, once a process has one."""
        if pid in self._world_known:
            return
        address = self._worlds.address(pid)
        if address is not None:
            self._world_known.add(pid)
            correction = self._loader.set_world(pid, address)
            if correction is not None:
                self._book.communicator(correction)

    # What is done by the clock.

    def _refresh_facts(self) -> None:
        """Look again at young targets each second, at all of them each fifth."""
        self._refreshed += 1
        now = time.monotonic_ns()
        for pid in list(self._finder.targets):
            is_young = now - self._seen_ns.get(pid, now) < _YOUNG_NS
            if is_young or self._refreshed % 5 == 0:
                self._update(pid)
        self._book.relate_ranks()
        for library in self._libraries.libraries:
            if library.sha256 is not None:
                self._book.library(library)

    def _read_clock(self) -> None:
        self._spool.append_rows("clock", [read_clocks()])

    def _check_disk(self) -> None:
        self._disk_is_low = self._spool.free_space_is_low()

    def _write_open(self, *, everything: bool = False) -> None:
        """Write what is open now: the last such frame of a stream counts."""
        found = self._loader.in_flight(0 if everything else _OPEN_MIN_NS)
        for stream in self._options.streams:
            region = found.get(stream, b"")
            # Ten thousand threads that sleep on are told once.
            if everything or region != self._open_regions.get(stream, b""):
                count = len(region) // LAYOUTS[stream].stride
                self._spool.append(f"inflight/{stream}", region, count)
                self._open_regions[stream] = region

    def _write_totals(self) -> None:
        """Write the totals that no record carries; they are no open absences."""
        region = memoryview(self._loader.last_totals())
        if region:
            count = len(region) // LAYOUTS["off_cpu"].stride
            self._append_events("off_cpu", region, count)

    def _write_counters(self) -> list[dict[str, Any]]:
        counters = self._loader.probe_counters()
        self.lost_count = sum(counter.lost_count for counter in counters)
        return self._probe_facts.count(counters) + self._cost.write()

    def _hash(self, *, wait: bool) -> None:
        """Hash new libraries beside the recording, which must not wait for it."""
        if not self._is_hashing():
            self._hasher = threading.Thread(target=self._hash_all, daemon=True)
            self._hasher.start()
        if wait and self._hasher is not None:
            self._hasher.join()
            for library in self._libraries.libraries:
                self._book.library(library)

    def _is_hashing(self) -> bool:
        return self._hasher is not None and self._hasher.is_alive()

    def _hash_all(self) -> None:
        while self._libraries.hash_next() is not None:
            pass

    # Into the spool.

    def _append_events(self, stream: str, region: memoryview, count: int) -> None:
        self._spool.append(f"events/{stream}", region, count)
        self.record_count += count

    def _append_facts(self, rows: list[dict[str, Any]]) -> None:
        self._spool.append_rows("facts", rows)


@contextlib.contextmanager
def _full_disk_ignored() -> Generator[None, None, None]:
    """Go on where there is no room: smaller frames, such as the last, may still fit."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
