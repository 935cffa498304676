"""Rows of model.clock map a host's times as the solver said, without jumps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.workbench.simulated_clocks import SimulatedJob, simulated_job
from workbench.analysis import clock_tables
from workbench.analysis.clock_parts import HostClock
from workbench.analysis.clock_solver import Group, solve
from workbench.analysis.clock_tables import FAR_NS
from workbench.analysis.released_together import release_lines, release_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray


def host_clock(host: int, **parts: Any) -> HostClock:  # noqa: ANN401 -- fields of HostClock
    plain = {"segment": 0, "from_ns": None, "to_ns": None, "extent": None}
    return HostClock(host_id=100 + host, host_name=f"h{host}", **(plain | parts))


def group_of(job: SimulatedJob) -> Group:
    solution = solve(job.constraints(), extents=[None] * len(job.arrival))
    return solution.groups[0]


def mapped(
    rows: dict[str, NDArray[Any]], host_id: int, own: NDArray[np.int64]
) -> np.ndarray:
    """Return cluster times as SQL computes them from the rows."""
    mine = rows["host_id"] == host_id
    start = rows["from_ns"][mine]
    at = np.searchsorted(start, own, side="right") - 1
    since = own - start[at]
    return (
        own
        + rows["offset_ns"][mine][at]
        + np.rint(since * rows["rate"][mine][at]).astype(np.int64)
    )


@pytest.fixture(scope="module")
def job() -> SimulatedJob:
    return simulated_job(4, 200, wander_ppm=1.0)


@pytest.fixture(scope="module")
def rows(job: SimulatedJob) -> dict[str, NDArray[Any]]:
    return clock_tables.clock_rows(
        group_of(job), [host_clock(at) for at in range(4)], ["rendezvous"] * 4
    )


def test_mapped_times_of_one_instant_differ_by_less_than_the_pair_error(
    job: SimulatedJob, rows: dict[str, NDArray[Any]]
) -> None:
    group = group_of(job)
    seconds = np.linspace(0, job.end, 501)

    times = np.array(
        [mapped(rows, 100 + host, job.own(host, seconds)) for host in range(4)]
    )

    error = group.pair_error() + group.between_knots().max()
    for one in range(4):
        for other in range(one):
            assert np.abs(times[one] - times[other]).max() <= error[one, other].max()


def test_rows_of_a_host_meet_without_a_gap_or_a_jump(
    rows: dict[str, NDArray[Any]],
) -> None:
    for host in range(100, 104):
        mine = {name: values[rows["host_id"] == host] for name, values in rows.items()}
        ends = mine["to_ns"][:-1]

        before = mapped(rows, host, ends - 1)
        after = mapped(rows, host, ends)

        assert (mine["from_ns"][1:] == ends).all()
        assert (after - before >= 0).all()
        assert (after - before <= 3).all()


def test_first_and_last_rows_are_open_far_beyond_any_capture(
    rows: dict[str, NDArray[Any]],
) -> None:
    for host in range(100, 104):
        mine = rows["host_id"] == host
        span = rows["to_ns"][mine][-1] - rows["from_ns"][mine][0]
        assert span >= 2 * clock_tables.OPEN_NS


def test_the_reference_keeps_its_own_time(
    job: SimulatedJob, rows: dict[str, NDArray[Any]]
) -> None:
    own = job.own(0, np.array([1.0, 17.0]))

    assert (mapped(rows, 100, own) == own).all()
    assert (rows["error_ns"][rows["host_id"] == 100] == 0).all()


def test_every_row_names_the_reference_as_its_group(
    rows: dict[str, NDArray[Any]],
) -> None:
    assert set(rows["clock_group_id"].tolist()) == {100}


def test_a_lone_host_has_one_row_of_its_own_time() -> None:
    rows = clock_tables.alone_rows(host_clock(7))

    assert rows["from_ns"].tolist() == [-FAR_NS]
    assert rows["to_ns"].tolist() == [FAR_NS]
    assert rows["offset_ns"].tolist() == [0]
    assert rows["clock_group_id"].tolist() == [107]
    assert rows["method"].tolist() == ["own clock"]


def test_a_cut_off_part_of_a_host_never_shares_the_group_of_another_part() -> None:
    cut = host_clock(7, segment=1, from_ns=1_000, to_ns=2_000)

    rows = clock_tables.alone_rows(cut)

    assert rows["from_ns"].tolist() == [1_000]
    assert rows["to_ns"].tolist() == [2_000]
    assert rows["clock_group_id"].tolist() == [-108]


def test_pairs_cover_both_orders_and_all_of_cluster_time(job: SimulatedJob) -> None:
    rows = clock_tables.pair_rows(group_of(job), [host_clock(at) for at in range(4)])

    pairs = set(
        zip(rows["host_id"].tolist(), rows["other_host_id"].tolist(), strict=True)
    )
    assert len(pairs) == 12
    one = (rows["host_id"] == 101) & (rows["other_host_id"] == 103)
    assert rows["from_ts_ns"][one][0] == -FAR_NS
    assert rows["to_ts_ns"][one][-1] == FAR_NS
    assert (rows["from_ts_ns"][one][1:] == rows["to_ts_ns"][one][:-1]).all()
    assert (rows["error_ns"] > 0).all()


def test_exits_place_a_host_that_is_always_late_within_its_wide_proved_band() -> None:
    job = simulated_job(2, 300, late=lambda _: {1: 0.05})
    group = group_of(job)
    clocks = [host_clock(at) for at in range(2)]

    rows = release_rows(group, job.constraints(), clocks)

    seconds = job.completion[0, 20:280]
    off = mapped(rows, 101, job.own(1, seconds)) - mapped(
        rows, 100, job.own(0, seconds)
    )
    assert group.half_width().max() > 20_000_000
    assert np.abs(off).max() < 40_000
    assert set(rows["method"].tolist()) == {"reference", "released together"}


def test_exits_that_contradict_the_proof_give_no_rows() -> None:
    job = simulated_job(2, 300)
    group = group_of(job)
    exits = job.constraints()
    exits.completion_ns[exits.clock == 1] += 5_000_000

    rows = release_rows(group, exits, [host_clock(at) for at in range(2)])

    assert set(rows["host_id"].tolist()) == {100}


def test_without_exits_only_the_reference_has_a_line() -> None:
    group = group_of(simulated_job(2, 50))

    lines = release_lines(
        group, simulated_job(2, 50).constraints().where(np.array([], dtype=int))
    )

    assert list(lines) == [group.reference]
