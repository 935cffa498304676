"""Which processes are recorded, found again and again while recording.

Targets are processes (thread groups).  A pid, a control group, or "maps a known
library" are ways to find them; children of a target are targets too, those that it had
before the recording began included: whether a child was born a moment before or after
must not decide.  The kernel side follows forks by itself; here they get their facts.

A process that maps nothing known yet is looked at often while it is young, for that is
when libraries are loaded, and rarely later: reading ``maps`` of every process each
second would cost a large host more than the recording does.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from capture import procfs
from capture.errors import CaptureError
from capture.show import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from capture.libraries import LibraryTable, MappedLibrary
    from capture.options import RecordOptions
    from capture.procfs import TaskStat

_CGROUP_ROOTS = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"))
_MAX_CGROUPS = 10_000

# (age up to, looked at every) in seconds.
_SCAN_EVERY = ((2.0, 0.0), (60.0, 1.0), (600.0, 5.0), (float("inf"), 30.0))

_MAPS_EVERY_S = 1.0
"""Targets may load a library at any time, but big processes have thousands of lines."""


def _say_nothing(_text: str) -> None:
    """Say nothing."""


@dataclass(frozen=True)
class TargetProcess:
    """One process that is recorded, and what made it a target."""

    pid: int
    start_ticks: int
    reason: str


@dataclass(frozen=True)
class Discovery:
    """What one look at the host brought."""

    new_targets: list[TargetProcess] = field(default_factory=list)
    gone_targets: list[TargetProcess] = field(default_factory=list)
    new_libraries: list[MappedLibrary] = field(default_factory=list)


@dataclass
class _Watch:
    """One process that is no target so far."""

    start_ticks: int
    seen: float
    looked: float = 0.0


class TargetFinder:
    """Find targets and the libraries to probe in them.

    Parameters
    ----------
    options
        Which processes are asked for.
    libraries
        Where the libraries that they map are kept.
    own_pids
        Processes that are never targets: the recorder's own.
    say
        Hears, once each, what cannot be recorded of the targets, and why.

    Raises
    ------
    CaptureError
        If a process asked for by number is not there, or cannot be recorded.
    """

    def __init__(
        self,
        options: RecordOptions,
        libraries: LibraryTable,
        own_pids: Iterable[int],
        say: Callable[[str], None] = _say_nothing,
    ) -> None:
        self.targets: dict[int, TargetProcess] = {}
        self._pids: dict[int, int] = {}
        self._cgroups = [cgroup_folder(path) for path in options.cgroups]
        self._by_library = not (options.pids or options.cgroups)
        self._libraries = libraries
        self._own = frozenset(own_pids)
        self._watched: dict[int, _Watch] = {}
        self._announced: set[int] = set()
        self._maps_seen: dict[int, int] = {}
        self._mapped = 0.0
        self._say = say
        self._told: set[object] = set()
        for pid in options.pids:
            stat = procfs.process_stat(pid)
            if stat is None:
                raise CaptureError(
                    f"there is no process {pid}",
                    "give the pid as the recorder sees it, of a running process",
                )
            _check(pid, has_streams=bool(options.streams))
            self._pids[pid] = stat.start_ticks

    def poll(self) -> Discovery:
        """Look at every process and return what changed since the last time."""
        now = time.monotonic()
        found = Discovery()
        stats = self._refresh(now)
        found.gone_targets.extend(self._drop_gone())
        for pid, start_ticks in self._pids.items():
            self._take(pid, "pid", found, start_ticks)
        self._take_groups(found)
        if self._by_library:
            for pid in [pid for pid in stats if self._is_due(pid, now)]:
                self._look(pid, now, found)
        self._adopt(stats, found)
        if now - self._mapped >= _MAPS_EVERY_S:
            self._mapped = now
            for pid in self.targets:
                self._map_libraries(pid)
        self._announce(found)
        return found

    def look_at(self, pid: int) -> Discovery:
        """Look at one process at once, because the kernel said that it changed."""
        found = Discovery()
        now = time.monotonic()
        watch = self._watched.get(pid)
        if watch is not None:
            watch.seen = now  # a new program is as good as young
        if pid in self.targets:
            self._map_libraries(pid)
        elif self._by_library and pid not in self._own:
            self._look(pid, now, found)
        else:
            self._take_groups(found)
        self._announce(found)
        return found

    def poll_groups(self) -> Discovery:
        """Look only at who joined the control groups asked for: cheap, so often done.

        A process that joins by itself has told nobody, and a library that is probed
        already tells nothing when it is mapped once more.
        """
        found = Discovery()
        if self._cgroups:
            self._take_groups(found)
            self._announce(found)
        return found

    def adopt(self, pid: int, reason: str) -> Discovery:
        """Take a process that the kernel side made a target."""
        found = Discovery()
        self._take(pid, reason, found)
        self._announce(found)
        return found

    def _refresh(self, now: float) -> dict[int, TaskStat]:
        """Return the processes that are new, and watch them from now on."""
        alive = set(procfs.pids()) - self._own
        for pid in self._watched.keys() - alive:
            del self._watched[pid]
        fresh: dict[int, TaskStat] = {}
        for pid in alive:
            watch = self._watched.get(pid)
            if watch is not None and now - watch.seen > _SCAN_EVERY[0][0]:
                if self._by_library and self._is_due(pid, now):
                    self._check_reuse(pid, fresh, now)
                continue
            stat = procfs.process_stat(pid)
            if stat is None or stat.is_kernel_thread:
                continue
            fresh[pid] = stat
            if watch is None or watch.start_ticks != stat.start_ticks:
                self._watched[pid] = _Watch(stat.start_ticks, now)
        return fresh

    def _check_reuse(self, pid: int, fresh: dict[int, TaskStat], now: float) -> None:
        stat = procfs.process_stat(pid)
        if stat is None:
            return
        fresh[pid] = stat
        if self._watched[pid].start_ticks != stat.start_ticks:
            self._watched[pid] = _Watch(stat.start_ticks, now)

    def _is_due(self, pid: int, now: float) -> bool:
        watch = self._watched.get(pid)
        if watch is None or pid in self.targets:
            return False
        age = now - watch.seen
        every = next(every for limit, every in _SCAN_EVERY if age <= limit)
        return now - watch.looked >= every

    def _drop_gone(self) -> list[TargetProcess]:
        gone: list[TargetProcess] = []
        for pid, target in list(self.targets.items()):
            stat = procfs.process_stat(pid)
            if stat is None or stat.is_gone or stat.start_ticks != target.start_ticks:
                gone.append(self.targets.pop(pid))
                self._maps_seen.pop(pid, None)
        return gone

    def _take_groups(self, found: Discovery) -> None:
        for folder in self._cgroups:
            for pid in cgroup_pids(folder):
                self._take(pid, "cgroup", found)

    def _look(self, pid: int, now: float, found: Discovery) -> None:
        """Make a process a target if it maps a library that we know."""
        watch = self._watched.get(pid)
        if watch is not None:
            watch.looked = now
        maps = procfs.raw_maps(pid)
        if self._libraries.is_wanted(maps):
            self._take(pid, "library", found)
        elif not maps:
            self._tell_unreadable(pid)

    def _take(
        self, pid: int, reason: str, found: Discovery, start_ticks: int | None = None
    ) -> None:
        """Make a process a target, unless it is one already or is gone."""
        if pid in self.targets or pid in self._own:
            return
        stat = procfs.process_stat(pid)
        if stat is None or stat.is_gone or stat.is_kernel_thread:
            return
        if start_ticks not in (None, stat.start_ticks):
            return  # the process that was asked for has ended, its number came back
        if procfs.is_32_bit(pid):
            self._tell((pid, stat.start_ticks), _of_32_bits(pid))
            return
        target = TargetProcess(pid, stat.start_ticks, reason)
        self.targets[pid] = target
        found.new_targets.append(target)
        self._map_libraries(pid)

    def _adopt(self, fresh: dict[int, TaskStat], found: Discovery) -> None:
        """Take the children of targets, and their children."""
        children = {pid: stat.parent_pid for pid, stat in fresh.items()}
        while True:
            new = [
                pid
                for pid, parent in children.items()
                if parent in self.targets and pid not in self.targets
            ]
            for pid in new:
                self._take(pid, "fork", found)
            if not any(pid in self.targets for pid in new):
                return

    def _map_libraries(self, pid: int) -> None:
        """Open the libraries to probe that a process maps, where they are new."""
        maps = procfs.raw_maps(pid)
        if self._maps_seen.get(pid) == hash(maps):
            return
        self._maps_seen[pid] = hash(maps)
        self._tell_unreadable(pid)
        for mapping in procfs.parse_maps(maps):
            if mapping.is_executable:
                self._libraries.of_mapping(pid, mapping)
        for path, reason in self._libraries.refusals.items():
            self._tell(path, f"library {plain(path)} is not probed: {reason}")

    def _tell_unreadable(self, pid: int) -> None:
        """Say once that some processes are closed to us, with the first of them."""
        if "unreadable" in self._told:
            return
        reason = procfs.refusal(pid)
        if reason is not None:
            self._tell("unreadable", f"{_unreadable(pid, reason)}; others may be too")

    def _tell(self, key: object, text: str) -> None:
        if key not in self._told:
            self._told.add(key)
            self._say(text)

    def _announce(self, found: Discovery) -> None:
        """Report each library to probe once."""
        for library in self._libraries.libraries:
            if library.is_probed and library.library_ref not in self._announced:
                self._announced.add(library.library_ref)
                found.new_libraries.append(library)


def _check(pid: int, *, has_streams: bool) -> None:
    """Refuse a process asked for by number of which nothing could be recorded."""
    if procfs.is_32_bit(pid):
        raise CaptureError(_of_32_bits(pid), "name processes of 64-bit programs")
    reason = procfs.refusal(pid)
    if reason is not None and has_streams:
        raise CaptureError(
            _unreadable(pid, reason),
            "record as its own user, or with CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH",
        )


def _of_32_bits(pid: int) -> str:
    return f"process {pid} runs a 32-bit program, which cannot be recorded"


def _unreadable(pid: int, reason: str) -> str:
    return f"the libraries of process {pid} cannot be read: {reason}"


def cgroup_pids(folder: Path) -> Sequence[int]:
    """Return the processes of a control group and of all below it."""
    found: list[int] = []
    folders = [folder]
    for count, group in enumerate(folders):
        if count >= _MAX_CGROUPS:
            break
        try:
            found += [int(pid) for pid in (group / "cgroup.procs").read_text().split()]
            folders += [path for path in group.iterdir() if path.is_dir()]
        except OSError:
            continue
    return found


def cgroup_folder(path: Path) -> Path:
    """Return the folder of a control group, named whole or below the usual mounts."""
    names = [path, *(root / str(path).lstrip("/") for root in _CGROUP_ROOTS)]
    for name in names:
        if (name / "cgroup.procs").exists():
            return name
    raise CaptureError(
        f"there is no control group {str(path)!r}",
        "give the folder below /sys/fs/cgroup that holds cgroup.procs",
    )
