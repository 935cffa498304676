"""Steps follow from the smallest period of the calls, alike on every rank."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.analysis import step

MILLISECOND = 1_000_000


def calls_of(
    operations: list[str],
    *,
    ranks: int = 2,
    job_id: str = "job",
    communicator_id: str = "mpi:world:0",
    size: int | None = None,
    is_enqueue_only: bool = False,
    completes: bool = True,
    first_seq: int = 0,
) -> pl.DataFrame:
    """Return calls one millisecond apart that take half of one."""
    count = len(operations)
    number = np.tile(np.arange(count), ranks)
    arrival = (number + 1) * MILLISECOND + np.repeat(np.arange(ranks), count) * 1_000
    done = arrival + MILLISECOND // 2
    return pl.DataFrame(
        {
            "job_id": job_id,
            "rank": np.repeat(np.arange(ranks, dtype=np.int32), count),
            "host_id": np.repeat(np.arange(ranks, dtype=np.int32), count),
            "communicator_id": communicator_id,
            "communicator_size": np.int32(ranks if size is None else size),
            "collective_seq": number + first_seq,
            "operation": operations * ranks,
            "element_count": 10,
            "data_type": 7,
            "arrival_ns": arrival,
            "completion_ns": done if completes else [None] * len(number),
            "is_enqueue_only": is_enqueue_only,
            "is_base_known": True,
        },
        schema_overrides={"completion_ns": pl.Int64},
    )


def letters(text: str) -> np.ndarray:
    return np.array([ord(each) for each in text])


@pytest.mark.parametrize(
    ("text", "length", "starts"),
    [
        ("aaaaaa", 1, [0, 1, 2, 3, 4, 5]),
        ("abababab", 2, [0, 2, 4, 6]),
        ("xyaabaabaabaabz", 3, [2, 5, 8, 11]),
        ("aabaabaabQaabaab", 3, [0, 3, 6, 10, 13]),
    ],
)
def test_the_smallest_period_of_the_longest_repeat_is_found(
    text: str, length: int, starts: list[int]
) -> None:
    found = step.find_periods(letters(text))

    assert found.length == length
    assert found.starts.tolist() == starts


def test_many_equal_calls_before_one_other_are_one_step() -> None:
    found = step.find_periods(letters("aaaaaaaaab" * 6))

    assert found.length == 10
    assert len(found.starts) == 6
    assert found.confidence == 1.0


def test_calls_without_a_period_are_steps_of_their_own_with_low_confidence() -> None:
    found = step.find_periods(letters("abcdefghij"))

    assert found.length == 1
    assert len(found.starts) == 10
    assert found.confidence == step.UNFOUND_CONFIDENCE


@given(
    pattern=st.text("abc", min_size=1, max_size=6),
    repeats=st.integers(4, 12),
    before=st.text("xyz", max_size=3),
)
def test_a_planted_period_is_found_whatever_comes_before(
    pattern: str, repeats: int, before: str
) -> None:
    found = step.find_periods(letters(before + pattern * repeats))

    smallest = step.smallest_period(letters(pattern * repeats))
    assert found.length == smallest
    assert found.starts[0] == len(before)
    assert (np.diff(found.starts) == smallest).all()


def test_a_step_runs_from_one_marker_to_the_next_on_every_rank() -> None:
    steps = step.find_steps(calls_of(["all_reduce", "barrier"] * 5))

    rank0 = steps.filter(pl.col("rank") == 0)
    assert rank0["step"].to_list() == [1, 2, 3, 4]
    assert rank0["period_calls"].to_list() == [2] * 4
    assert rank0["start_ns"][0] == 2 * MILLISECOND + MILLISECOND // 2
    assert rank0["start_ns"][1:].to_list() == rank0["end_ns"][:-1].to_list()
    assert steps.filter(pl.col("rank") == 1)["step"].to_list() == [1, 2, 3, 4]


def test_a_rank_that_is_seen_late_has_the_same_numbers() -> None:
    calls = calls_of(["all_reduce"] * 10)
    late = calls.filter((pl.col("rank") == 0) | (pl.col("collective_seq") >= 6))

    steps = step.find_steps(late)

    assert steps.filter(pl.col("rank") == 1)["step"].to_list() == [7, 8, 9]


def test_a_lost_marker_costs_the_two_steps_that_it_bounds() -> None:
    calls = calls_of(["all_reduce"] * 10).filter(
        (pl.col("rank") == 0) | (pl.col("collective_seq") != 5)
    )

    steps = step.find_steps(calls)

    assert steps.filter(pl.col("rank") == 1)["step"].to_list() == [1, 2, 3, 4, 7, 8, 9]


def test_steps_come_from_the_widest_communicator() -> None:
    world = calls_of(["all_reduce"] * 4, ranks=4)
    pair = calls_of(["barrier"] * 40, ranks=2, communicator_id="mpi:pair:0")

    steps = step.find_steps(pl.concat([world, pair]))

    assert steps["step"].max() == 3


def test_an_enqueued_call_without_proof_is_cut_at_the_next_arrival() -> None:
    calls = calls_of(["all_reduce"] * 5, is_enqueue_only=True, completes=False)

    steps = step.find_steps(calls).filter(pl.col("rank") == 0)

    assert steps["step"].to_list() == [1, 2, 3]
    assert steps["start_ns"].to_list() == [at * MILLISECOND for at in (2, 3, 4)]


def test_a_blocking_call_without_completion_cuts_nothing() -> None:
    calls = calls_of(["all_reduce"] * 5, completes=False)

    assert step.find_steps(calls).is_empty()


def test_calls_not_numbered_from_the_start_lower_the_confidence() -> None:
    calls = calls_of(["all_reduce"] * 9).with_columns(is_base_known=pl.lit(value=False))

    steps = step.find_steps(calls)

    assert set(steps["confidence"].to_list()) == {step.UNNUMBERED_CONFIDENCE}


def test_two_jobs_have_steps_of_their_own() -> None:
    one = calls_of(["all_reduce"] * 6)
    two = calls_of(["all_reduce", "barrier"] * 6, job_id="other")

    steps = step.find_steps(pl.concat([one, two]))

    lengths = dict(steps.select("job_id", "period_calls").unique().iter_rows())
    assert lengths == {"job": 1, "other": 2}


def test_no_calls_give_no_steps_and_the_declared_columns() -> None:
    steps = step.find_steps(calls_of(["all_reduce"]).clear())

    assert steps.is_empty()
    assert dict(steps.schema) == step.SCHEMA
