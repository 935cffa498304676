"""The two processes of a measurement: a workload on command, and the recorder."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

READY = "recording (PID"


class Workload:
    """A workload in a process of its own; see :mod:`tests.gpu.workloads`."""

    def __init__(self, name: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.gpu.workloads", name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid
        self._answer()

    def ask(self, command: str, count: int) -> dict[str, Any]:
        """Return the answer to one command."""
        assert self._process.stdin is not None
        print(command, count, file=self._process.stdin, flush=True)
        return self._answer()

    def close(self) -> None:
        """Let the process end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the workload ended with {self._process.wait()}")
        return json.loads(line)


@contextmanager
def workload(name: str) -> Iterator[Workload]:
    """Give a running workload, and end it."""
    running = Workload(name)
    try:
        yield running
    finally:
        running.close()


@contextmanager
def recording(
    recorder: Sequence[str], pid: int, out: Path, *options: str
) -> Iterator[None]:
    """Record a process while the body runs; the bundle lies in `out` afterwards."""
    command = [*recorder, "record", "--pid", str(pid), "-o", str(out), *options]
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        for line in process.stderr:
            said.write(line)
            if READY in line:
                break
        else:
            said.seek(0)
            raise RuntimeError(f"the recorder ended:\n{said.read()}")
        try:
            yield
        finally:
            process.send_signal(signal.SIGINT)
            rest = process.stderr.read()
            if process.wait() != 0:
                raise RuntimeError(f"the recorder failed:\n{rest}")
