"""Who is accused over a run and in its windows: made jobs, and a hundred healthy ones.

The hundred are drawn for the models, whose rows go through the views that accuse; the
others are bundles, loaded and asked as a user would.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import workbench.analysis  # noqa: F401 -- registers the models, which the views read
from tests.sql.jobs import MS, Job
from tests.sql.standing import rows, stand_on
from tests.workbench.test_what_if import noise, world_job
from workbench.analysis import model_rows, straggler_pattern, what_if
from workbench.store.case import Case

if TYPE_CHECKING:
    from pathlib import Path

DRAWS = 100


def found(made: Case, finding: str) -> list[dict[str, Any]]:
    """Return what a finding found, by rank."""
    sql = "from finding where finding = ? and verdict = 'found' order by rank"
    return made.frame(sql, [finding]).to_dicts()


@pytest.mark.slow
def test_a_hundred_healthy_jobs_of_64_ranks_accuse_nobody() -> None:
    draw = np.random.default_rng(2026)
    scores: list[dict[str, Any]] = []
    patterns: list[dict[str, Any]] = []
    with Case.create(None) as case:
        stand_on(case, "straggler_score")
        limits = dict(rows(case, "select name, value from threshold"))
        for number in range(DRAWS):
            own = noise(draw, steps=100, sigma=0.02, bias=0.01)
            events = world_job(own)
            mine = what_if.score_job(events)
            job = {"job_id": f"draw {number}"}
            scores += [job | row for row in mine]
            late = straggler_pattern.patterns(events, mine, limits)
            patterns += [job | row for row in late]
        for table, columns, made in (
            ("what_if", what_if.COLUMNS, scores),
            ("straggler_pattern", straggler_pattern.COLUMNS, patterns),
        ):
            lists = {name: [row[name] for row in made] for name in columns}
            model_rows.replace_rows(case, table, lists)

        counts = rows(
            case,
            "select count(distinct job_id), count(*), count(*) filter (is_accused)"
            " from straggler_score",
        )

    assert counts == [(DRAWS, DRAWS * 64 * 3, 0)]


@pytest.mark.slow
def test_a_rank_late_at_each_of_a_thousand_steps_is_found_to_the_millisecond(
    tmp_path: Path,
) -> None:
    job = Job(
        ranks=6,
        hosts=("hosta", "hostb"),
        steps=1_001,
        late=lambda rank, _: 50 * MS if rank == 5 else 0,
    )
    with job.blocking().build(tmp_path) as made:
        (row,) = found(made, "finding_straggler")
        states = dict(rows(made, "select host_name, state from model.clock_summary"))

    assert row["rank"] == 5
    assert row["step_count"] == row["affected_step_count"] == 1_000
    assert row["magnitude_ns"] == pytest.approx(50 * MS, abs=MS)
    assert row["period_steps"] == 1
    assert "undecided" in states.values()
    assert not any(line.startswith("clocks:") for line in row["evidence_against"])


@pytest.fixture(scope="module")
def by_turns(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """Return a job in which four ranks are late by turns, each for fifty steps."""
    job = Job(
        ranks=6,
        steps=201,
        late=lambda rank, step: 30 * MS if (step - 1) // 50 == rank < 4 else 0,
    )
    return job.blocking().build(tmp_path_factory.mktemp("turns"))


@pytest.mark.slow
def test_ranks_late_by_turns_are_accused_in_their_windows(by_turns: Case) -> None:
    late = found(by_turns, "finding_straggler")

    assert [row["rank"] for row in late] == [0, 1, 2, 3]
    assert all(row["step_count"] == 50 for row in late)
    windows = sorted((row["window_from_ns"], row["rank"]) for row in late)
    assert [rank for _, rank in windows] == [0, 1, 2, 3]


@pytest.mark.slow
def test_that_the_delay_goes_round_is_a_finding_about_the_job(by_turns: Case) -> None:
    (row,) = found(by_turns, "finding_rotation")
    (seen,) = by_turns.frame("from straggler_rotation").to_dicts()

    assert (row["subject_kind"], row["subject_id"]) == ("job", "job")
    assert row["magnitude_ns"] == pytest.approx(30 * MS, rel=0.05)
    assert sorted(seen["ranks"]) == [0, 1, 2, 3]
    assert seen["top_ratio"] == pytest.approx(0.25, abs=0.02)


@pytest.mark.slow
def test_two_ranks_late_together_are_both_accused_and_do_not_rotate(
    tmp_path: Path,
) -> None:
    job = Job(
        steps=31, late=lambda rank, step: 40 * MS if rank in (1, 6) and step % 3 else 0
    )
    with job.blocking().build(tmp_path) as made:
        late = found(made, "finding_straggler")

        assert [row["rank"] for row in late] == [1, 6]
        assert all(row["share_ratio"] > 0.9 for row in late)
        assert found(made, "finding_rotation") == []
        assert any("would win the job 0" in row["evidence_for"][0] for row in late)


@pytest.mark.slow
def test_a_rank_late_in_one_window_only_is_accused_there(tmp_path: Path) -> None:
    job = Job(
        ranks=6,
        steps=1_001,
        late=lambda rank, step: 30 * MS if rank == 2 and 520 <= step < 540 else 0,
    )
    with job.blocking().build(tmp_path) as made:
        (row,) = found(made, "finding_straggler")
        sql = (
            "select window_kind, window_from_step from straggler_score where is_accused"
        )
        windows = rows(made, sql)

    assert row["rank"] == 2
    assert row["affected_step_count"] == 20
    assert windows == [("window", 501)]
