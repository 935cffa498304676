"""Reads and tries everything, family by family, and gathers the rows."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Callable

from capture import procfs, rights
from capture.clocks import read_clocks
from capture.doctor import host, kernel, policy, privilege, stream, target
from capture.doctor.verdict import Verdict, judge
from capture.libraries import LibraryTable
from capture.loader_choice import make_loader
from capture.loaders import bpf_syscall as kernel_calls
from capture.loaders.bcc import TRACEFS
from capture.loaders.trial import OwnCode, Seen, TrialProbe, try_return_probe
from capture.options import RecordOptions
from capture.targets import TargetFinder, cgroup_folder, cgroup_pids

if TYPE_CHECKING:
    from collections.abc import Iterable

    from capture.doctor.privilege import CapabilitySet
    from capture.doctor.row import Row

_SYSCTL = Path("/proc/sys/kernel")
_ATTRIBUTES = Path("/proc/self/attr")
_RING_BYTES = 1 << 16


@dataclass(frozen=True)
class Questions:
    """What doctor is asked about."""

    pids: tuple[int, ...] = ()
    cgroups: tuple[Path, ...] = ()
    libbpf: Path | None = None
    out_dir: Path = field(default_factory=Path)


@dataclass(frozen=True)
class Report:
    """All that doctor found."""

    rows: list[Row]
    sets: list[CapabilitySet]
    verdict: Verdict


@dataclass(frozen=True)
class Trials:
    """What came of the trials on our own code and maps; text is why one failed."""

    array_map: str | None
    program: str | None
    ring: str | None
    multi: Seen | str
    perf: Seen | str
    return_probe: str | None

    @property
    def is_permitted(self) -> bool:
        """Whether the kernel takes maps and programs of ours at all."""
        return self.array_map is None and self.program is None

    @property
    def has_multi(self) -> bool | None:
        """Whether the kernel has uprobe_multi; None where that could not be tried."""
        if isinstance(self.multi, Seen):
            return True
        return False if self.is_permitted else None

    @property
    def best(self) -> Seen | str:
        """Return the probe that a recording would use."""
        return self.multi if isinstance(self.multi, Seen) else self.perf


def examine(questions: Questions) -> Report:
    """Return what can be recorded here.

    Raises
    ------
    CaptureError
        If a control group is asked about that is not there.
    """
    tried = make_trials()
    libraries = LibraryTable()
    try:
        rows = [
            *_kernel_rows(questions, tried),
            *_privilege_rows(tried, is_asked=bool(questions.pids or questions.cgroups)),
            *_policy_rows(was_refused=not tried.is_permitted),
            *_host_rows(questions.out_dir),
            *_stream_rows(questions.libbpf),
            *_target_rows(questions, libraries),
            target.stop_time_row(libraries.libraries, has_multi=tried.has_multi),
        ]
    finally:
        libraries.close()
    sets = privilege.capability_sets(has_multi=tried.has_multi)
    return Report(rows, sets, judge(rows))


def make_trials() -> Trials:
    """Try what recording will do, on maps and code of our own."""
    return Trials(
        array_map=_refusal(_make_map(kernel_calls.MAP_ARRAY, 4, 4, 1)),
        program=_refusal(_load_program),
        ring=_refusal(_make_map(kernel_calls.MAP_RING, 0, 0, _RING_BYTES)),
        multi=_try_probe(with_multi=True),
        perf=_try_probe(with_multi=False),
        return_probe=try_return_probe(),
    )


def _load_program() -> None:
    os.close(kernel_calls.load_program(kernel_calls.EXIT))


def _make_map(kind: int, key: int, value: int, entries: int) -> Callable[[], None]:
    return lambda: kernel_calls.Map("doctor", kind, key, value, entries).close()


def _refusal(act: Callable[[], object]) -> str | None:
    """Return why something is refused, None if it is not."""
    try:
        act()
    except OSError as error:
        return error.strerror or str(error)
    return None


def _try_probe(*, with_multi: bool) -> Seen | str:
    """Return what a program saw that ran for one call of our own code."""
    try:
        code = OwnCode()
    except OSError as error:
        return error.strerror or str(error)
    try:
        function = code.function()
        probe = TrialProbe(
            code, with_multi=with_multi, is_return=False, cookie=kernel.COOKIE
        )
        try:
            function()
            return probe.seen()
        finally:
            probe.close()
    except OSError as error:
        return error.strerror or str(error)
    finally:
        code.close()


def _kernel_rows(questions: Questions, tried: Trials) -> list[Row]:
    permitted = tried.is_permitted
    best = tried.best
    seen_pid = best.pid if isinstance(best, Seen) else None
    formats = [root / "events/sched/sched_switch/format" for root in TRACEFS]
    return [
        kernel.lockdown_row(rights.lockdown()),
        kernel.btf_row(),
        stream.libbpf_row(questions.libbpf),
        kernel.headers_row(os.uname().release),
        kernel.tracefs_row(
            TRACEFS[0], is_readable=any(os.access(path, os.R_OK) for path in formats)
        ),
        stream.bcc_row(),
        kernel.ring_buffer_row(tried.ring, is_permitted=permitted),
        kernel.uprobe_multi_row(tried.multi, is_permitted=permitted),
        kernel.perf_uprobe_row(
            tried.perf, has_multi=tried.has_multi is True, is_permitted=permitted
        ),
        kernel.cookie_row(best, is_permitted=permitted),
        kernel.return_probe_row(tried.return_probe, is_permitted=permitted),
        kernel.pid_namespace_row(seen_pid, os.getpid(), own_numbers()),
    ]


def own_numbers() -> list[int]:
    """Return our process number in every pid namespace that we are in."""
    found = re.search(r"^NSpid:\s*(.*)$", _status(), re.MULTILINE)
    return [int(number) for number in found[1].split()] if found else []


def _status() -> str:
    return Path("/proc/self/status").read_text(encoding="utf-8", errors="replace")


def _privilege_rows(tried: Trials, *, is_asked: bool) -> list[Row]:
    held = rights.effective()
    other = _process_of_another()
    ptrace = procfs.refusal(other) if other is not None else None
    folder = procfs.PROC / str(other) / "map_files"
    return [
        privilege.bpf_row(tried.array_map, is_held="CAP_BPF" in held),
        privilege.perfmon_row(tried.program, is_held="CAP_PERFMON" in held),
        privilege.sys_admin_row(
            is_held="CAP_SYS_ADMIN" in held, has_multi=tried.has_multi is True
        ),
        privilege.sys_ptrace_row(
            ptrace, other, is_held="CAP_SYS_PTRACE" in held, is_asked=is_asked
        ),
        privilege.dac_read_search_row(
            _refusal(lambda: next(folder.iterdir(), None))
            if other is not None
            else None,
            other,
            is_held="CAP_DAC_READ_SEARCH" in held,
        ),
        privilege.checkpoint_restore_row(
            _refusal(_open_mapped_file), is_held="CAP_CHECKPOINT_RESTORE" in held
        ),
    ]


def _process_of_another() -> int | None:
    """Return a process of another user that has memory of its own."""
    for pid in procfs.pids():
        try:
            uid = (procfs.PROC / str(pid)).stat().st_uid
        except OSError:
            continue
        stat = procfs.process_stat(pid)
        is_program = stat is not None and not (stat.is_kernel_thread or stat.is_gone)
        if uid != os.geteuid() and is_program:
            return pid
    return None


def _open_mapped_file() -> None:
    """Open a file that this process maps, the way libraries of targets are opened."""
    for path in (procfs.PROC / "self" / "map_files").iterdir():
        os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        return


def _policy_rows(*, was_refused: bool) -> list[Row]:
    line = policy.first_line
    mode = re.search(r"^Seccomp:\s*(\d+)$", _status(), re.MULTILINE)
    apparmor = Path("/sys/module/apparmor/parameters/enabled")
    profile = line(_ATTRIBUTES / "apparmor" / "current")
    return [
        policy.selinux_row(
            line(Path("/sys/fs/selinux/enforce")),
            line(_ATTRIBUTES / "current"),
            was_refused=was_refused,
        ),
        policy.apparmor_row(line(apparmor), profile, was_refused=was_refused),
        policy.seccomp_row(int(mode[1]) if mode else None, was_refused=was_refused),
        policy.paranoid_row(line(_SYSCTL / "perf_event_paranoid")),
        policy.unprivileged_bpf_row(line(_SYSCTL / "unprivileged_bpf_disabled")),
    ]


def _host_rows(out_dir: Path) -> list[Row]:
    clocks = read_clocks()
    source = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
    names = [policy.first_line(path) or path.parent.name for path in _ptp_clocks()]
    try:
        disk = os.statvfs(out_dir)
        free = disk.f_bavail * disk.f_frsize
    except OSError:
        free = None
    is_writable = os.access(out_dir, os.W_OK | os.X_OK)
    return [
        host.python_row(sys.version_info[:2], sys.executable),
        host.disk_row(str(out_dir.resolve()), free, is_writable=is_writable),
        host.clock_source_row(policy.first_line(source)),
        host.clock_discipline_row(
            clocks["adjtime_status"], clocks["adjtime_maxerror_us"]
        ),
        host.ptp_row(names),
    ]


def _ptp_clocks() -> list[Path]:
    return sorted(Path("/sys/class/ptp").glob("ptp*/clock_name"))


def _stream_rows(libbpf: Path | None) -> list[Row]:
    makers = [lambda name=name: make_loader(name) for name in ("core", "bcc")]
    return [stream.stream_row(loaded) for loaded in stream.try_streams(libbpf, makers)]


def _target_rows(questions: Questions, libraries: LibraryTable) -> list[Row]:
    pids = list(questions.pids)
    for path in questions.cgroups:
        pids += cgroup_pids(cgroup_folder(path))
    if not (questions.pids or questions.cgroups):
        pids += _library_users()
    return [
        row for pid in dict.fromkeys(pids) for row in target.target_rows(pid, libraries)
    ]


def _library_users() -> Iterable[int]:
    """Return the processes that a recording without named targets would begin with."""
    libraries = LibraryTable()
    try:
        finder = TargetFinder(RecordOptions(), libraries, (os.getpid(),))
        finder.poll()
        return sorted(finder.targets)
    finally:
        libraries.close()
