"""A user names the call that ends a step, where the calls themselves do not repeat."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from tests.builders import SECOND, case
from workbench.cli import main
from workbench.store.case import open_case

if TYPE_CHECKING:
    from pathlib import Path

MS = 1_000_000
STEPS = 12


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return four ranks that make one to nine all-reduces a step, then a barrier."""
    folder = tmp_path_factory.mktemp("marker")
    draw = random.Random(5)  # noqa: S311 -- noise, not secrets
    built = case()
    threads = [built.host("ab"[rank // 2]).rank(rank) for rank in range(4)]
    now = SECOND
    for _ in range(STEPS):
        calls = draw.randrange(1, 10)
        for operation in ["all_reduce"] * calls + ["barrier"]:
            size = draw.randrange(10_000)
            for thread in threads:
                thread.collective(
                    operation, start_ns=now, duration_ns=MS, element_count=size
                )
            now += 3 * MS
    built.build(folder).close()
    return folder / "case.duckdb"


def steps(path: Path) -> list[tuple[int, float]]:
    """Return the steps of each rank, and how sure they are."""
    sql = "select count(*), min(confidence) from model.step group by rank"
    with open_case(path) as opened:
        return sorted(set(opened.frame(sql).rows()))


@pytest.mark.slow
def test_a_named_marker_ends_each_step_and_none_seeks_them_again(
    made: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sought = steps(made)

    assert main(["diagnose", str(made), "--step-marker", "barrier"]) == 0
    named = steps(made)
    out = capsys.readouterr().out
    assert main(["diagnose", str(made), "--step-marker", "none"]) == 0

    assert sought[0][1] < 0.5
    assert named == [(STEPS - 1, 1.0)]
    assert f"{STEPS - 1} steps" in out
    assert steps(made) == sought


@pytest.mark.parametrize(
    ("marker", "message"),
    [
        ("sideways", "no numbered call sideways in this case"),
        ("barrier:nccl", "no numbered call barrier on a communicator nccl"),
        ("send", "no numbered call send"),
    ],
)
def test_a_marker_that_nobody_called_is_refused(
    made: Path, marker: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = steps(made)

    code = main(["diagnose", str(made), "--step-marker", marker])

    err = capsys.readouterr().err
    assert code == 3
    assert message in err
    assert "the operations are all_reduce, barrier" in err
    assert steps(made) == before


def test_a_communicator_may_be_named_by_how_it_begins(made: Path) -> None:
    assert main(["diagnose", str(made), "--step-marker", "barrier:mpi:"]) == 0

    with open_case(made) as opened:
        row = opened.connection.execute("from raw.step_marker").fetchall()[0]
    assert row[0] == "barrier"
    assert row[1].startswith("mpi:")
    assert steps(made) == [(STEPS - 1, 1.0)]
