"""What /proc says of processes, threads and mappings; a vanished process says nothing.

Every reader returns None or an empty list when the process is gone, is not ours to
read, or was replaced while it was read: processes end at any moment, and a recorder
that stops because of it would miss the others.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")

_MAX_MAPS = 64 << 20
_MAX_ENVIRONMENT = 4 << 20
_LINE = re.compile(
    rb"^([0-9a-f]+)-([0-9a-f]+) (\S{4}) ([0-9a-f]+) ([0-9a-f]+):([0-9a-f]+) (\d+) +"
    rb"(/.*)$",
    re.MULTILINE,
)
_DELETED = " (deleted)"
_KERNEL_THREADS = 2


@dataclass(frozen=True)
class TaskStat:
    """The fields of a ``stat`` file that identify a task."""

    tid: int
    name: str
    state: str
    parent_pid: int
    start_ticks: int

    @property
    def is_gone(self) -> bool:
        """Whether it has ended and only waits to be collected."""
        return self.state in "ZXx"

    @property
    def is_kernel_thread(self) -> bool:
        """Whether it has no memory of its own to look into."""
        return _KERNEL_THREADS in (self.tid, self.parent_pid)


@dataclass(frozen=True)
class FileMapping:
    """One mapping of a file in the memory of a process."""

    start: int
    end: int
    is_executable: bool
    file_offset: int
    device: int
    inode: int
    path: str


def pids() -> list[int]:
    """Return the process ids that exist now."""
    return [int(name) for name in _names(PROC) if name.isdigit()]


def tids(pid: int) -> list[int]:
    """Return the threads that a process has now."""
    return [int(name) for name in _names(PROC / str(pid) / "task")]


def process_stat(pid: int) -> TaskStat | None:
    """Return what identifies a process."""
    return _parse_stat(_read(PROC / str(pid) / "stat"))


def thread_stat(pid: int, tid: int) -> TaskStat | None:
    """Return what identifies a thread."""
    return _parse_stat(_read(PROC / str(pid) / "task" / str(tid) / "stat"))


def raw_maps(pid: int) -> bytes:
    """Return the text of a process's mappings, to be searched before it is parsed."""
    return _read(PROC / str(pid) / "maps")


def refusal(pid: int) -> str | None:
    """Return why the mapped files of a process may not be read, or None: they may.

    Newer kernels show the mappings to CAP_PERFMON, but lead to the files only by right
    of ptrace; so both are tried.
    """
    try:
        with (PROC / str(pid) / "maps").open("rb", buffering=0) as file:
            file.read(1)
        os.readlink(PROC / str(pid) / "root")  # noqa: PTH115 not a path
    except PermissionError as error:
        return error.strerror
    except OSError:
        return None  # it is gone
    return None


def is_32_bit(pid: int) -> bool:
    """Tell whether a process runs a 32-bit program, as far as that can be seen."""
    try:
        with (PROC / str(pid) / "exe").open("rb", buffering=0) as file:
            return file.read(5) == b"\x7fELF\x01"
    except OSError:
        return False


def parse_maps(text: bytes) -> list[FileMapping]:
    """Return the mappings of files; anonymous memory is left out."""
    found: list[FileMapping] = []
    for match in _LINE.finditer(text):
        start, end, permissions, offset, major, minor, inode, path = match.groups()
        found.append(
            FileMapping(
                start=int(start, 16),
                end=int(end, 16),
                is_executable=permissions[2:3] == b"x",
                file_offset=int(offset, 16),
                device=os.makedev(int(major, 16), int(minor, 16)),
                inode=int(inode),
                path=_plain_path(path),
            )
        )
    return found


def namespace(pid: int, kind: str) -> int | None:
    """Return the inode number of a namespace of a process."""
    try:
        link = os.readlink(PROC / str(pid) / "ns" / kind)  # noqa: PTH115 not a path
    except OSError:
        return None
    number = link.partition("[")[2].rstrip("]")
    return int(number) if number.isdigit() else None


def cgroup(pid: int) -> str | None:
    """Return the control group of a process: the v2 one where it says more than /."""
    lines = _read(PROC / str(pid) / "cgroup").decode("utf-8", "replace").splitlines()
    paths = [line.split(":", 2)[2] for line in lines if line.count(":") > 1]
    return (
        next((path for path in reversed(paths) if path != "/"), "/") if paths else None
    )


def _names(folder: Path) -> list[str]:
    """Return the names in a folder of /proc, as text: there are thousands a look."""
    try:
        return os.listdir(folder)  # noqa: PTH208 Path objects would cost ten times more
    except OSError:
        return []


def _plain_path(path: bytes) -> str:
    text = path.decode("utf-8", "surrogateescape").replace("\\012", "\n")
    return text.removesuffix(_DELETED)


def _parse_stat(data: bytes) -> TaskStat | None:
    """Return a parsed ``stat`` line; the name may hold blanks and parentheses."""
    left, right = data.find(b"("), data.rfind(b")")
    fields = data[right + 2 :].split()
    if left < 0 or right < left or len(fields) <= 19:  # noqa: PLR2004 field 22 is used
        return None
    return TaskStat(
        tid=int(data[:left]),
        name=data[left + 1 : right].decode("utf-8", "replace"),
        state=fields[0].decode("ascii", "replace"),
        parent_pid=int(fields[1]),
        start_ticks=int(fields[19]),
    )


def read_environment(process: Path) -> list[tuple[bytes, bytes]]:
    """Return names and values of a process, given its folder; none if it is closed."""
    try:
        with (process / "environ").open("rb") as file:
            data = file.read(_MAX_ENVIRONMENT)
    except OSError:
        return []
    entries = (entry.partition(b"=") for entry in data.split(b"\0"))
    return [(name, value) for name, _, value in entries]


def _read(path: Path) -> bytes:
    """Return a small file of /proc, or nothing where it cannot be had."""
    try:
        with path.open("rb", buffering=0) as file:
            parts: list[bytes] = []
            size = 0
            while size < _MAX_MAPS:
                part = file.read(1 << 18)
                if not part:
                    break
                parts.append(part)
                size += len(part)
            return b"".join(parts)
    except OSError:
        return b""
