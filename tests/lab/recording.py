"""Record a host of the lab as its administrator would: from inside, by the command.

The recorder sees the host through its namespaces alone; it is told the cgroup of the
job and nothing of the lab.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.lab.namespaces import FIRST

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.lab.namespaces import Lab, LabHost

ROOT = Path(__file__).resolve().parent.parent.parent
# BCC's binding belongs to the distribution's Python, and the core loader needs none.
PYTHON = "/usr/bin/python3"
_START_S = 60.0
_STOP_S = 60.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Recorder:
    """A running recorder of one host."""

    host: LabHost
    out_dir: Path
    process: subprocess.Popen[bytes]
    said: bytearray

    def wait_until_recording(self) -> None:
        """Wait for the line that says that all probes are attached.

        Raises
        ------
        RuntimeError
            If the recorder ends or stays silent instead; it says what it printed.
        """
        deadline = time.monotonic() + _START_S
        while b"recording" not in self.said:
            if not self._hear(deadline):
                raise RuntimeError(f"{self.host.name}: no recording: {self.words()}")

    def stop(self) -> Path:
        """Stop the recording and return the bundle.

        Raises
        ------
        RuntimeError
            If the recorder fails, or does not end in time.
        """
        self.process.send_signal(signal.SIGINT)
        deadline = time.monotonic() + _STOP_S
        while self._hear(deadline):
            pass
        code = self._reap()
        bundles = list(self.out_dir.glob("*.bundle"))
        if code or len(bundles) != 1:
            raise RuntimeError(f"{self.host.name}: exit {code}: {self.words()}")
        return bundles[0]

    def kill(self) -> None:
        """End the recorder at once, if it is there."""
        self.process.kill()
        self.process.wait()
        assert self.process.stderr is not None
        self.process.stderr.close()

    def words(self) -> str:
        """Return what the recorder has printed."""
        return self.said.decode(errors="replace")

    def _hear(self, deadline: float) -> bool:
        assert self.process.stderr is not None
        left = max(0.0, deadline - time.monotonic())
        if not select.select([self.process.stderr], [], [], left)[0]:
            return False
        heard = os.read(self.process.stderr.fileno(), 1 << 16)
        self.said.extend(heard)
        return bool(heard)

    def _reap(self) -> int:
        try:
            return self.process.wait(timeout=5)
        except subprocess.TimeoutExpired as error:
            self.kill()
            raise RuntimeError(f"{self.host.name}: no end: {self.words()}") from error


@contextlib.contextmanager
def recorders(
    lab: Lab, out_dir: Path, *, words: Sequence[str] = ()
) -> Iterator[tuple[Recorder, ...]]:
    """Give one recorder a host, each recording when the block begins.

    None of them outlives the block.
    """
    started: list[Recorder] = []
    try:
        started.extend(
            start_recorder(host, out_dir / host.name, words) for host in lab.hosts
        )
        for each in started:
            each.wait_until_recording()
        yield tuple(started)
    finally:
        for each in started:
            each.kill()


def start_recorder(host: LabHost, out_dir: Path, words: Sequence[str]) -> Recorder:
    """Start the recorder of one host; whoever asks for it also ends it."""
    out_dir.mkdir(parents=True)
    command = [PYTHON, "-m", "capture", "record", "-o", out_dir]
    process = subprocess.Popen(
        [*FIRST, *host.words([*command, "--cgroup", host.cgroup, *words], cwd=ROOT)],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    return Recorder(host=host, out_dir=out_dir, process=process, said=bytearray())
