"""The loader of a recording without eBPF: it brings nothing into the kernel.

Facts, ranks, libraries and clock readings come from /proc and are recorded as ever; new
targets are found by the polls alone, for no tracepoint tells of them.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from capture import rights

if TYPE_CHECKING:
    from collections.abc import Sequence

    from capture.loaders import AttachResult, LoaderSettings, ProbeCounter
    from capture.loaders.run_time import ProgramRuns
    from capture.probes import ProbeSite
    from capture.ring import Ring

_CONFIDENTIALITY = "confidentiality"


class AbsentLoader:
    """No program, no probe, no ring, no record."""

    name = "none"

    def __init__(self) -> None:
        self.detail = "no event stream was asked for"
        self.missing_columns: dict[str, dict[str, str]] = {}

    def load(self, settings: LoaderSettings) -> None:
        """Load nothing."""

    def attach(self, sites: Sequence[ProbeSite]) -> list[AttachResult]:  # noqa: ARG002
        """Attach nothing."""
        return []

    def attach_tracepoints(self) -> list[AttachResult]:
        """Attach nothing."""
        return []

    def add_target(self, pid: int) -> None:
        """Nothing in the kernel has to know."""

    def remove_target(self, pid: int) -> None:
        """Nothing in the kernel has to know."""

    def set_world(self, pid: int, address: int) -> dict[str, object] | None:
        """Nothing in the kernel has to know."""

    def rings(self) -> dict[str, Ring]:
        """Return no ring."""
        return {}

    def in_flight(self, older_than_ns: int) -> dict[str, bytes]:  # noqa: ARG002
        """Return no record."""
        return {}

    def last_totals(self) -> bytes:
        """Return no totals."""
        return b""

    def probe_counters(self) -> list[ProbeCounter]:
        """Return no counter."""
        return []

    def mute(self, part: str) -> int:  # noqa: ARG002
        """Mute no probe."""
        return 0

    def set_off_cpu_min(self, off_cpu_min_ns: int) -> None:
        """Nothing in the kernel has to know."""

    def program_runs(self) -> dict[str, ProgramRuns]:
        """Return no program."""
        return {}

    def count_run_time(self) -> int:
        """Refuse: nothing runs.

        Raises
        ------
        OSError
            Always.
        """
        raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))

    def quiesce(self) -> None:
        """Stop nothing."""

    def close(self) -> None:
        """Let go of nothing."""


def why_absent(asked: Sequence[str], known: Sequence[str]) -> dict[str, str]:
    """Return why each known stream that is not asked for is not recorded."""
    reason = "not asked for (--streams)" if asked else _without_any()
    return {name: reason for name in known if name not in asked}


def _without_any() -> str:
    """Return why there is no stream at all, with what may have led to that choice."""
    missing = sorted({"CAP_BPF", "CAP_PERFMON"} - rights.effective())
    circumstances: list[str] = []
    if missing:
        circumstances.append(f"the recorder had no {' and no '.join(missing)}")
    if rights.lockdown() == _CONFIDENTIALITY:
        circumstances.append("the kernel is locked down (confidentiality)")
    return "; ".join(["recorded without eBPF (--streams none)", *circumstances])
