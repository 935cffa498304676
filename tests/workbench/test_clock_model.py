"""Recorded calls become clock tables that hold the planted clocks, and say what not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.builders import SECOND, case
from tests.workbench.made_jobs import MILLISECOND, loaded_job, work_of
from workbench.cli import main
from workbench.commands import clocks as clocks_command

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from workbench.store.case import Case

OFFSET_NS = 250 * MILLISECOND
RATE = 20e-6
PLACES = ("start", "middle", "end")


@pytest.fixture(scope="module")
def late_rank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
    """Two hosts, rank 2 late by 40 ms at each 7th step, the second clock off."""
    work = work_of(4, 70)
    work[6::7, 2] += 40 * MILLISECOND
    with loaded_job(
        tmp_path_factory.mktemp("late"),
        work,
        hosts={"a": [0, 1], "b": [2, 3]},
        clocks={"b": {"offset_ns": OFFSET_NS, "rate": RATE}},
    ) as made:
        yield made


@pytest.fixture(scope="module")
def always_late(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
    """Two hosts that share a job with rank 2 late at every step, and a lone third."""
    work = work_of(4, 40)
    work[:, 2] += 50 * MILLISECOND
    folder = tmp_path_factory.mktemp("always")
    with loaded_job(
        folder,
        work,
        hosts={"a": [0, 1], "b": [2, 3]},
        clocks={"b": {"offset_ns": -OFFSET_NS}},
    ) as made:
        yield made


def summary_of(made: Case, host: str) -> dict:
    rows = made.frame("select * from model.clock_summary where host_name = ?", [host])
    return rows.row(0, named=True)


def true_offset(own_ns: Any) -> Any:  # noqa: ANN401 -- a number or an array
    """Return cluster time (host a's, true time) less the time of host b's clock."""
    return (own_ns - OFFSET_NS) / (1 + RATE) - own_ns


def test_the_planted_offset_lies_inside_the_band_everywhere(late_rank: Case) -> None:
    found = summary_of(late_rank, "b")
    middle_ns = (found["from_ns"] + found["to_ns"]) // 2
    at = dict(zip(PLACES, (found["from_ns"], middle_ns, found["to_ns"]), strict=True))

    for place in PLACES:
        off = found[f"offset_{place}_ns"] - true_offset(at[place])
        assert abs(off) <= found[f"error_{place}_ns"]
        assert found[f"error_{place}_ns"] < 150_000
    assert found["state"] == "proved"
    assert found["reference_name"] == "a"


def test_mapped_arrivals_are_true_within_the_error_of_their_row(
    late_rank: Case,
) -> None:
    mapped = late_rank.frame(
        """
        select
            s.start_ns,
            s.start_ns + c.offset_ns + ((s.start_ns - c.from_ns) * c.rate)::bigint
                as ts_ns,
            c.error_ns
        from collective_span as s
        inner join host as h on s.host_id = h.host_id and h.host_name = 'b'
        inner join model.clock as c
            on
                s.host_id = c.host_id
                and s.start_ns >= c.from_ns
                and s.start_ns < c.to_ns
        """
    )

    own = mapped["start_ns"].to_numpy()
    off = mapped["ts_ns"].to_numpy() - own - true_offset(own)
    assert len(mapped) == 140
    assert (np.abs(off) <= mapped["error_ns"].to_numpy()).all()


def test_exits_estimate_the_same_line_more_narrowly(late_rank: Case) -> None:
    found = late_rank.frame(
        "select * from model.released_together where method = 'released together'"
    )

    assert len(found) > 1
    assert max(found["error_ns"].to_list()) < 50_000


def test_the_error_between_two_hosts_has_rows_in_both_orders(late_rank: Case) -> None:
    pairs = late_rank.frame(
        "select distinct host_id, other_host_id, method from model.clock_pair"
    )

    assert len(pairs) == 2
    assert set(pairs["method"].to_list()) == {"pair"}


def test_the_late_rank_is_the_one_with_the_excess(late_rank: Case) -> None:
    run = late_rank.frame(
        "select rank, alone_ratio, share_ratio from model.what_if"
        " where window_kind = 'run' order by alone_ratio desc"
    )
    pattern = late_rank.frame(
        "select * from model.straggler_pattern where rank = 2 and window_kind = 'run'"
    ).row(0, named=True)

    assert run["rank"][0] == 2
    assert run["alone_ratio"][0] > 1.3
    assert run["alone_ratio"][1] < 1.05
    assert pattern["affected_steps"] == list(range(6, 70, 7))
    assert pattern["period_steps"] == 7
    assert pattern["magnitude_ns"] == pytest.approx(40 * MILLISECOND, rel=0.02)


def test_a_host_that_is_always_last_is_undecided_and_says_so(always_late: Case) -> None:
    found = summary_of(always_late, "b")

    assert found["state"] == "undecided"
    assert found["last_ratio"] == 1.0
    assert "last to arrive at 100%" in found["reason"]
    assert 15 * MILLISECOND < found["error_middle_ns"] < 60 * MILLISECOND
    assert abs(found["offset_middle_ns"] - OFFSET_NS) <= found["error_middle_ns"]


def test_exits_still_place_the_host_that_is_always_last(always_late: Case) -> None:
    found = always_late.frame(
        """
        select c.offset_ns, c.from_ns, c.rate
        from model.released_together as c
        where c.method = 'released together' and c.from_ns > 0
        """
    )

    assert not found.is_empty()
    assert abs(found["offset_ns"].to_numpy() - OFFSET_NS).max() < 100_000


def test_clocks_prints_offset_band_and_reason_within_the_page(
    always_late: Case,
) -> None:
    lines = list(clocks_command.report(always_late))

    text = "\n".join(lines)
    assert max(len(line) for line in lines) <= 80
    assert "reference: cluster time is this host's own" in text
    assert "undecided: last to arrive at 100% of its rendezvous" in " ".join(
        text.split()
    )
    assert "band" in text


def test_clocks_prints_one_row_a_host_as_json(
    late_rank: Case, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["clocks", str(late_rank.path), "--format", "json"])

    rows = json.loads(capsys.readouterr().out)
    assert code == 0
    assert [row["host_name"] for row in rows] == ["a", "b"]
    assert [row["state"] for row in rows] == ["reference", "proved"]
    assert int(rows[1]["offset_start_ns"]) == pytest.approx(-OFFSET_NS, rel=1e-3)


def test_hosts_that_never_met_keep_their_own_time(tmp_path: Path) -> None:
    made = case()
    for name, rank in (("a", 0), ("b", 1)):
        thread = made.host(name).rank(rank)
        for at in range(5):
            thread.collective(
                start_ns=(at + 1) * SECOND, duration_ns=1_000, communicator=name
            )

    with made.build(tmp_path) as built:
        clock = built.frame("select * from model.clock order by host_id")
        states = built.frame("select state, reason from model.clock_summary")
        pairs = built.frame("from model.clock_pair")
        lines = list(clocks_command.report(built))

    assert pairs.is_empty()
    assert "  groups   times of these 2 cannot be compared: a; b" in lines
    assert clock["method"].to_list() == ["own clock"] * 2
    assert clock["offset_ns"].to_list() == [0, 0]
    assert clock["clock_group_id"].to_list() == clock["host_id"].to_list()
    assert states["state"].to_list() == ["alone", "alone"]
    assert states["reason"][0] == "no rendezvous with another host of this case"


@pytest.mark.parametrize(
    ("nanoseconds", "words"),
    [
        (0, "0 ns"),
        (999, "999 ns"),
        (12_345, "12.3 us"),
        (-250_020_000, "-250.020 ms"),
        (79_796_507_913_179, "79,796.507913 s"),
    ],
)
def test_lengths_are_given_in_the_unit_that_suits_them(
    nanoseconds: int, words: str
) -> None:
    assert clocks_command.length(nanoseconds) == words
