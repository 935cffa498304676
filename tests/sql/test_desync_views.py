"""A communicator whose members make different calls is found, with who differs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import workbench.analysis  # noqa: F401 -- registers the models, which the views read
from tests.builders import SECOND, case
from tests.sql.standing import rows

if TYPE_CHECKING:
    from pathlib import Path

    from tests.builders import CaseBuilder
    from workbench.store.case import Case

MS = 1_000_000
CALLS = 11


def job(
    *,
    odd: tuple[int, ...] = (),
    hosts: str = "aabb",
    calls: int = CALLS,
    **changes: object,
) -> CaseBuilder:
    """Return four ranks that make some calls; the eighth of `odd` ranks differs."""
    made = case().communicator("world", size=len(hosts))
    for rank, host in enumerate(hosts):
        thread = made.host(host).rank(rank)
        for call in range(calls):
            columns: dict[str, Any] = {"element_count": 1024}
            if call == 7 and rank in odd:
                columns |= changes
            operation = columns.pop("operation", "all_reduce")
            start = SECOND + call * 20 * MS
            thread.collective(operation, start_ns=start, duration_ns=MS, **columns)
    return made


def answer(made: Case) -> dict[str, Any]:
    (row,) = made.frame("from finding where finding = 'finding_desync'").to_dicts()
    return row


def test_one_rank_that_makes_another_call_is_named(tmp_path: Path) -> None:
    made = job(odd=(2,), operation="broadcast").build(tmp_path)

    row = answer(made)
    order = made.frame("from collective_order").to_dicts()[0]

    assert (row["verdict"], row["confidence"]) == ("found", "high")
    assert "all agree up to call 6; call 7 is" in row["evidence_for"][0]
    assert (
        "all_reduce of 1024 elements, type 7 on ranks 0, 1, 3"
        in (row["evidence_for"][0])
    )
    assert row["evidence_for"][1] == "ranks 2 differ from the majority"
    assert (order["last_agreed_seq"], order["first_seq"]) == (6, 7)
    assert order["minority_ranks"] == [2]


@pytest.mark.parametrize(
    "changes", [{"element_count": 512}, {"data_type": 9}], ids=["size", "type"]
)
def test_size_and_type_are_checked_as_well(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    row = answer(job(odd=(1,), **changes).build(tmp_path))

    assert row["verdict"] == "found"
    assert row["evidence_for"][1] == "ranks 1 differ from the majority"


def test_without_a_majority_nobody_is_named(tmp_path: Path) -> None:
    row = answer(job(odd=(1, 2), operation="broadcast").build(tmp_path))

    assert (row["verdict"], row["confidence"]) == ("found", "medium")
    assert "no majority" in row["evidence_for"][1]


def test_members_of_one_host_are_compared_too(tmp_path: Path) -> None:
    row = answer(job(odd=(3,), hosts="aaaa", element_count=1).build(tmp_path))

    assert row["verdict"] == "found"
    assert row["evidence_for"][1] == "ranks 3 differ from the majority"


def test_members_that_agree_are_clear(tmp_path: Path) -> None:
    made = job().build(tmp_path)

    assert answer(made)["verdict"] == "clear"
    assert rows(made, "select first_seq, member_count from collective_order") == [
        (None, 4)
    ]


def test_calls_that_are_not_numbered_cannot_be_compared(tmp_path: Path) -> None:
    made = job(calls=2)
    for row in made.host("b").rows["collective"]:
        row["is_base_known"] = False

    row = answer(made.build(tmp_path))

    assert row["verdict"] == "not_decidable"
    assert "not numbered since it was made" in row["evidence_against"][0]
