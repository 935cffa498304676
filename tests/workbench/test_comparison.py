"""The statistics of a comparison: few false alarms, true slowdowns found, doubt said.

Series are simulated as the design tried them: steps of 300 ms with 2 % of noise that
is correlated by 0.5 from one step to the next, and runs that differ by 0.5 % for no
reason.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

import numpy as np
import pytest

from workbench.analysis.comparison import student
from workbench.analysis.comparison.change import change, correlation_steps, holm
from workbench.analysis.comparison.outcome import Comparison, compare, frame_of, verdict
from workbench.analysis.comparison.settings import drift
from workbench.analysis.comparison.sides import OWN, STEP, Run
from workbench.commands.compare_text import report

if TYPE_CHECKING:
    from numpy.typing import NDArray

STEP_NS = 300e6


def steps_of(
    random: np.random.Generator,
    count: int,
    *,
    slower: float = 0.0,
    run_effect: float = 0.005,
    noise: float = 0.02,
    correlation: float = 0.5,
) -> NDArray[np.float64]:
    """Return the steps of one run."""
    fresh = random.normal(size=count) * math.sqrt(1 - correlation**2)
    error = np.empty(count)
    error[0] = random.normal()
    for at in range(1, count):
        error[at] = correlation * error[at - 1] + fresh[at]
    run = 1 + run_effect * random.normal()
    return STEP_NS * (1 + slower) * run * (1 + noise * error)


def run_of(
    step: NDArray[np.float64],
    *,
    host_own: dict[str, NDArray[np.float64]] | None = None,
    settings: dict[tuple[str, str], frozenset[str]] | None = None,
    **classes: NDArray[np.float64],
) -> Run:
    """Return a run with these steps, classes and own times of hosts."""
    series = {(None, *STEP): step, (None, *OWN): step}
    series[None, "time", "wait"] = np.zeros(len(step))
    series |= {(None, "class", name): values for name, values in classes.items()}
    series |= {(host, *OWN): values for host, values in (host_own or {}).items()}
    return Run(
        name="run",
        job_id="job",
        other_jobs=(),
        hosts=tuple(host_own or ()),
        rank_count=1,
        left_out_count=0,
        series=series,
        settings=settings or {},
    )


def compared(
    base: list[NDArray[np.float64]],
    case: list[NDArray[np.float64]],
) -> Comparison:
    """Return the comparison of runs that have nothing but steps."""
    return compare([run_of(each) for each in base], [run_of(each) for each in case])


def alarms(count: int, *, steps: int, slower: float, runs: int = 1) -> int:
    """Return how often the gate fails over many pairs."""
    random = np.random.default_rng(2026)

    def side(slower: float) -> list[NDArray[np.float64]]:
        return [steps_of(random, steps, slower=slower) for _ in range(runs)]

    return sum(compared(side(0.0), side(slower)).gate == "failed" for _ in range(count))


@pytest.mark.parametrize(("steps", "runs"), [(50, 1), (300, 1), (50, 3)])
def test_fifty_equal_pairs_alarm_at_most_twice(steps: int, runs: int) -> None:
    found = alarms(50, steps=steps, slower=0.0, runs=runs)

    print(f"{found} false alarms of 50, {steps} steps, {runs} runs a side")  # noqa: T201
    assert found <= 2


@pytest.mark.parametrize(("steps", "runs", "least"), [(300, 1, 45), (300, 5, 48)])
def test_a_slowdown_of_five_percent_is_caught(
    steps: int, runs: int, least: int
) -> None:
    assert alarms(50, steps=steps, slower=0.05, runs=runs) >= least


def test_a_test_on_single_steps_would_alarm_on_a_third_of_equal_pairs() -> None:
    random = np.random.default_rng(7)
    pairs = [
        change(
            [steps_of(random, 300, correlation=0.0)],
            [steps_of(random, 300, correlation=0.0)],
        )
        for _ in range(50)
    ]

    small = sum(pair.p_value is not None and pair.p_value < 0.05 for pair in pairs)
    assert small > 16  # which is why p-values never gate alone


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.8])
def test_the_interval_holds_the_truth_about_as_often_as_it_says(
    correlation: float,
) -> None:
    random = np.random.default_rng(1)
    held = 0
    for _ in range(200):
        first, second = (
            steps_of(
                random, 400, slower=slower, run_effect=0.0, correlation=correlation
            )
            for slower in (0.0, 0.02)
        )
        low, high = change([first], [second]).ratio_interval() or (math.nan, math.nan)
        held += low <= 0.02 <= high
    assert held >= 180  # 95 % of 200 are 190; correlated series come a little short


def test_blocks_are_as_long_as_the_correlation_asks() -> None:
    random = np.random.default_rng(3)
    free = steps_of(random, 4_000, correlation=0.0)
    tied = steps_of(random, 4_000, correlation=0.9)

    assert correlation_steps(free) == pytest.approx(1, abs=0.2)
    assert correlation_steps(tied) == pytest.approx(19, rel=0.4)  # (1 + r) / (1 - r)
    found = change([free], [tied])
    assert found.base.block_steps is not None
    assert found.case.block_steps is not None
    assert found.base.block_steps <= 3
    assert found.case.block_steps > 20


def test_steps_that_drift_through_the_whole_run_are_said_to_be_too_few() -> None:
    random = np.random.default_rng(4)
    drift = np.linspace(0.9, 1.1, 60) * STEP_NS
    steady = steps_of(random, 60, correlation=0.0)

    found = change([steady], [drift])
    assert found.case.is_short
    assert found.case.unit_count == 4
    assert not found.base.is_short


def test_three_runs_a_side_make_the_unit_a_run() -> None:
    random = np.random.default_rng(5)
    base = [steps_of(random, 40, run_effect=0.05) for _ in range(3)]
    case = [steps_of(random, 40, run_effect=0.05) for _ in range(4)]

    found = change(base, case)
    assert (found.base.unit_count, found.case.unit_count) == (3, 4)
    assert found.base.block_steps is None
    assert found.base.mean == pytest.approx(np.mean([run.mean() for run in base]))
    assert change(base[:2], case).base.block_steps is not None


def test_welch_on_units_is_what_the_textbook_formula_gives() -> None:
    base, case = np.array([10.0, 12, 11, 13]), np.array([14.0, 13, 16, 15, 17])
    found = change(
        [np.full(9, value) for value in base], [np.full(9, value) for value in case]
    )

    variances = base.var(ddof=1) / 4, case.var(ddof=1) / 5
    assert found.standard_error == pytest.approx(math.sqrt(sum(variances)))
    freedom = sum(variances) ** 2 / (variances[0] ** 2 / 3 + variances[1] ** 2 / 4)
    assert found.freedom == pytest.approx(freedom)
    assert found.difference == pytest.approx(3.5)
    t = found.difference / math.sqrt(sum(variances))
    assert found.p_value == pytest.approx(student.two_sided(t, freedom))


def test_too_few_steps_give_no_interval_and_no_verdict() -> None:
    few = np.full(3, STEP_NS)
    comparison = compared([few], [few * 2])

    assert comparison.gate == "not_decidable"
    assert comparison.detectable is None
    assert verdict(comparison.decisive, 0.03) == "not_decidable"
    row = frame_of(comparison).row(0, named=True)
    assert row["p_value"] is None
    assert row["change_low_ns"] is None


def test_what_could_have_been_seen_is_caught_about_as_often_as_it_says() -> None:
    random = np.random.default_rng(6)
    seen = compared(
        [steps_of(random, 20, run_effect=0.0, correlation=0.0)],
        [steps_of(random, 20, run_effect=0.0, correlation=0.0)],
    ).detectable
    assert seen is not None
    assert 0.04 < seen < 0.07

    caught = sum(
        compared(
            [steps_of(random, 20, run_effect=0.0, correlation=0.0)],
            [steps_of(random, 20, slower=seen, run_effect=0.0, correlation=0.0)],
        ).gate
        == "failed"
        for _ in range(100)
    )
    assert 65 <= caught <= 95


def test_few_steps_say_first_what_could_have_been_seen() -> None:
    random = np.random.default_rng(10)
    few, many = steps_of(random, 19), steps_of(random, 200)

    facts = [line.strip() for line in report(compared([many], [few]))]
    first = next(line for line in facts if not line.startswith(("the gate", "run")))
    assert re.fullmatch(
        r"could have seen  \+[\d.]+ % or more: only 19 steps a side", first
    )
    later = "\n".join(report(compared([many], [many])))
    assert "or more, four times out of five" in later


def test_constant_series_differ_or_do_not() -> None:
    same, other = np.full(8, 10.0), np.full(8, 11.0)

    assert change([same], [same]).p_value == 1
    found = change([same], [other])
    assert found.p_value == 0
    assert found.interval() == (1.0, 1.0)
    assert found.effect_size is None


def test_a_part_that_the_base_never_had_has_no_ratio_of_its_own() -> None:
    random = np.random.default_rng(8)
    step = steps_of(random, 100)
    base, case = run_of(step), run_of(step * 1.1, disk=step * 0.1)

    part = next(p for p in compare([base], [case]).parts if p.part == "disk")
    assert part.ratio is None
    assert part.share == pytest.approx(0.1, rel=0.01)
    assert verdict(part, 0.03) == "slower"
    assert verdict(part, 0.3) == "same"


def test_a_host_that_the_base_lacks_is_compared_with_all_of_it() -> None:
    random = np.random.default_rng(9)
    step = steps_of(random, 100)
    base = run_of(step, host_own={"a": step})
    case = run_of(step, host_own={"a": step, "b": step * 1.2})

    own = {p.host: p for p in compare([base], [case]).parts if p.key == OWN}
    assert not own["a"].is_against_all
    assert own["b"].is_against_all
    assert own["b"].share == pytest.approx(0.2)


def test_settings_that_differ_between_two_sides_are_told_whatever_the_hosts_are() -> (
    None
):
    step = np.full(8, STEP_NS)
    nccl, smt = ("library", "libnccl.so.2"), ("cpu", "smt")
    slot = ("gpu", "pcie.0000:17:00.0")
    base = run_of(step, settings={nccl: frozenset("a"), smt: frozenset("1")})
    case = run_of(
        step,
        settings={
            nccl: frozenset("ab"),
            smt: frozenset("1"),
            slot: frozenset("x"),
            ("clock", "clock_source"): frozenset(["hpet"]),
        },
    )

    assert drift([base], [case]).rows() == [
        ("clock", "clock_source", [], ["hpet"]),
        (*nccl, ["a"], ["a", "b"]),
    ]
    assert drift([case], [case]).is_empty()


def test_holm_corrects_for_the_number_of_tests_and_keeps_the_order() -> None:
    assert holm([0.01, None, 0.04, 0.03]) == [0.03, None, 0.06, 0.06]
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []
