"""A lossy capture is counted and an open call never becomes a stall of its own.

The whole of one case: 338 calls that never returned, 12 of 2,500 records lost,
one negative length, one rank without a bundle.  What a torn file costs, frame by frame,
is in the tests of loading.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.builders import SECOND, case
from tests.sql.standing import rows, stand

if TYPE_CHECKING:
    from workbench.store.case import Case

MS = 1_000_000
OPEN_COUNT = 338
LOST, LEFT = 12, 2_488


@pytest.fixture(scope="module")
def lossy(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """Return the case with the views that judge it."""
    made = case().communicator("world", size=3)
    losses = {"off_cpu": {"lost_count": LOST}}
    host = made.host("a", stop_ns=2_400 * SECOND, world_size=3, stream_facts=losses)
    for rank in range(2):
        thread = host.rank(rank)
        thread.collective(start_ns=SECOND, duration_ns=MS)
        thread.off_cpu(start_ns=SECOND // 2, duration_ns=-412 if rank else 412)
    starts = SECOND // 4 + 1_000 * np.arange(LEFT - 2)
    host.events("off_cpu", start_ns=starts, pid=[1_000] * len(starts))
    for call in range(OPEN_COUNT):
        host.rank(1).collective(start_ns=2 * SECOND + call * MS)
    return stand(
        made,
        tmp_path_factory.mktemp("lossy"),
        "open_call",
        "coverage",
        "outer_span",
        "stg_off_cpu",
        "job_presence",
        "load_problem",
    )


def test_open_calls_are_listed_and_none_has_a_duration(lossy: Case) -> None:
    listed = rows(lossy, "select count(*), count(distinct start_ns) from open_call")
    lengths = rows(lossy, "select count(duration_ns) from stg_collective where is_open")
    longest = rows(lossy, "select max(end_ns - start_ns) from outer_span")

    assert listed == [(OPEN_COUNT, OPEN_COUNT)]
    assert lengths == [(0,)]
    assert longest == [(MS,)]


def test_what_was_lost_is_a_part_of_what_should_be_there(lossy: Case) -> None:
    ((ratio,),) = rows(
        lossy, "select lost_ratio from coverage where stream = 'off_cpu'"
    )

    assert 1 - ratio == pytest.approx(LEFT / (LEFT + LOST))
    assert round(100 * (1 - ratio), 2) == 99.52


def test_a_negative_length_is_counted_and_left_out(lossy: Case) -> None:
    kept = rows(lossy, "select duration_ns from stg_off_cpu where start_ns = 500000000")
    said = rows(
        lossy, "select message from load_problem where kind = 'negative_duration'"
    )

    assert sorted(kept, key=str) == [(412,), (None,)]
    assert "1 lengths below 0" in said[0][0]


def test_the_rank_without_a_bundle_is_named(lossy: Case) -> None:
    assert rows(lossy, "select missing_ranks from job_presence") == [([2],)]
