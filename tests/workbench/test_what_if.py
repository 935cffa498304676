"""The job on paper accuses the rank that held it up, and nobody else."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest

from workbench.analysis import (
    activity,
    paper_slowdown,
    replay,
    straggler_pattern,
    what_if,
)

if TYPE_CHECKING:
    from collections.abc import Callable

SECOND = 1_000_000_000
TRANSFER_NS = 1_000_000
LIMITS = {
    "affected_step": 0.05,
    "affected_part": 0.5,
    "period_agreement": 0.9,
    "onset_share": 0.5,
}


def call(
    rank: int,
    step: int,
    seq: int,
    *,
    arrival_ns: float,
    completion_ns: float,
    start_ns: float,
    **changes: object,
) -> dict[str, Any]:
    plain = {
        "job_id": "job",
        "rank": rank,
        "role": "worker",
        "step": step,
        "start_ns": int(start_ns),
        "communicator_id": "world",
        "collective_seq": seq,
        "meeting_kind": "all_reduce",
        "pairing": "all",
        "operation": "all_reduce",
        "is_root": False,
        "arrival_ns": int(arrival_ns),
        "completion_ns": int(completion_ns),
        "is_enqueue_only": False,
    }
    return plain | changes


def world_job(own: np.ndarray, **changes: object) -> pl.DataFrame:
    """Return the events of ranks that meet once a step; own[step, rank] in seconds."""
    work = own * SECOND
    starts = np.concatenate([[0], np.cumsum(work.max(axis=1) + TRANSFER_NS)])
    ranks = own.shape[1]
    number, rank = np.divmod(np.arange(own.size), ranks)
    arrival = starts[number] + work.ravel()
    calls = pl.DataFrame(
        {
            "rank": rank.astype(np.int32),
            "step": number,
            "start_ns": starts[number].astype(np.int64),
            "collective_seq": number,
            "arrival_ns": arrival.astype(np.int64),
            "completion_ns": starts[number + 1].astype(np.int64),
        }
    )
    fixed = call(0, 0, 0, arrival_ns=0, completion_ns=0, start_ns=0) | changes
    return activity.events(
        calls.with_columns(
            pl.lit(value).alias(name)
            for name, value in fixed.items()
            if name not in calls.columns
        )
    )


def noise(
    random: np.random.Generator,
    *,
    steps: int = 200,
    ranks: int = 64,
    sigma: float = 0.02,
    bias: float = 0.0,
    heavy: float = 0.0,
) -> np.ndarray:
    own = 0.3 * (1 + bias * random.standard_normal(ranks))
    own = own * np.exp(sigma * random.standard_normal((steps, ranks)))
    if heavy:
        own += (random.random(own.shape) < heavy) * random.exponential(0.05, own.shape)
    return own


def accused(scores: list[dict[str, Any]]) -> list[int]:
    """Return the ranks that the rule of the straggler finding would name."""
    return sorted(
        {
            score["rank"]
            for score in scores
            if score["alone_ratio"] >= 1.05
            and score["share_ratio"] >= 0.5
            and score["wait_ns"] < score["role_median_wait_ns"]
        }
    )


@pytest.mark.parametrize(
    "kind",
    [
        {},
        {"bias": 0.01},
        {"heavy": 0.002},
        {"sigma": 0.05, "bias": 0.01},
        {"heavy": 0.002, "bias": 0.01},
    ],
)
def test_healthy_jobs_of_64_ranks_accuse_nobody(kind: dict[str, Any]) -> None:
    random = np.random.default_rng(3)

    for _ in range(6):
        scores = what_if.score_job(world_job(noise(random, **kind)))

        assert accused(scores) == []


def late_each_14th(own: np.ndarray) -> None:
    own[13::14, 5] += 0.29


def always_late(own: np.ndarray) -> None:
    own[:, 5] += 0.05


def two_equally_late(own: np.ndarray) -> None:
    own[:, [5, 9]] += 0.05


def late_in_one_window(own: np.ndarray) -> None:
    own[100:130, 5] += 0.3


def late_by_turns(own: np.ndarray) -> None:
    own[np.arange(200), np.repeat([3, 17, 40, 41], 50)] += 0.1


@pytest.mark.parametrize(
    ("plant", "culprits"),
    [
        (late_each_14th, [5]),
        (always_late, [5]),
        (two_equally_late, [5, 9]),
        (late_in_one_window, [5]),
        (late_by_turns, [3, 17, 40, 41]),
    ],
)
def test_planted_stragglers_are_accused_and_no_other(
    plant: Callable[[np.ndarray], None], culprits: list[int]
) -> None:
    random = np.random.default_rng(4)

    for _ in range(3):
        own = noise(random, bias=0.01)
        plant(own)

        assert accused(what_if.score_job(world_job(own))) == culprits


def test_sums_of_maxima_equal_the_general_simulation() -> None:
    own = noise(np.random.default_rng(5), steps=40, ranks=6, sigma=0.3)
    events = world_job(own).with_columns(number=pl.col("rank").rank("dense") - 1)
    meetings = replay.meetings_of(events)

    together = replay.simulate_together(events, rank_count=6)
    one_by_one = replay.simulate(meetings, rank_count=6)

    assert together == pytest.approx(one_by_one, rel=1e-12)


def test_the_recorded_lane_takes_as_long_as_the_job_took() -> None:
    own = noise(np.random.default_rng(6), steps=60, ranks=8, sigma=0.2)

    (score, *_) = what_if.score_job(world_job(own))

    took = own.max(axis=1).sum() * SECOND + 60 * TRANSFER_NS
    assert score["job_actual_ns"] == pytest.approx(took, rel=1e-6)


def test_waiting_is_the_stay_beyond_the_shortest_stay() -> None:
    own = np.array([[0.1, 0.3], [0.2, 0.2]])

    scores = what_if.score_job(world_job(own))

    assert [score["wait_ns"] for score in scores] == [int(0.2 * SECOND), 0]


def pipeline(late: int, *, work: tuple[float, ...] = (0.1, 0.1, 0.1)) -> pl.DataFrame:
    """Return two replicas of three stages; rank = replica * 3 + stage.

    Each step every stage works, passes on to the next, and meets its replica; one rank
    works 50 ms longer.
    """
    rows = []
    ready = np.zeros(6)
    for step in range(20):
        begin = ready.copy()
        for stage in range(3):
            arrivals = {}
            for replica in range(2):
                rank = replica * 3 + stage
                if stage:
                    rows += message(rank - 1, rank, step, ready, begin)
                ready[rank] += work[stage] + (0.05 if rank == late else 0.0)
                arrivals[rank] = ready[rank]
            end = max(arrivals.values()) + 0.001
            for rank, arrival in arrivals.items():
                rows.append(
                    call(
                        rank,
                        step,
                        step,
                        arrival_ns=arrival * SECOND,
                        completion_ns=end * SECOND,
                        start_ns=float(begin[rank]) * SECOND,
                        communicator_id=f"stage{stage}",
                        role=f"stage{stage}",
                    )
                )
                ready[rank] = end
    return activity.events(pl.DataFrame(rows))


def message(
    source: int, target: int, step: int, ready: np.ndarray, begin: np.ndarray
) -> list[dict[str, Any]]:
    """Return a send that does not wait, and a receive that does."""
    sent, came = ready[source], ready[target]
    ready[source] = sent + 0.0001
    ready[target] = max(sent, came) + 0.0002
    fixed = {"meeting_kind": "send_recv", "pairing": f"{source}>{target}"}
    return [
        call(
            rank,
            step,
            step,
            arrival_ns=at * SECOND,
            completion_ns=ready[rank] * SECOND,
            start_ns=begin[rank] * SECOND,
            operation=operation,
            role=f"stage{rank % 3}",
            **fixed,
        )
        for rank, at, operation in ((source, sent, "send"), (target, came, "recv"))
    ]


def test_a_late_rank_of_a_pipeline_has_the_excess_and_its_victims_none() -> None:
    scores = {row["rank"]: row for row in what_if.score_job(pipeline(late=1))}

    alone = {rank: row["alone_ratio"] for rank, row in scores.items()}
    assert alone[1] > 1.05
    assert max(alone[rank] for rank in (0, 2, 3, 5)) < 1.01


def test_the_longest_stage_of_a_pipeline_is_no_straggler() -> None:
    scores = what_if.score_job(pipeline(late=-1, work=(0.1, 0.1, 0.25)))

    assert accused(scores) == []
    assert max(row["alone_ratio"] for row in scores) == pytest.approx(1.0)


def rooted(late: int) -> list[dict[str, Any]]:
    """Return the scores of a job whose steps end in a broadcast from rank 0."""
    rows = []
    ready = np.zeros(4)
    for step in range(12):
        begin = ready.copy()
        arrival = ready + 0.1
        arrival[late] += 0.03
        done = np.maximum(arrival, arrival[0]) + 0.001
        ready = done.copy()
        rows += [
            call(
                rank,
                step,
                step,
                arrival_ns=arrival[rank] * SECOND,
                completion_ns=done[rank] * SECOND,
                start_ns=begin[rank] * SECOND,
                operation="broadcast",
                meeting_kind="broadcast",
                is_root=rank == 0,
            )
            for rank in range(4)
        ]
    return what_if.score_job(activity.events(pl.DataFrame(rows)))


def test_a_late_root_of_a_broadcast_makes_all_members_wait() -> None:
    waits = {row["rank"]: row["wait_ns"] for row in rooted(late=0)}

    assert waits[0] == 0
    assert waits[1] == pytest.approx(12 * 0.03 * SECOND, rel=0.01)


def test_a_late_member_of_a_broadcast_makes_nobody_wait() -> None:
    waits = {row["rank"]: row["wait_ns"] for row in rooted(late=2)}

    assert max(waits[rank] for rank in (0, 1, 3)) < 1_000


def test_ranks_that_run_ahead_of_their_gpus_carry_no_excess() -> None:
    own = noise(np.random.default_rng(8), steps=20, ranks=4)
    own[:, 2] += 0.05
    events = world_job(own, is_enqueue_only=True)
    calls_ahead = events.filter(pl.col("wait_ns") > 0)
    assert not calls_ahead.is_empty()

    ahead = ahead_of_gpus(steps=20, ranks=4, late=2)

    assert accused(what_if.score_job(ahead)) == []
    assert ahead["wait_ns"].sum() == 0


def ahead_of_gpus(*, steps: int, ranks: int, late: int) -> pl.DataFrame:
    """Return ranks that enqueue early and then stay 300 ms for their GPUs."""
    rows = [
        call(
            rank,
            step,
            step,
            arrival_ns=(step * 0.4 + 0.05 + 0.05 * (rank == late)) * SECOND,
            completion_ns=(step * 0.4 + 0.4) * SECOND,
            start_ns=step * 0.4 * SECOND,
            is_enqueue_only=True,
        )
        for step in range(steps)
        for rank in range(ranks)
    ]
    return activity.events(pl.DataFrame(rows))


def test_calls_that_one_synchronisation_completes_are_one_event() -> None:
    rows = [
        call(
            rank,
            0,
            seq,
            arrival_ns=(0.1 + 0.01 * seq + 0.2 * rank) * SECOND,
            completion_ns=0.4 * SECOND,
            start_ns=0,
            is_enqueue_only=True,
        )
        for rank in range(2)
        for seq in range(3)
    ]

    events = activity.events(pl.DataFrame(rows))

    assert len(events) == 2
    assert events["own_ns"].to_list() == pytest.approx([0.12 * SECOND, 0.32 * SECOND])


def test_a_rendezvous_with_nobody_known_is_own_time() -> None:
    rows = [
        call(
            0,
            0,
            0,
            arrival_ns=100,
            completion_ns=900,
            start_ns=0,
            communicator_id="alone",
        ),
        *(
            call(rank, 0, 1, arrival_ns=1_000, completion_ns=1_100, start_ns=0)
            for rank in range(2)
        ),
    ]

    events = activity.events(pl.DataFrame(rows))

    assert len(events) == 2
    assert events["own_ns"].to_list() == [1_000, 1_000]


def test_meetings_come_after_all_that_their_members_did_before() -> None:
    order = replay.topological([deque([1, 2, 4]), deque([1, 3, 4]), deque([3, 2])])

    assert sorted(order) == [1, 2, 3, 4]
    assert order.index(1) < order.index(3) < order.index(2) < order.index(4)


def test_ranks_that_disagree_on_the_order_still_end() -> None:
    order = replay.topological([deque([1, 2, 3]), deque([2, 1, 3])])

    assert sorted(order) == [1, 2, 3]
    assert order[-1] == 3


@pytest.mark.parametrize(
    ("count", "windows"),
    [
        (40, [(0, 39)]),
        (60, [(0, 59)]),
        (100, [(0, 99), (0, 49), (50, 99)]),
        (120, [(0, 119), (0, 49), (50, 119)]),
        (130, [(0, 129), (0, 49), (50, 99), (100, 129)]),
    ],
)
def test_windows_are_the_run_and_each_fifty_steps(
    count: int, windows: list[tuple[int, int]]
) -> None:
    found = what_if.windows_of(np.arange(count))

    assert [(window.from_step, window.to_step) for window in found] == windows
    assert found[0].kind == "run"


def pattern_of(own: np.ndarray, rank: int) -> dict[str, Any]:
    events = world_job(own)
    scores = what_if.score_job(events)
    patterns = straggler_pattern.patterns(events, scores, LIMITS)
    return next(
        each
        for each in patterns
        if each["rank"] == rank and each["window_kind"] == "run"
    )


def test_a_rank_late_each_14th_step_has_that_period_and_its_size() -> None:
    own = noise(np.random.default_rng(9), ranks=8)
    late_each_14th(own)

    found = pattern_of(own, 5)

    assert found["affected_steps"] == list(range(13, 200, 14))
    assert found["affected_step_count"] == 14
    assert found["period_steps"] == 14
    assert found["magnitude_ns"] == pytest.approx(0.29 * SECOND, rel=0.03)


def test_a_rank_late_at_every_step_has_period_one_and_its_size() -> None:
    own = noise(np.random.default_rng(10), ranks=8, sigma=0.002)
    always_late(own)

    found = pattern_of(own, 5)

    assert found["affected_step_count"] == 200
    assert found["period_steps"] == 1
    assert found["magnitude_ns"] == pytest.approx(0.05 * SECOND, rel=0.02)


def test_irregular_lateness_has_no_period() -> None:
    own = noise(np.random.default_rng(11), ranks=8)
    own[[3, 10, 40, 41, 90, 150], 5] += 0.29

    found = pattern_of(own, 5)

    assert found["affected_steps"] == [3, 10, 40, 41, 90, 150]
    assert found["period_steps"] is None


def test_a_rank_that_is_never_late_has_no_magnitude() -> None:
    own = np.full((30, 4), 0.3)

    found = pattern_of(own, 2)

    assert found["affected_step_count"] == 0
    assert found["magnitude_ns"] is None


def test_a_rank_that_becomes_late_has_an_onset_and_no_trend() -> None:
    own = noise(np.random.default_rng(12), ranks=8, sigma=0.005)
    own[70:, 5] += 0.1

    found = pattern_of(own, 5)

    assert found["onset_step"] == 70
    assert found["growth_ns"] is None


def test_a_rank_that_gets_slower_has_a_trend() -> None:
    own = noise(np.random.default_rng(13), ranks=8, sigma=0.005)
    own[:, 5] += np.linspace(0, 0.2, 200)

    found = pattern_of(own, 5)

    assert found["growth_ns"] == pytest.approx(0.001 * SECOND, rel=0.05)


@pytest.mark.parametrize("plant", [late_each_14th, always_late])
def test_what_is_late_from_the_beginning_has_neither(
    plant: Callable[[np.ndarray], None],
) -> None:
    own = noise(np.random.default_rng(14), ranks=8, sigma=0.005)
    plant(own)

    found = pattern_of(own, 5)

    assert (found["onset_step"], found["growth_ns"]) == (None, None)


def test_without_one_of_two_equal_stragglers_the_job_wins_nothing() -> None:
    own = noise(np.random.default_rng(15), ranks=8, sigma=0.002)
    two = own.copy()
    always_late(own)
    two[:, [5, 6]] += 0.05

    one = {row["rank"]: row for row in what_if.score_job(world_job(own))}[5]
    both = {row["rank"]: row for row in what_if.score_job(world_job(two))}[5]

    steps = one["step_count"]
    won = (one["job_actual_ns"] - one["job_without_ns"]) / steps
    assert won == pytest.approx(0.05 * SECOND, rel=0.05)
    assert both["job_actual_ns"] - both["job_without_ns"] < 0.05 * won * steps


def test_the_worst_ranks_own_the_slowdown_that_they_make() -> None:
    own = noise(np.random.default_rng(16), ranks=8, sigma=0.002)
    own[:, 5] += 0.15

    row = paper_slowdown.job_row(world_job(own))

    ideal = own.mean(axis=1).mean() + TRANSFER_NS / SECOND
    actual = own.max(axis=1).mean() + TRANSFER_NS / SECOND
    assert row["slowdown_ratio"] == pytest.approx(actual / ideal, rel=0.01)
    assert row["worst_ranks"] == [5]
    assert row["worst_share_ratio"] == pytest.approx(1, abs=0.15)
