"""The small tables of a recording, written as they become known.

A fact may be written many times; the last row of its key counts.  So everything is
written as soon as it is seen, and again when it changes: a recording that is killed has
what was known by then.  Rows that are the same as last time are not written again.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Callable

from capture import procfs, ranks, settings
from capture.fact_columns import FACT_KEYS
from capture.layout import OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from capture.libraries import LibraryTable, MappedLibrary
    from capture.loaders import AttachResult, ProbeCounter
    from capture.probes import ProbeSite
    from capture.targets import TargetProcess

Row = dict[str, Any]

_MANY_THREADS, _MANY_EVERY_S = 1_000, 5.0


class FactBook:
    """Collects facts, leaves out repetitions, and hands on what is new.

    Parameters
    ----------
    append
        Takes new rows.
    libraries
        Where mapped files are known by number.
    """

    def __init__(
        self, append: Callable[[list[Row]], None], libraries: LibraryTable
    ) -> None:
        self._append = append
        self._libraries = libraries
        self._rows: dict[tuple[Any, ...], Row] = {}
        self._pending: list[Row] = []
        self._threads_read: dict[int, tuple[int, float]] = {}

    def put(self, fact: str, row: Mapping[str, Any]) -> None:
        """Note one row, unless it says what was said before."""
        key = (fact, *(row[name] for name in FACT_KEYS[fact]))
        whole = {"fact": fact, **row}
        if self._rows.get(key) != whole:
            self._rows[key] = whole
            self._pending.append(whole)

    def rows(self, fact: str) -> list[Row]:
        """Return the rows of one table as they stand."""
        return [row for key, row in self._rows.items() if key[0] == fact]

    def flush(self) -> None:
        """Hand on what is new."""
        if self._pending:
            rows, self._pending = self._pending, []
            self._append(rows)

    def process(self, target: TargetProcess, *, is_new: bool) -> None:
        """Note a target as it is now: itself, its rank, threads and mappings."""
        stat = procfs.process_stat(target.pid)
        if stat is None or stat.start_ticks != target.start_ticks:
            return
        words = ranks.read_allowed(procfs.PROC / str(target.pid))
        rank = ranks.rank_of(words)
        key = ("process", target.pid, target.start_ticks)
        before = self._rows.get(key, {})
        self.put(
            "process",
            {
                "pid": target.pid,
                "start_ticks": target.start_ticks,
                "pid_namespace": procfs.namespace(target.pid, "pid"),
                "parent_pid": stat.parent_pid or None,
                "process_name": stat.name,
                "target_reason": target.reason,
                "first_ns": before.get("first_ns", time.monotonic_ns()),
                "exit_ns": before.get("exit_ns"),
                "job_id": ranks.job_of(words),
                "cgroup": procfs.cgroup(target.pid),
            },
        )
        if rank is not None:
            self._rank(target, rank)
        self.config(settings.of_process(target.pid))
        self.threads(target.pid, is_start=is_new)
        self.mappings(target.pid)

    def config(self, rows: Iterable[Row]) -> None:
        """Note how the host or a process is set up."""
        for row in rows:
            self.put("config", row)

    def _rank(self, target: TargetProcess, rank: ranks.Rank) -> None:
        self.put(
            "rank",
            {
                "pid": target.pid,
                "start_ticks": target.start_ticks,
                "rank": rank.rank,
                "local_rank": rank.local_rank,
                "world_size": rank.world_size,
                "source": rank.source,
                "job_id": rank.job_id,
            },
        )

    def ended(self, pid: int, exit_ns: int) -> None:
        """Note the end of a process; the first word about it counts."""
        for row in self.rows("process"):
            if row["pid"] == pid and row["exit_ns"] is None:
                self.put("process", {**_columns(row), "exit_ns": exit_ns})

    def threads(self, pid: int, *, is_start: bool = False) -> None:
        """Note every thread that a process has now; thousands of them not so often.

        The kernel tells of new ones, so what waits is only a change of a name.
        """
        count, read_at = self._threads_read.get(pid, (0, 0.0))
        if count > _MANY_THREADS and time.monotonic() - read_at < _MANY_EVERY_S:
            return
        tids = procfs.tids(pid)
        for tid in tids:
            self.thread(pid, tid, is_start=is_start)
        self._threads_read[pid] = (len(tids), time.monotonic())

    def thread(self, pid: int, tid: int, *, is_start: bool = False) -> None:
        """Note one thread."""
        stat = procfs.thread_stat(pid, tid)
        if stat is None:
            return
        before = self._rows.get(("thread", tid, stat.start_ticks), {})
        state = stat.state if is_start else None
        self.put(
            "thread",
            {
                "pid": pid,
                "tid": tid,
                "start_ticks": stat.start_ticks,
                "thread_name": stat.name,
                "first_ns": before.get("first_ns", time.monotonic_ns()),
                "state_at_start": before.get("state_at_start", state),
            },
        )

    def mappings(self, pid: int) -> None:
        """Note the executable mappings of a process, and the files behind them."""
        for mapping in procfs.parse_maps(procfs.raw_maps(pid)):
            if not mapping.is_executable:
                continue
            library = self._libraries.of_mapping(pid, mapping)
            if library is None:
                continue
            self.library(library)
            start = f"{mapping.start:x}"
            before = self._rows.get(("mapping", pid, start, library.library_ref), {})
            self.put(
                "mapping",
                {
                    "pid": pid,
                    "library_ref": library.library_ref,
                    "start_address": start,
                    "end_address": f"{mapping.end:x}",
                    "file_offset": mapping.file_offset,
                    "seen_ns": before.get("seen_ns", time.monotonic_ns()),
                },
            )

    def library(self, library: MappedLibrary) -> None:
        """Note a file that is mapped, with its hash once that is known."""
        self.put(
            "library",
            {
                "library_ref": library.library_ref,
                "device": library.device,
                "inode": library.inode,
                "build_id": library.build_id,
                "sha256": library.sha256,
                "path": library.path,
                "kind": library.kind,
            },
        )

    def communicator(self, row: Mapping[str, Any]) -> None:
        """Note a communicator as the kernel told it."""
        before = self._rows.get(("communicator", row["communicator_ref"]), {})
        kept = {
            "first_ns": before.get("first_ns", row["first_ns"]),
            "destroyed_ns": before.get("destroyed_ns"),
        }
        self.put("communicator", {**_columns(row), **kept})

    def destroyed(self, communicator_ref: int, destroyed_ns: int) -> None:
        """Note the end of a communicator."""
        before = self._rows.get(("communicator", communicator_ref))
        if before is not None:
            row = {**_columns(before), "destroyed_ns": destroyed_ns}
            self.put("communicator", row)

    def relate_ranks(self) -> None:
        """Complete ranks by communicators, and the MPI world by ranks."""
        self._complete_worlds()
        self._ranks_from_communicators()

    def _complete_worlds(self) -> None:
        """Give MPI worlds size and rank: no call tells them, the launcher does."""
        said = {r["pid"]: r for r in self.rows("rank") if r["source"] in _SAID_BY_MPI}
        for row in self.rows("communicator"):
            rank = said.get(row["pid"])
            if row["how"] == "world" and row.get("rank") is None and rank is not None:
                place = {"rank": rank["rank"], "size": rank["world_size"]}
                self.put("communicator", {**_columns(row), **place})

    def _ranks_from_communicators(self) -> None:
        """Give processes whose environment says nothing their rank in their widest one.

        Spawned workers hide the environment that their launcher had.
        """
        known = {row["pid"] for row in self.rows("rank") if row["source"] in _SAID}
        widest: dict[int, Row] = {}
        for row in self.rows("communicator"):
            if row.get("rank") is None or not row.get("size") or row["pid"] in known:
                continue
            best = widest.get(row["pid"])
            if best is None or row["size"] > best["size"]:
                widest[row["pid"]] = row
        for process in self.rows("process"):
            row = widest.get(process["pid"])
            if row is not None:
                self.put(
                    "rank",
                    {
                        "pid": process["pid"],
                        "start_ticks": process["start_ticks"],
                        "rank": row["rank"],
                        "local_rank": None,
                        "world_size": row["size"],
                        "source": "communicator",
                        "job_id": process["job_id"],
                    },
                )


_SAID_BY_MPI = ("openmpi", "slurm", "pmi")
_SAID = ("torchrun", *_SAID_BY_MPI)


class ProbeFacts:
    """The probes of a recording, with what the kernel counted for each.

    Tracepoints have no number in records; here they get negative ones, so that every
    probe has a key.  What is counted for a tracepoint stream as a whole stands at its
    first tracepoint.
    """

    def __init__(self, book: FactBook) -> None:
        self._book = book
        self._rows: dict[int, Row] = {}
        self._first_of_stream: dict[str, int] = {}

    def sites(
        self, sites: Iterable[ProbeSite], results: Iterable[AttachResult]
    ) -> None:
        """Note probes in libraries and what became of them."""
        by_id = {result.probe_id: result for result in results}
        for site in sites:
            result = by_id.get(site.probe_id)
            self._rows[site.probe_id] = {
                "probe_id": site.probe_id,
                "stream": site.probe.stream,
                "operation": _operation(site.probe.stream, site.probe.operation),
                "vendor": site.probe.vendor,
                "layer": site.probe.layer,
                "library_ref": site.library_ref,
                "symbol": site.symbol,
                "file_offset": site.file_offset,
                "has_return": site.has_return,
                **_outcome(result),
                "aliases": list(site.aliases),
            }
        self._write()

    def tracepoints(self, results: Iterable[AttachResult]) -> None:
        """Note what watches the scheduler and processes."""
        for result in results:
            probe_id = -1 - sum(1 for known in self._rows if known < 0)
            self._first_of_stream.setdefault(result.stream, probe_id)
            self._rows[probe_id] = {
                "probe_id": probe_id,
                "stream": result.stream,
                "operation": result.stream,
                "vendor": "kernel",
                "layer": 0,
                "library_ref": None,
                "symbol": result.symbol,
                "file_offset": None,
                "has_return": False,
                **_outcome(result),
                "aliases": [],
            }
        self._write()

    def count(self, counters: Iterable[ProbeCounter]) -> list[Row]:
        """Note the counters and return all rows that carry them, probes and losses."""
        losses: list[Row] = []
        for counter in counters:
            probe_id = counter.probe_id
            if probe_id is None:
                probe_id = self._first_of_stream.get(counter.stream)
            if probe_id in self._rows:
                self._rows[probe_id].update(_counts(counter))
            losses += _losses(counter)
        self._write()
        for loss in losses:
            self._book.put("loss", loss)
        rows = [{"fact": "probe", **row} for row in self._rows.values()]
        return rows + [{"fact": "loss", **loss} for loss in losses]

    def unwritten(self, counts: Mapping[str, int]) -> list[Row]:
        """Note records that a full disk cost, and return their rows."""
        rows = [_unwritten(stream, count) for stream, count in counts.items()]
        for row in rows:
            self._book.put("loss", row)
        return [{"fact": "loss", **row} for row in rows]

    def _write(self) -> None:
        for row in self._rows.values():
            self._book.put("probe", row)


def _columns(row: Mapping[str, Any]) -> Row:
    return {name: value for name, value in row.items() if name != "fact"}


def _operation(stream: str, code: int) -> str:
    return OPERATIONS.get(stream, {}).get(code, f"operation_{code}")


def _outcome(result: AttachResult | None) -> Row:
    """Return the columns of a probe that is attached or refused, not yet hit."""
    reason = "no answer from the loader" if result is None else result.refused_reason
    return {
        "is_asked": True,
        "is_attached": result is not None and result.is_attached,
        "refused_reason": reason,
        "hit_count": 0,
        "lost_count": 0,
        "lost_first_ns": None,
        "lost_last_ns": None,
        "unmatched_return_count": 0,
    }


def _counts(counter: ProbeCounter) -> Row:
    return {
        "hit_count": counter.hit_count,
        "lost_count": counter.lost_count,
        "lost_first_ns": min((loss.first_ns for loss in counter.losses), default=None),
        "lost_last_ns": max((loss.last_ns for loss in counter.losses), default=None),
        "unmatched_return_count": counter.unmatched_return_count,
    }


def _losses(counter: ProbeCounter) -> list[Row]:
    """Return one row for each CPU and way in which records of a probe were lost."""
    return [
        {
            "stream": counter.stream,
            "probe_id": counter.probe_id,
            "cpu": loss.cpu,
            "reason": reason,
            "lost_count": count,
            "first_ns": loss.first_ns,
            "last_ns": loss.last_ns,
        }
        for loss in counter.losses
        for reason, count in (
            ("ring_full", loss.lost_count - loss.map_full_count),
            ("map_full", loss.map_full_count),
        )
        if count > 0
    ]


def _unwritten(stream: str, count: int) -> Row:
    """Return the loss of records whose region found no room on the disk."""
    return {
        "stream": stream,
        "probe_id": None,
        "cpu": None,
        "reason": "disk_full",
        "lost_count": count,
        "first_ns": None,
        "last_ns": None,
    }
