"""Recorders that come late are matched by the one shift that is possible, or not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.builders import SECOND, case
from tests.workbench.made_jobs import MILLISECOND, loaded_job, work_of
from tests.workbench.simulated_clocks import SimulatedJob, simulated_job
from workbench.analysis.shift_search import Calls, WallLimit, line_exists, search

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from workbench.store.case import Case

STEPS = 100
LATER = 20
"""Steps of 150 ms in the 3 s between the two recorders."""

OFFSET_NS = 7_000 * SECOND
TWO_HOSTS = {"a": [0, 1], "b": [2, 3]}
SYNCHRONISED = 0


def stated(error_ms: int) -> dict[str, Any]:
    """Return options of a host whose time service states a maximum error."""

    def reading(row: dict[str, Any]) -> dict[str, Any]:
        error = {"adjtime_status": SYNCHRONISED, "adjtime_maxerror_us": error_ms * 1000}
        return row | error

    return {"reading": reading}


def running_job(folder: Path, *, late_ns: int = 0, error_ms: int | None = None) -> Case:
    """Return a job recorded from step 5 on host a and 3 s later on host b."""
    work = work_of(4, STEPS, step_ns=150 * MILLISECOND)
    work[:, 2] += late_ns
    wall = {} if error_ms is None else stated(error_ms)
    return loaded_job(
        folder,
        work,
        hosts=TWO_HOSTS,
        clocks={"a": wall, "b": wall | {"offset_ns": OFFSET_NS, "rate": 20e-6}},
        seen_from={"a": 5, "b": 5 + LATER},
    )


@pytest.fixture(scope="module")
def late(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
    with running_job(tmp_path_factory.mktemp("late")) as made:
        yield made


def attached(made: Case) -> list[tuple[Any, ...]]:
    return made.frame(
        "select rank, state, shift from model.late_attach order by rank"
    ).rows()


def test_recorders_three_seconds_apart_are_matched_by_the_only_shift(
    late: Case,
) -> None:
    assert attached(late) == [
        (0, "base", 0),
        (1, "base", 0),
        (2, "shift proved", LATER),
        (3, "shift proved", LATER),
    ]


def test_the_offset_lies_inside_the_band_of_late_recorders(late: Case) -> None:
    found = late.frame("select * from model.clock_summary where host_name = 'b'").row(
        0, named=True
    )

    for place, own in (("start", found["from_ns"]), ("end", found["to_ns"])):
        true_offset = (own - OFFSET_NS) / (1 + 20e-6) - own
        off = found[f"offset_{place}_ns"] - true_offset
        assert abs(off) <= found[f"error_{place}_ns"] < MILLISECOND
    assert found["state"] == "proved"


def test_rendezvous_of_late_recorders_are_whole(late: Case) -> None:
    found = late.frame(
        "select is_complete, host_count, count(*) from rendezvous group by all"
        " order by all"
    )

    assert found.rows() == [(False, 1, LATER), (True, 2, STEPS - 5 - LATER)]


def test_a_constant_straggler_without_stated_wall_clocks_is_not_matched(
    tmp_path: Path,
) -> None:
    with running_job(tmp_path, late_ns=50 * MILLISECOND) as made:
        states = attached(made)
        clocks = made.frame("select state from model.clock_summary")
        reasons = made.frame("select reason from model.late_attach where rank = 2")
        told = made.frame(
            "select verdict, unnest(not_checked) as told from finding"
            " where finding = 'finding_straggler'"
        )

    assert {row[0] for row in told.rows() if "order nothing" in row[1]} == {
        "not_decidable"
    }
    assert "found" not in told["verdict"].to_list()
    assert [row[2] for row in states] == [None] * 4
    assert states[2][1] == "several shifts"
    assert clocks["state"].to_list() == ["alone", "alone"]
    assert "order nothing between the hosts" in reasons["reason"][0]


def test_a_constant_straggler_is_matched_where_wall_clocks_leave_one_shift(
    tmp_path: Path,
) -> None:
    with running_job(tmp_path, late_ns=50 * MILLISECOND, error_ms=20) as made:
        states = attached(made)
        reasons = made.frame("select reason from model.late_attach where rank = 2")

    assert states[2] == (2, "shift proved", LATER)
    assert reasons["reason"][0].startswith("the only one that wall clocks right to")
    assert reasons["reason"][0].endswith("as the hosts state")


def test_enqueue_only_calls_at_a_steady_pace_are_not_matched(tmp_path: Path) -> None:
    made = case().communicator("world", kind="nccl", is_base_known=False)
    for name, rank, first in (("a", 0, 0), ("b", 1, 20)):
        thread = made.host(name).rank(rank)
        for step in range(first, 80):
            begin = SECOND + step * 150 * MILLISECOND + rank * 10_000
            thread.collective(
                start_ns=begin, duration_ns=5_000, is_base_known=False, stream_handle=7
            )
            thread.gpu_call(
                "stream_sync",
                start_ns=begin + MILLISECOND,
                duration_ns=145 * MILLISECOND,
                stream_handle=7,
            )

    with made.build(tmp_path) as built:
        states = attached(built)
        proofs = built.frame("select distinct completion_proof from collective_span")

    assert [row[1:] for row in states] == [
        ("not matched", None),
        ("several shifts", None),
    ]
    assert proofs["completion_proof"].to_list() == ["stream_sync"]


def calls_of(
    job: SimulatedJob, host: int, begin: int, end: int, *, period: int = 1
) -> Calls:
    count = end - begin
    return Calls(
        first=0,
        kind=np.arange(begin, end) % period,
        arrival_ns=job.own(host, job.arrival[host, begin:end]),
        completion_ns=job.own(host, job.completion[host, begin:end]),
        has_both=np.ones(count, dtype=bool),
    )


@pytest.mark.parametrize("jitter", [1e-3, 1e-4])
@pytest.mark.parametrize("gap", [0, 10, 25])
@pytest.mark.parametrize("seed", range(3))
def test_the_true_shift_is_the_only_one_left(
    jitter: float, gap: int, seed: int
) -> None:
    job = simulated_job(2, 300, jitter=jitter, wander_ppm=1.0, seed=seed)

    found = search(calls_of(job, 0, 0, 300 - gap), calls_of(job, 1, gap, 300), None)

    assert (found.state, found.shift) == ("shift proved", gap)
    assert found.call_count == 300 - 2 * gap


@pytest.mark.parametrize("late", [0.0, 0.002, 0.005, 0.05])
@pytest.mark.parametrize("jitter", [1e-3, 1e-4, 3e-5, 1e-5])
@pytest.mark.parametrize("count", [35, 60])
def test_no_wrong_shift_is_ever_claimed(late: float, jitter: float, count: int) -> None:
    claimed = set()
    for seed in range(5):
        job = simulated_job(
            2, count + 20, jitter=jitter, late=lambda _: {1: late}, seed=seed
        )
        one, two = calls_of(job, 0, 0, count), calls_of(job, 1, 20, count + 20)
        claimed.add(search(one, two, None).shift)

    assert claimed <= {20, None}


def test_few_common_calls_prove_no_shift() -> None:
    job = simulated_job(2, 60)

    found = search(calls_of(job, 0, 0, 35), calls_of(job, 1, 25, 60), None)

    assert found.shift is None


def test_operations_that_differ_refute_a_shift_and_a_period_leaves_rivals() -> None:
    steady = simulated_job(2, 80, jitter=1e-5, late=lambda _: {1: 0.1})

    once = search(
        calls_of(steady, 0, 0, 60, period=1000),
        calls_of(steady, 1, 20, 80, period=1000),
        None,
    )
    again = search(
        calls_of(steady, 0, 0, 45, period=10),
        calls_of(steady, 1, 10, 55, period=10),
        None,
    )

    assert (once.state, once.shift) == ("shift proved", 20)
    assert again.shift is None


def test_processes_of_one_host_share_a_clock_and_need_few_calls() -> None:
    job = simulated_job(2, 10)
    one = calls_of(job, 0, 0, 6)
    same = SimulatedJob(
        arrival=job.arrival[[0, 1]],
        completion=job.completion[[0, 1]],
        offset_ns=(job.offset_ns[0],) * 2,
        rate=job.rate[[0, 0]],
        wander=job.wander[[0, 0]],
        period=job.period,
        phase=job.phase[[0, 0]],
    )

    found = search(one, calls_of(same, 1, 2, 10), WallLimit(low_ns=0, high_ns=0))

    assert (found.state, found.shift) == ("shift proved", 2)


def test_a_call_that_never_returned_leaves_no_shift_open() -> None:
    job = simulated_job(2, 60)
    one, two = calls_of(job, 0, 0, 50), calls_of(job, 1, 8, 60)
    one.has_both[-1] = two.has_both[0] = False
    none = replace(one, has_both=np.zeros(50, dtype=bool))

    assert search(one, two, None).shift == 8
    assert search(none, two, None).state == "too few calls"


def test_a_line_is_found_exactly_where_one_exists() -> None:
    random = np.random.default_rng(3)
    time = np.sort(random.uniform(-1e9, 1e9, (400, 20)), axis=1)
    middle = random.uniform(-300, 300, (400, 20))
    width = random.uniform(100, 1_000, (400, 1))
    low, high = middle - width, middle + width

    rates = np.linspace(-1e-3, 1e-3, 400_001)[::40]
    brute = np.array(
        [
            np.min(
                (under[:, None] - at[:, None] * rates).max(axis=0)
                + (at[:, None] * rates - over[:, None]).max(axis=0)
            )
            for under, over, at in zip(low, high, time, strict=True)
        ]
    )

    # Where the brute force is near zero its grid of rates may miss the line.
    is_clear = np.abs(brute) > 100
    assert 20 < (brute[is_clear] <= 0).sum() < is_clear.sum() - 20
    assert (line_exists(low, high, time) == (brute <= 0))[is_clear].all()
