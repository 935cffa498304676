"""Who held the job up, why, and what cannot be told: made jobs with a planted truth.

Rank 5 of eight reads slow input for 290 ms at each 14th step.  A slow GPU under
enqueue-only collectives accuses nobody and clears nobody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import workbench.analysis  # noqa: F401 -- registers the models, which the views read
from tests.sql.jobs import MS, TRANSFER_NS, Job, always, every_14th
from tests.sql.standing import rows

if TYPE_CHECKING:
    from pathlib import Path

    from workbench.store.case import Case

STEPS = 59
LATE_STEPS = [13, 27, 41, 55]
RUN = "window_kind = 'run'"


def verdicts(case: Case, finding: str) -> dict[int, str]:
    """Return the verdict of a finding on each rank."""
    sql = f"select rank, verdict from finding where finding = '{finding}'"
    return dict(rows(case, sql))


def found(case: Case, finding: str) -> dict[str, Any]:
    """Return the one row of a finding that found something."""
    sql = f"from finding where finding = '{finding}' and verdict = 'found'"
    (row,) = case.frame(sql).to_dicts()
    return row


@pytest.fixture(scope="module")
def late(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """Return the job of which rank 5 is late at each 14th step."""
    job = Job(late=every_14th, steps=STEPS)
    return job.blocking().build(tmp_path_factory.mktemp("late"))


@pytest.fixture(scope="module")
def slow_gpu(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """Return the job of which the GPU of rank 5 takes 50 ms where others take 10."""
    job = Job(steps=30).enqueue_only(
        gpu_ns=lambda rank, _: 50 * MS if rank == 5 else MS
    )
    return job.build(tmp_path_factory.mktemp("gpu"))


def test_late_rank_is_accused_with_size_period_and_cause(late: Case) -> None:
    row = found(late, "finding_straggler")

    assert (row["rank"], row["subject_id"], row["cause"]) == (5, "5", "blocked_read")
    assert row["magnitude_ns"] == pytest.approx(290 * MS, rel=0.01)
    assert (row["affected_step_count"], row["period_steps"]) == (4, 14)
    assert row["confidence"] == "high"
    assert row["evidence_against"] == []
    assert row["share_ratio"] > 0.9
    assert row["window_from_ns"] < row["window_to_ns"]


def test_everybody_else_is_clear(late: Case) -> None:
    for finding in ("finding_straggler", "finding_blocked"):
        verdict = verdicts(late, finding)

        assert verdict.pop(5) == "found"
        assert set(verdict.values()) == {"clear"}
    assert set(verdicts(late, "finding_run_queue").values()) == {"clear"}


def test_evidence_keys_pick_the_rows_that_show_it(late: Case) -> None:
    for finding in ("finding_straggler", "finding_blocked"):
        row = found(late, finding)
        where = " and ".join(row["evidence_keys"])
        shown = late.frame(f"from {row['evidence_view']} where {where}")

        assert shown.height >= 3
        assert shown["rank"].unique().to_list() == [5]


def test_own_work_is_the_step_without_waiting_for_others(late: Case) -> None:
    sql = (
        "select rank, own_ns, wait_ns, step_ns from step_work where step = 13"
        " order by rank"
    )
    for rank, own, wait, step in rows(late, sql):
        assert own + wait == step
        if rank == 5:
            assert wait == 0
        else:
            assert wait == pytest.approx(290 * MS, rel=0.02)


def test_summary_gives_the_excess_of_every_rank(late: Case) -> None:
    excess = dict(rows(late, "select rank, excess_ns from rank_summary"))

    assert excess.pop(5) == pytest.approx(len(LATE_STEPS) * 290 * MS, rel=0.05)
    assert max(map(abs, excess.values())) < 20 * MS


def test_score_names_the_late_steps(late: Case) -> None:
    sql = f"select rank, affected_steps from straggler_score where is_accused and {RUN}"

    assert rows(late, sql) == [(5, LATE_STEPS)]


def test_clocks_support_that_it_came_last(late: Case) -> None:
    sql = (
        "select late_count, last_count, not_last_count, margin_ns, clock_error_ns"
        f" from straggler_order where {RUN}"
    )
    ((count, last, not_last, margin, error),) = rows(late, sql)

    assert (count, last, not_last) == (4, 4, 0)
    assert margin == pytest.approx(290 * MS, rel=0.02)
    assert 0 < error < MS


def test_budget_of_the_late_steps_differs_in_reading(late: Case) -> None:
    sql = (
        "select class, excess_ns, share_ratio from straggler_budget"
        f" where {RUN} order by share_ratio desc nulls last"
    )
    (kind, excess, share), *rest = rows(late, sql)

    assert kind == "read"
    assert excess == pytest.approx(len(LATE_STEPS) * 290 * MS, rel=0.01)
    assert share > 0.95
    assert ("waiting_for_others", None) in [(name, part) for name, _, part in rest]


def test_cause_is_the_class_with_most_excess(late: Case) -> None:
    sql = f"select cause, class, excess_ns from straggler_cause where {RUN}"
    ((cause, kind, excess),) = rows(late, sql)

    assert (cause, kind) == ("blocked_read", "read")
    assert excess == pytest.approx(290 * MS, rel=0.01)


def test_case_gathers_the_three_measures(late: Case) -> None:
    sql = "select is_support, is_ordered, is_contradicted from _straggler_accused"
    ((evidence,),) = rows(late, "select evidence_for from straggler_case")

    assert rows(late, sql) == [(True, True, False)]
    assert [line.split(":")[0] for line in evidence[:3]] == [
        "what-if",
        "waits, free of clocks",
        "clocks",
    ]


def test_all_others_wait_for_it(late: Case) -> None:
    sql = "select victim_rank from straggler_victim order by 1"

    assert rows(late, sql) == [(rank,) for rank in range(8) if rank != 5]


def test_windows_are_in_cluster_time(late: Case) -> None:
    whole = rows(late, "select from_ns, to_ns from _rank_window where rank = 5")
    scored = rows(late, f"select from_ns, to_ns from _score_window where {RUN}")

    assert whole == scored
    assert whole[0][1] - whole[0][0] > (STEPS - 1) * 40 * MS


def test_blocking_beyond_the_peers_is_measured_by_kind(late: Case) -> None:
    sql = (
        "select affected_step_count, magnitude_ns, top_class, late_steps"
        " from rank_class_excess where rank = 5 and kind = 'blocked'"
    )
    ((count, size, kind, steps),) = rows(late, sql)

    assert (count, kind, steps) == (4, "read", LATE_STEPS)
    assert size == pytest.approx(290 * MS, rel=0.01)


def test_arrivals_are_in_cluster_time_within_their_error(late: Case) -> None:
    sql = (
        "select rank, arrival_skew_ns, margin_ns, is_surely_last"
        " from collective_arrival where collective_seq = 13"
        " and operation = 'all_reduce' order by rank"
    )
    skews = {rank: rest for rank, *rest in rows(late, sql)}
    worst = rows(late, "select max(clock_error_ns) from collective_arrival")[0][0]

    assert skews[5][2]
    assert skews[5][0] == pytest.approx(290 * MS, rel=0.02)
    assert [rank for rank, (_, margin, _) in skews.items() if margin > 0] == [5]
    assert worst < MS


def test_slow_gpu_is_not_observed_and_nobody_is_cleared(slow_gpu: Case) -> None:
    assert set(verdicts(slow_gpu, "finding_straggler").values()) == {"not_observed"}


def test_running_ahead_of_the_gpu_is_measured(slow_gpu: Case) -> None:
    sql = "select count(*), min(ahead_ns), max(skew_ns), max(wait_ns) from step_work"
    ((count, ahead, skew, wait),) = rows(slow_gpu, sql)
    reasons = rows(slow_gpu, "select distinct stream from gpu_ahead")

    assert count == 8 * 29
    assert ahead >= 50 * MS + TRANSFER_NS - MS
    assert skew < MS
    assert wait == 0
    assert reasons == [("gpu_kernel",)]


def test_constant_lateness_is_found(tmp_path: Path) -> None:
    case = Job(late=always, steps=30).blocking().build(tmp_path)

    row = found(case, "finding_straggler")

    assert (row["rank"], row["period_steps"]) == (5, 1)
    assert row["magnitude_ns"] == pytest.approx(50 * MS, abs=MS)


def test_without_off_cpu_the_rank_is_found_and_the_cause_is_not(tmp_path: Path) -> None:
    streams = {"hostb": ("collective", "gpu_call")}
    job = Job(late=every_14th, steps=STEPS, streams=streams)
    case = job.blocking().build(tmp_path)

    row = found(case, "finding_straggler")

    assert (row["rank"], row["cause"]) == (5, "not_determined")
    assert "off_cpu: not recorded" in row["not_checked"]
    for finding in ("finding_blocked", "finding_run_queue"):
        answers = verdicts(case, finding)
        assert [answers[rank] for rank in range(8)] == ["clear"] * 4 + [
            "not_observed"
        ] * 4


def test_two_ranks_that_differ_cannot_be_told_apart(tmp_path: Path) -> None:
    job = Job(ranks=2, late=lambda rank, _: 40 * MS if rank else 0, steps=20)
    case = job.blocking().build(tmp_path)

    assert verdicts(case, "finding_straggler") == {
        0: "not_decidable",
        1: "not_decidable",
    }


def test_rank_that_waits_for_a_cpu_is_found(tmp_path: Path) -> None:
    job = Job(ranks=4, steps=20).blocking()
    thread = job.host("hostb").rank(3)
    for row in list(thread.owner.rows["collective"]):
        if row["tid"] == thread.tid and row["start_ns"] > 1_300 * MS:
            start = row["start_ns"] - thread.owner.offset_ns - 20 * MS
            thread.off_cpu(
                start_ns=start,
                duration_ns=15 * MS,
                runq_latency_ns=15 * MS,
                off_state="running",
                is_preempted=True,
            )
    case = job.build(tmp_path)

    row = found(case, "finding_run_queue")

    assert (row["rank"], row["cause"]) == (3, "run_queue")
    assert row["magnitude_ns"] == pytest.approx(15 * MS, rel=0.01)
    assert (
        case.frame(f"from wait_span where {' and '.join(row['evidence_keys'])}").height
        == row["affected_step_count"]
    )
