"""Claim: a recording that costs too much gives up one named thing at a time, in order.

What it costs is made up here; test_faults_budget has a real flood.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, cast

import pytest

from capture import budget
from capture.budget import Budget
from capture.errors import CaptureError
from capture.options import parse_percent

if TYPE_CHECKING:
    from capture.loaders import Loader

US, MS, S = 1_000, 1_000_000, 1_000_000_000
TWO_PERCENT = 20_000


class Kernel:
    """Notes what is thinned, and has so many probes of each part."""

    def __init__(self, **probes: int) -> None:
        self.probes = probes
        self.thresholds: list[int] = []

    def mute(self, part: str) -> int:
        """Return how many probes there were, and have them no more."""
        return self.probes.pop(part, 0)

    def set_off_cpu_min(self, off_cpu_min_ns: int) -> None:
        """Note a threshold."""
        self.thresholds.append(off_cpu_min_ns)


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let three seconds pass with each look, and a tenth of that on the processor."""
    times = itertools.count(0, 3 * S)
    monkeypatch.setattr(budget.time, "monotonic_ns", lambda: next(times))
    monkeypatch.setattr(budget.time, "process_time_ns", lambda: 0)


def steps(kept: Budget, share: float, looks: int) -> list[str]:
    """Return the steps of so many looks at a share of programs."""
    rows: list[dict[str, Any] | None] = [kept.look(share) for _ in range(looks)]
    return [row["step"] for row in rows if row is not None]


def made(kernel: Kernel, off_cpu_min_ns: int | None = 100 * US) -> Budget:
    return Budget(TWO_PERCENT, cast("Loader", kernel), off_cpu_min_ns)


def test_each_thing_is_given_up_in_its_turn_and_then_it_stops() -> None:
    kernel = Kernel(query=4, launch=2)
    kept = made(kernel)

    taken = steps(kept, 0.03, 5)

    assert taken == [step.name for step in budget.STEPS]
    assert kernel.thresholds == [MS, 2**63 - 1]
    assert kept.muted_parts == {"query", "launch"}
    assert kept.is_spent


def test_within_the_budget_nothing_is_given_up() -> None:
    kernel = Kernel(query=4)

    assert steps(made(kernel), 0.02, 3) == []
    assert kernel.probes == {"query": 4}


def test_what_is_not_recorded_cannot_be_given_up() -> None:
    assert steps(made(Kernel(), None), 1.0, 1) == ["stop"]
    assert steps(made(Kernel(), 5 * MS), 1.0, 2) == ["off_cpu_totals", "stop"]


def test_a_part_that_is_found_later_is_given_up_later() -> None:
    kernel = Kernel()
    kept = made(kernel)

    before = steps(kept, 0.03, 1)
    kernel.probes["launch"] = 1

    assert before == ["off_cpu_min_1ms"]
    assert steps(kept, 0.03, 2) == ["gpu_launches_off", "off_cpu_totals"]


def test_a_step_says_what_was_measured_and_what_is_gone() -> None:
    row = made(Kernel()).look(0.0312)

    assert row is not None
    assert (row["share_ppm"], row["budget_ppm"]) == (31_200, TWO_PERCENT)
    assert (row["stream"], row["effect"]) == (
        "off_cpu",
        "absences below 1 ms are only added up",
    )


@pytest.mark.parametrize(("text", "ppm"), [("2", 20_000), ("0.5%", 5_000)])
def test_a_budget_is_a_percentage(text: str, ppm: int) -> None:
    assert parse_percent(text) == ppm


@pytest.mark.parametrize("text", ["0", "-1", "much", ""])
def test_a_budget_of_nothing_is_refused(text: str) -> None:
    with pytest.raises(CaptureError, match="not a percentage above zero"):
        parse_percent(text)
