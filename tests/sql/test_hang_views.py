"""A hang names the rank that did not come, a deadlock its circle, and nobody else.

Calls that are open at the end of a recording have no duration; most of them are open
because the recording stopped, and are no hang.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import workbench.analysis  # noqa: F401 -- registers the models, which the views read
from tests.builders import SECOND, case
from tests.sql.standing import rows, stand
from workbench.cli import main
from workbench.store.case import Case
from workbench.store.load import load_bundles

if TYPE_CHECKING:
    from pathlib import Path

    from tests.builders import CaseBuilder

MS = 1_000_000
END = 60 * SECOND
STEPS = 7


def job(*, stuck: tuple[int, ...] = (), end_ns: int = END) -> CaseBuilder:
    """Return four ranks that meet seven times; those of `stuck` enter one call more."""
    made = case().communicator("world", size=4)
    for rank in range(4):
        host = made.host("ab"[rank // 2 % 2], stop_ns=end_ns, world_size=4)
        thread = host.rank(rank)
        for step in range(STEPS):
            thread.collective(start_ns=SECOND + step * 20 * MS, duration_ns=10 * MS)
        if rank in stuck:
            thread.collective(start_ns=SECOND + STEPS * 20 * MS)
    return made


def verdicts(made: Case, finding: str = "finding_hang") -> dict[str, str]:
    sql = f"select subject_id, verdict from finding where finding = '{finding}'"
    return dict(rows(made, sql))


def found(made: Case) -> list[dict[str, Any]]:
    sql = "from finding where finding = 'finding_hang' and verdict = 'found'"
    return made.frame(sql).sort("rank").to_dicts()


@pytest.fixture(scope="module")
def hung(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """Return a job in which rank 2 sleeps in a read and the others wait for it."""
    made = job(stuck=(0, 1, 3))
    made.host("b").rank(2).off_cpu(start_ns=2 * SECOND, syscall="read")
    return made.build(tmp_path_factory.mktemp("hung"))


def test_the_rank_that_everyone_waits_for_is_named_and_nobody_else(hung: Case) -> None:
    assert verdicts(hung) == {"0": "clear", "1": "clear", "2": "found", "3": "clear"}

    (row,) = found(hung)
    said = " ".join(row["evidence_for"])

    assert row["confidence"] == "high"
    assert "ranks 0, 1, 3 wait for it in all_reduce 7" in said
    assert "the last call that it entered there is 6" in said
    assert "off the CPU (sleep, in read) since 58.0 s before the end" in said


def test_the_verdict_begins_with_the_hang(
    hung: Case, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diagnose", str(hung.path)]) == 0

    out = capsys.readouterr().out
    assert out.startswith("rank 2 on b never came to the call in which others wait\n")
    assert "never came to the call in which others wait (finding_hang)" in out
    assert "from hang_wait where" in out


def test_an_open_call_has_no_duration(hung: Case) -> None:
    sql = (
        "select count(*), count(completion_ns), count(issued_ns)"
        " from collective_span where is_open"
    )
    stuck = rows(hung, "select rank, is_stuck from open_call order by rank")

    assert rows(hung, sql) == [(3, 0, 0)]
    assert stuck == [(0, True), (1, True), (3, True)]


def test_the_edges_of_the_graph_lead_to_it(hung: Case) -> None:
    sql = "select rank, awaited_rank, last_seq from hang_wait order by rank"

    assert rows(hung, sql) == [(0, 2, 6), (1, 2, 6), (3, 2, 6)]


def test_what_the_evidence_names_shows_rows(hung: Case) -> None:
    (row,) = found(hung)
    where = " and ".join(row["evidence_keys"])

    assert hung.frame(f"from {row['evidence_view']} where {where}").height == 3


def test_what_each_rank_did_last_is_known(hung: Case) -> None:
    sql = "select rank, operation, is_open, syscall from last_activity order by rank"

    assert rows(hung, sql) == [
        (0, "all_reduce", True, None),
        (1, "all_reduce", True, None),
        (2, "all_reduce", False, "read"),
        (3, "all_reduce", True, None),
    ]


def test_a_recording_that_stops_within_a_call_is_no_hang(tmp_path: Path) -> None:
    soon = SECOND + STEPS * 20 * MS + 30 * MS
    made = stand(job(stuck=(0, 1, 3), end_ns=soon), tmp_path, "finding_hang")

    assert rows(made, "from finding_hang") == []
    assert rows(made, "select count(*) from open_call where not is_stuck") == [(3,)]


def test_two_communicators_in_opposite_order_are_a_deadlock(tmp_path: Path) -> None:
    made = case()
    for rank in range(3):
        thread = made.host("ab"[rank % 2], stop_ns=END).rank(rank)
        for name in ("x", "y"):
            thread.collective(start_ns=SECOND, duration_ns=MS, communicator=name)
    for rank, name in ((0, "x"), (1, "y"), (2, "x")):
        thread = made.host("ab"[rank % 2]).rank(rank)
        thread.collective(start_ns=2 * SECOND, communicator=name)
    loaded = stand(made, tmp_path, "finding_hang")

    answers = loaded.frame("from finding_hang").sort("rank").to_dicts()
    circle = [row["subject_id"] for row in answers]
    said = [" ".join(row["evidence_for"]) for row in answers]

    assert circle == ["0", "1", "2"]
    assert all("deadlock" in words for words in said)
    assert rows(loaded, "select count(*) from hang_source where is_source") == [(0,)]


def test_a_member_without_a_bundle_is_not_observed_and_not_accused(
    tmp_path: Path,
) -> None:
    paths = {path.stem: path for path in job(stuck=(0, 1)).write(tmp_path)}

    with Case.create(None) as made:
        load_bundles(made, [paths["a"]])
        verdict = verdicts(made)
        unseen = rows(made, "select subject_id from hang_unseen order by 1")

    assert [verdict[rank] for rank in ("0", "1")] == ["clear", "clear"]
    assert len(unseen) == 2
    assert all(verdict[name] == "not_observed" for (name,) in unseen)
    assert "found" not in verdict.values()
