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

import workbench.analysis  # noqa: F401 - registers the models
from tests.offline.tripwire import Tripwire
from workbench.store.case import Case
from workbench.store.load import load_bundles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
def wire() -> Iterator[Tripwire | None]:
    """Fail the session if anything but loopback was tried; None where nobody looks."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        yield None
        return
    with Tripwire() as wire:
        yield wire
    assert wire.attempts == [], f"left loopback: {sorted(set(wire.attempts))}"


@pytest.fixture(scope="session")
def sample_case(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function that gives a sample's case, loaded once a session.

    Whoever asks opens it for reading.
    """
    folder = tmp_path_factory.mktemp("samples")

    def loaded(name: str) -> Path:
        path = folder / f"{name}.duckdb"
        if not path.exists():
            with Case.create(path) as case:
                load_bundles(case, sorted((ROOT / "samples" / name).glob("*.bundle")))
        return path

    return loaded


@pytest.fixture(scope="session")
def root() -> Path:
    """Return the top folder of the checkout."""
    return ROOT
