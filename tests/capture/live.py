"""A real recorder as a process, and what it leaves on the disk and in the kernel."""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import struct
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from zipfile import ZipFile

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parents[2]
PYTHON = "/usr/bin/python3"
DEADLINE_S = 120
"""Removing the probes of bcc takes 0.1 s each."""


class Recorder:
    """A recorder at work, and what it says."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.said = ""

    def wait_for(self, words: str) -> None:
        """Read what the recorder says until it has said this."""
        deadline = time.monotonic() + DEADLINE_S
        while words not in self.said:
            left = deadline - time.monotonic()
            ready = select.select([self._stderr], [], [], max(0, left))[0]
            line = os.read(self._stderr.fileno(), 1 << 16) if ready else b""
            assert line, self.said
            self.said += line.decode()

    def stop(self, number: signal.Signals = signal.SIGINT) -> int:
        """Send a signal and return the exit status."""
        self.process.send_signal(number)
        return self.process.wait(DEADLINE_S)

    def end(self) -> int:
        """Read what the recorder says until it ends, and return its exit status."""
        _, rest = self.process.communicate(timeout=DEADLINE_S)
        self.said += rest
        return self.process.returncode

    @property
    def _stderr(self) -> IO[str]:
        assert self.process.stderr is not None
        return self.process.stderr


def seal(spool: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Seal a spool by the command."""
    return subprocess.run(
        [PYTHON, "-m", "capture", "seal", spool, "-o", folder],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@contextmanager
def recording(folder: Path, *words: object) -> Iterator[Recorder]:
    """Yield a recorder that has begun; whatever ends it, the kernel keeps nothing."""
    command = [PYTHON, "-m", "capture", "record", "-o", folder, *words]
    process = subprocess.Popen(
        [str(word) for word in command],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            recorder = Recorder(process)
            recorder.wait_for("recording (PID")
            held = kernel_objects(process.pid)
            yield recorder
        finally:
            process.kill()
    assert left_behind(held) == set()


class Bundle:
    """The one bundle of a folder."""

    def __init__(self, folder: Path) -> None:
        (self.path,) = folder.glob("*.bundle")
        with ZipFile(self.path) as archive:
            self.names = archive.namelist()
            self.manifest: dict[str, Any] = json.loads(archive.read("manifest.json"))
            self.facts = {
                name[6:-6]: [json.loads(row) for row in archive.read(name).splitlines()]
                for name in self.names
                if name.startswith("facts/")
            }
        self._columns = np.load(self.path)

    def column(self, stream: str, name: str) -> np.ndarray[Any, Any]:
        """Return a column, all chunks of it."""
        start, end = f"events/{stream}/", f"/{name}.npy"
        members = [n for n in self.names if n.startswith(start) and n.endswith(end)]
        parts = [self._columns[member.removesuffix(".npy")] for member in members]
        return np.concatenate(parts)

    def close(self) -> None:
        """Close the file."""
        self._columns.close()


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def spool_has(folder: Path, kind: str) -> bool:
    """Tell whether a spool that is still being written has a frame of a kind."""
    (spool,) = folder.glob("*.spool")
    code = json.loads((spool / "header.json").read_bytes())["kinds"][kind]
    return b"CTF1" + code.to_bytes(2, "little") in frames(folder)


def spooled(folder: Path, stream: str) -> int:
    """Return how many records of a stream stand in a spool that is still written."""
    (spool,) = folder.glob("*.spool")
    code = json.loads((spool / "header.json").read_bytes())["kinds"][f"events/{stream}"]
    data, at, count = frames(folder), 0, 0
    while at + 24 <= len(data):
        _, kind, _, records, length = struct.unpack_from("<4sHHII", data, at)
        count += records if kind == code else 0
        at += 24 + length
    return count


def frames(folder: Path) -> bytes:
    (spool,) = folder.glob("*.spool")
    return (spool / "frames.bin").read_bytes()


_KEPT = {b"prog_id:": 13, b"map_id:": 14, b"link_id:": 30}
"""Word of /proc/PID/fdinfo, and the command that opens what has such a number."""
_NR_BPF = 321 if os.uname().machine == "x86_64" else 280
_libc = ctypes.CDLL(None, use_errno=True)


def kernel_objects(pid: int) -> set[tuple[bytes, int]]:
    """Return the programs, maps and links that a process holds, by their numbers.

    Other recorders may run on this host, so what is left behind cannot be told by
    counting everything before and after.
    """
    found: set[tuple[bytes, int]] = set()
    for path in Path(f"/proc/{pid}/fdinfo").iterdir():
        try:
            words = path.read_bytes().split()
        except FileNotFoundError:
            continue
        found |= {
            (word, int(words[words.index(word) + 1])) for word in _KEPT if word in words
        }
    return found


def left_behind(objects: set[tuple[bytes, int]]) -> set[tuple[bytes, int]]:
    """Return those that the kernel still has; it frees them a moment after the end."""
    deadline = time.monotonic() + 10
    while (left := {one for one in objects if _exists(*one)}) and (
        time.monotonic() < deadline
    ):
        time.sleep(0.05)
    return left


def _exists(word: bytes, number: int) -> bool:
    attribute = ctypes.create_string_buffer(struct.pack("<I", number), 128)
    fd = _libc.syscall(_NR_BPF, _KEPT[word], ctypes.byref(attribute), 128)
    if fd >= 0:
        os.close(fd)
    return fd >= 0


def changed_bytes(pid: int, library: Path) -> int:
    """Return how many bytes of a library's code in a process are not the file's."""
    code = library.read_bytes()
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        span, mode, offset, *_, path = line.split(maxsplit=5)
        if mode[2] != "x" or path != str(library):
            continue
        start, end = (int(part, 16) for part in span.split("-"))
        with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
            memory.seek(start)
            mapped = memory.read(end - start)
        file = code[int(offset, 16) :][: len(mapped)]
        return sum(a != b for a, b in zip(mapped, file, strict=False))
    raise AssertionError(f"{pid} does not map {library}")
