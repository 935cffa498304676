"""Keeps a recording within a share of one CPU, by giving things up in a fixed order.

Measured is the recorder's own processor time, and the run time of its programs where
the kernel tells it.  When that was too much on the average of three seconds, the next
step is taken, and the recording says when, why and what it has lost.  Steps are chosen
so that the format can say exactly what is missing from then on: a threshold with exact
totals, or a part of a stream that is no longer recorded at all.  Collectives are never
thinned: their numbers must have no holes.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from capture.loaders import Loader

_WINDOW_NS = 3_000_000_000
_NEVER_NS = (1 << 63) - 1
_COARSE_NS = 1_000_000

STOP = "stop"


@dataclass(frozen=True)
class Step:
    """One thing to give up, and what that costs whoever reads the bundle."""

    name: str
    stream: str | None
    effect: str


STEPS = (
    Step("off_cpu_min_1ms", "off_cpu", "absences below 1 ms are only added up"),
    Step("gpu_queries_off", "gpu_call", "queries of events and streams are left out"),
    Step("gpu_launches_off", "gpu_call", "launches are left out"),
    Step("off_cpu_totals", "off_cpu", "all absences are only added up"),
    Step(STOP, None, "the recording ends"),
)
_PARTS = {"gpu_queries_off": "query", "gpu_launches_off": "launch"}


class Budget:
    """What a recording may cost, and what it has given up so far.

    Parameters
    ----------
    limit_ppm
        Millionths of one CPU.
    loader
        What thins.
    off_cpu_min_ns
        Threshold of the recording, None where absences are not recorded.
    """

    def __init__(
        self, limit_ppm: int, loader: Loader, off_cpu_min_ns: int | None
    ) -> None:
        self.is_spent = False
        """Nothing is left to give up: the recording has to stop."""
        self.muted_parts: set[str] = set()
        """Parts that are not to be probed in libraries found later."""
        self._limit_ppm = limit_ppm
        self._loader = loader
        self._off_cpu_min_ns = off_cpu_min_ns
        self._left = list(STEPS)
        self.restart()

    def restart(self) -> None:
        """Begin to measure anew, because what was measured will not come again."""
        self._began_ns = time.monotonic_ns()
        self._began_cpu_ns = time.process_time_ns()

    def look(self, program_share: float) -> dict[str, Any] | None:
        """Take a step if the last seconds cost too much; return its row of facts.

        Parameters
        ----------
        program_share
            Run time of the programs, in CPUs.
        """
        now = time.monotonic_ns()
        width = now - self._began_ns
        if width < _WINDOW_NS:
            return None
        share = (time.process_time_ns() - self._began_cpu_ns) / width + program_share
        self.restart()
        share_ppm = round(share * 1e6)
        if share_ppm <= self._limit_ppm:
            return None
        step = self._take()
        return {
            "time_ns": now,
            "step": step.name,
            "stream": step.stream,
            "effect": step.effect,
            "share_ppm": share_ppm,
            "budget_ppm": self._limit_ppm,
        }

    def _take(self) -> Step:
        """Take the first step that changes anything."""
        for step in self._left:
            if self._apply(step):
                self._left.remove(step)
                return step
        raise AssertionError("the last step always applies")

    def _apply(self, step: Step) -> bool:
        """Do what a step says, and return whether there was anything to do."""
        if step.name == STOP:
            self.is_spent = True
            return True
        if step.name in _PARTS:
            part = _PARTS[step.name]
            if not self._loader.mute(part):
                return False
            self.muted_parts.add(part)
            return True
        threshold = _NEVER_NS if step.name == "off_cpu_totals" else _COARSE_NS
        if self._off_cpu_min_ns is None or self._off_cpu_min_ns >= threshold:
            return False
        self._off_cpu_min_ns = threshold
        self._loader.set_off_cpu_min(threshold)
        return True
