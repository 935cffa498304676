"""A communicator whose members make different calls is found, with who differs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from tests.builders import SECOND, case
from tests.sql.standing import rows, stand

if TYPE_CHECKING:
    from pathlib import Path

    from tests.builders import CaseBuilder

MS = 1_000_000
CALLS = 11


def job(
    *,
    odd: tuple[int, ...] = (),
    hosts: str = "aabb",
    **changes: object,
) -> CaseBuilder:
    """Return four ranks that make some calls; the eighth of `odd` ranks differs."""
    made = case().communicator("world", size=len(hosts))
    for rank, host in enumerate(hosts):
        thread = made.host(host).rank(rank)
        for call in range(CALLS):
            columns: dict[str, Any] = {"element_count": 1024}
            if call == 7 and rank in odd:
                columns |= changes
            operation = columns.pop("operation", "all_reduce")
            start = SECOND + call * 20 * MS
            thread.collective(operation, start_ns=start, duration_ns=MS, **columns)
    return made


def answer(made: CaseBuilder, folder: Path) -> dict[str, Any]:
    """Return the one row of the finding's file."""
    (row,) = (
        stand(made, folder, "finding_desync").frame("from finding_desync").to_dicts()
    )
    return row


def test_one_rank_that_makes_another_call_is_named(tmp_path: Path) -> None:
    made = stand(job(odd=(2,), operation="broadcast"), tmp_path, "finding_desync")

    (row,) = made.frame("from finding_desync").to_dicts()
    (order,) = made.frame("from collective_order").to_dicts()
    said, who = row["evidence_for"]
    where = " and ".join(row["evidence_keys"])

    assert (row["verdict"], row["confidence"]) == ("found", "high")
    assert "all agree up to call 6; call 7 is" in said
    assert "all_reduce of 1024 elements, type 7 on ranks 0, 1, 3" in said
    assert who == "ranks 2 differ from the majority"
    assert (order["last_agreed_seq"], order["first_seq"]) == (6, 7)
    assert order["minority_ranks"] == [2]
    assert made.frame(f"from {row['evidence_view']} where {where}").height == 4


@pytest.mark.parametrize(
    ("column", "value"), [("element_count", 512), ("data_type", 9)]
)
def test_size_and_type_are_checked_as_well(
    tmp_path: Path, column: str, value: int
) -> None:
    row = answer(job(odd=(1,), **cast("dict[str, Any]", {column: value})), tmp_path)

    assert row["verdict"] == "found"
    assert row["evidence_for"][1] == "ranks 1 differ from the majority"


def test_without_a_majority_nobody_is_named(tmp_path: Path) -> None:
    row = answer(job(odd=(1, 2), operation="broadcast"), tmp_path)

    assert (row["verdict"], row["confidence"]) == ("found", "medium")
    assert "no majority" in row["evidence_for"][1]


def test_members_of_one_host_are_compared_too(tmp_path: Path) -> None:
    row = answer(job(odd=(3,), hosts="aaaa", element_count=1), tmp_path)

    assert row["verdict"] == "found"
    assert row["evidence_for"][1] == "ranks 3 differ from the majority"


def test_members_that_agree_give_no_row(tmp_path: Path) -> None:
    made = stand(job(), tmp_path, "finding_desync")

    assert rows(made, "from finding_desync") == []
    assert rows(made, "select first_seq, member_count from collective_order") == [
        (None, 4)
    ]


def test_calls_that_are_not_numbered_cannot_be_compared(tmp_path: Path) -> None:
    made = job()
    for row in made.host("b").rows["collective"]:
        row["is_base_known"] = False

    row = answer(made, tmp_path)

    assert row["verdict"] == "not_decidable"
    assert "not numbered since it was made" in row["evidence_against"][0]


def test_members_without_a_bundle_may_differ(tmp_path: Path) -> None:
    row = answer(job(hosts="aa").communicator("world", size=8), tmp_path)

    assert row["verdict"] == "not_decidable"
    assert "only 2 of its 8 members are in this case" in row["evidence_against"][0]
