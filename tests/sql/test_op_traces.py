"""Imported operation traces: the culprit and not its victims, and "no bad rank".

Two published traces have known answers (skipped where the files are absent): AR, one
slow worker; ST, a stage that works longer.  Made traces stand for the third, whose
lengths vary from micro-batch to micro-batch on every worker, and for planted truths.
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest

from tests.public_data import public_data
from tests.workbench.op_traces import Trace
from workbench.cli import main
from workbench.commands.import_ import import_into
from workbench.store.case import open_case

if TYPE_CHECKING:
    from pathlib import Path

    from workbench.store.case import Case


def imported(folder: Path, trace: Path) -> Case:
    """Return a case with one trace, as the command makes it."""
    path = folder / f"{trace.stem}.duckdb"
    import_into(path, "straggler-ops", [trace])
    return open_case(path)


def verdicts(case: Case, finding: str, verdict: str) -> list[str]:
    sql = "select subject_id from finding where finding = ? and verdict = ? order by 1"
    return case.frame(sql, [finding, verdict])["subject_id"].to_list()


def one(case: Case, sql: str) -> dict[str, Any]:
    (row,) = case.frame(sql).to_dicts()
    return row


@pytest.fixture(scope="module")
def slow_rank(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """Return the published trace with one slow worker."""
    trace = public_data("straggler/trace-AR.parquet")
    return imported(tmp_path_factory.mktemp("AR"), trace)


@pytest.fixture(scope="module")
def long_stage(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """Return the published trace with a stage that works longer."""
    trace = public_data("straggler/trace-ST.parquet")
    return imported(tmp_path_factory.mktemp("ST"), trace)


def published(kind: str, name: str) -> dict[str, Any]:
    """Return what the authors computed of a trace."""
    return json.loads(public_data(f"straggler/{kind}-{name}.json").read_text())


@pytest.mark.slow
def test_the_slow_worker_is_the_only_culprit(slow_rank: Case) -> None:
    assert verdicts(slow_rank, "finding_straggler", "found") == ["dp0/stage0"]
    assert len(verdicts(slow_rank, "finding_straggler", "clear")) == 15

    row = one(slow_rank, "from finding where verdict = 'found'")
    ratios = slow_rank.frame("from rank_summary order by own_ratio desc")["own_ratio"]

    assert row["confidence"] == "high"
    assert row["affected_step_count"] == row["step_count"] == 44
    assert row["share_ratio"] == pytest.approx(1, abs=0.01)
    assert ratios[0] == pytest.approx(2.35, abs=0.01)
    assert ratios[1] < 1.01
    assert any("2.35 times the median of its role" in x for x in row["evidence_for"])
    assert any("would win the job" in line for line in row["evidence_for"])


@pytest.mark.slow
def test_its_victims_are_named_as_victims(slow_rank: Case) -> None:
    sql = (
        "select r.rank_name from straggler_victim as v inner join rank as r"
        " on v.job_id = r.job_id and v.victim_rank = r.rank"
    )
    victims = set(slow_rank.frame(sql)["rank_name"])

    assert victims >= {"dp0/stage1", "dp0/stage2", "dp0/stage3"}
    assert "dp0/stage0" not in victims


@pytest.mark.slow
def test_its_slowdown_and_shares_are_those_published(slow_rank: Case) -> None:
    row = one(slow_rank, "from model.what_if_job")

    slowdown = published("result", "AR")["blocking_slowdown"]
    assert row["slowdown_ratio"] == pytest.approx(slowdown, rel=0.01)
    assert row["slowdown_ratio"] == pytest.approx(1.973, abs=0.001)
    share = published("mw", "AR")["Mw"]
    assert row["worst_share_ratio"] == pytest.approx(share, rel=0.01)
    assert row["worst_ranks"] == [0]


@pytest.mark.slow
def test_the_verdict_of_the_slow_worker_reads_well(
    slow_rank: Case, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diagnose", str(slow_rank.path)]) == 0

    out = capsys.readouterr().out
    assert out.startswith("rank dp0/stage0 on trace-AR held the job up by 26.")
    assert "victims       dp0/stage1, dp0/stage2, dp0/stage3" in out
    assert "1.973 times as long as with even work" in out
    assert all(
        len(x) <= 80 or "coldtrace query" in x or '"from' in x for x in out.splitlines()
    )


@pytest.mark.slow
def test_a_long_stage_accuses_nobody_and_is_reported(long_stage: Case) -> None:
    assert verdicts(long_stage, "finding_straggler", "found") == []
    assert len(verdicts(long_stage, "finding_straggler", "clear")) == 8

    row = one(long_stage, "from finding where verdict = 'found'")
    work = one(long_stage, "from role_work where role = 'stage 3'")

    assert (row["finding"], row["subject_id"]) == ("finding_role_imbalance", "trace-ST")
    assert (row["host_id"], row["rank"]) == (None, None)
    assert "stage 3 works 1.373 s a step on all 2 ranks" in row["evidence_for"][0]
    assert work["own_ns"] == pytest.approx(1.377e9, rel=0.004)
    assert work["other_own_ns"] == pytest.approx(0.845e9, rel=0.01)
    assert work["spread_ratio"] < 1.006


@pytest.mark.slow
def test_its_slowdown_is_the_published_one(long_stage: Case) -> None:
    row = one(long_stage, "from model.what_if_job")

    slowdown = published("result", "ST")["blocking_slowdown"]
    assert row["slowdown_ratio"] == pytest.approx(slowdown, rel=0.01)
    assert row["slowdown_ratio"] == pytest.approx(1.179, abs=0.001)
    last = published("ms", "ST")["Ms"]
    assert row["last_stage_share_ratio"] == pytest.approx(last, rel=0.01)


@pytest.mark.slow
def test_lengths_that_vary_on_every_worker_accuse_nobody(tmp_path: Path) -> None:
    random = np.random.default_rng(17)
    lengths = random.lognormal(-4, 0.5, (32, 2, 12, 4))
    made = Trace(
        replicas=32,
        stages=2,
        steps=12,
        forward_s=lambda replica, stage, step, batch: float(
            lengths[replica, stage, step, batch]
        ),
    )
    with imported(tmp_path, made.write(tmp_path / "varying.parquet")) as case:
        job = one(case, "from model.what_if_job")
        shares = case.frame("from work_variance where operation = 'forward-compute'")[
            "between_ratio"
        ]

        assert verdicts(case, "finding_straggler", "found") == []
        assert job["slowdown_ratio"] > 1.3
        assert max(shares) < 0.05


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """Return a made trace: dp1/stage0 takes twice as long in its passes."""
    folder = tmp_path_factory.mktemp("planted")
    made = Trace(
        forward_s=lambda replica, stage, _step, _batch: (
            0.02 if (replica, stage) == (1, 0) else 0.01
        )
    )
    return imported(folder, made.write(folder / "planted.parquet"))


def test_a_planted_worker_is_found_by_its_operations(planted: Case) -> None:
    assert verdicts(planted, "finding_straggler", "found") == ["dp1/stage0"]
    assert verdicts(planted, "finding_role_imbalance", "clear") == ["planted"]

    ratio = one(planted, "from rank_summary where rank_name = 'dp1/stage0'")

    assert ratio["own_ratio"] == pytest.approx(2, rel=0.001)


def test_what_the_evidence_names_shows_rows(planted: Case) -> None:
    row = one(planted, "from finding where verdict = 'found'")
    where = " and ".join(row["evidence_keys"])

    assert planted.frame(f"from {row['evidence_view']} where {where}").height == 3


def test_steps_lie_end_to_end(planted: Case) -> None:
    sql = "select step, start_ns, end_ns from model.step where rank = 0 order by step"
    steps = planted.frame(sql).rows()

    assert [step for step, *_ in steps] == list(range(6))
    for (_, _, end), (_, start, _) in pairwise(steps):
        assert start >= end


def test_own_length_of_a_transfer_begins_at_its_last_arrival(planted: Case) -> None:
    sql = "select own_ns, wait_ns from activity_length where is_communication"
    lengths = planted.frame(sql)

    assert lengths["own_ns"].max() == pytest.approx(1e6, rel=0.01)
    assert max(lengths["wait_ns"].to_list()) > 10e6


def test_both_ideals_of_a_place(planted: Case) -> None:
    sql = (
        "select operation, min(role_ns) as least, max(role_ns) as most,"
        " any_value(paper_ns) as paper from activity_ideal"
        " where operation = 'forward-compute' group by operation"
    )
    row = one(planted, sql)

    assert row["least"] == pytest.approx(10e6, rel=0.001)
    assert row["most"] == pytest.approx(10e6, rel=0.001)
    assert row["paper"] == pytest.approx((7 * 10e6 + 20e6) / 8, rel=0.001)


def test_a_schedule_of_two_stages_has_its_edges(planted: Case) -> None:
    sql = (
        "select b.operation, a.operation from activity_edge as e"
        " inner join _activity_place as b on e.before_id = b.place_id"
        " inner join _activity_place as a on e.after_id = a.place_id"
        " where a.stage = 1 and a.seq = 0 and b.seq = 0 order by all"
    )
    edges = planted.connection.execute(sql).fetchall()

    assert ("forward-recv", "forward-compute") in edges
    assert ("backward-compute", "backward-send") in edges
    assert ("params-all-gather", "forward-compute") in edges
    assert ("forward-compute", "forward-recv") not in edges


def test_sends_meet_their_receives(planted: Case) -> None:
    sql = (
        "select list(operation order by operation) as operations, count(*) as places"
        " from activity_rendezvous where is_communication and not is_job_wide"
        " group by rendezvous"
    )
    rows = planted.frame(sql).rows()

    assert {places for _, places in rows} == {2}
    assert {tuple(operations) for operations, _ in rows} == {
        ("forward-recv", "forward-send"),
        ("backward-recv", "backward-send"),
    }


def test_without_roles_nobody_can_be_told_from_a_long_stage(tmp_path: Path) -> None:
    path = tmp_path / "flat.parquet"
    Trace().frame().drop("stage").write_parquet(path)

    with imported(tmp_path, path) as case:
        rows = case.frame("from finding where finding = 'finding_straggler'")

        assert set(rows["verdict"]) == {"not_decidable"}
        assert rows.height == 8
        assert all(
            "roles unknown, cannot separate" in reasons[0]
            for reasons in rows["evidence_against"]
        )


def test_operations_that_wait_for_each_other_are_no_schedule(tmp_path: Path) -> None:
    path = tmp_path / "circle.parquet"
    is_last = (pl.col("optype") == "forward-compute") & (pl.col("stage") == 1)
    begin = pl.when(is_last).then(9 - pl.col("start_ts")).otherwise("start_ts")
    Trace(steps=2).frame().with_columns(start_ts=begin).write_parquet(path)

    with imported(tmp_path, path) as case:
        assert verdicts(case, "finding_straggler", "found") == []
        assert len(verdicts(case, "finding_straggler", "not_decidable")) == 8
