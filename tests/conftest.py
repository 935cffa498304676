"""The suite's own ground: the trip-wire around the whole session, and what is skipped.

Where pytest is root, everything runs in a network namespace in which only loopback
works and every other packet is recorded (tests/offline/tripwire.py); one packet fails
the run.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.offline.tripwire import Tripwire

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
BTF = Path("/sys/kernel/btf/vmlinux")


def _why_no_bpf() -> str | None:
    if os.geteuid() != 0:
        return "needs root"
    if not BTF.exists():
        return f"this kernel has no BTF ({BTF})"
    if not Path("/usr/bin/python3").exists():
        return "needs the distribution's own Python at /usr/bin/python3"
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip live tests, with the reason, where they cannot run."""
    reason = _why_no_bpf()
    if reason is None:
        return
    skip = pytest.mark.skip(reason=reason)
    for item in items:
        if "bpf" in item.keywords:
            item.add_marker(skip)


@pytest.fixture(scope="session", autouse=True)
def _wire() -> Iterator[None]:
    """Fail the session if anything but loopback was tried."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        yield
        return
    with Tripwire() as wire:
        yield
    assert wire.attempts == [], f"left loopback: {sorted(set(wire.attempts))}"


@pytest.fixture(scope="session")
def root() -> Path:
    """Return the top folder of the checkout."""
    return ROOT
