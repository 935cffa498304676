"""What hosts state of wall clocks narrows bands, and is dropped where it is false."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest

from tests.workbench.simulated_clocks import simulated_job
from tests.workbench.slewed_clocks import SlewedHost, slewed_host, solved
from workbench.analysis import clock_stated, clock_tables, wall_clock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workbench.analysis.clock_solver import Group
    from workbench.analysis.clock_stated import FalseStatement

MILLISECOND = 1_000_000
COUNT = 200
END_S = 80.0
METHODS = ["rendezvous"] * 4


def always_late(
    wall_off_ms: Sequence[float], stated_ms: Sequence[float | None]
) -> tuple[Group, Group, tuple[FalseStatement, ...], int]:
    """Return the group without and with what hosts state, the last host 50 ms late.

    The last number counts instants of the narrowed group that lie outside their band.
    """
    count = len(stated_ms)
    job = simulated_job(count, COUNT, late=lambda _: {count - 1: 0.05})
    hosts = [
        slewed_host(
            seed=at,
            slew_ppm=0.0,
            end_s=END_S,
            wall_off_ns=round(off * MILLISECOND),
            stated_us=None if stated is None else round(stated * 1_000),
        )
        for at, (off, stated) in enumerate(zip(wall_off_ms, stated_ms, strict=True))
    ]
    made = solved(hosts, job.arrival, job.completion)
    walls = {
        at: wall_clock.WallReadings.of(host.readings(at, END_S))
        for at, host in enumerate(hosts)
    }
    group, dropped = clock_stated.narrowed(made.group, made.clocks, walls)
    rows = clock_tables.clock_rows(group, made.clocks, METHODS)
    outside, _ = replace(made, group=group, rows=rows).error_of(hosts, job.end)
    return made.group, group, dropped, outside


def widest(group: Group) -> float:
    """Return the half-width of the widest band in the middle."""
    return float(group.half_width()[:, len(group.knots) // 2].max())


def test_stated_wall_clocks_place_a_host_that_is_always_late() -> None:
    before, after, dropped, outside = always_late([0.5, -0.5, 0.9], [1, 1, 1])

    assert widest(before) > 20 * MILLISECOND
    assert widest(after) < 2.1 * MILLISECOND
    assert dropped == ()
    assert outside == 0
    late = next(at for at, clock in enumerate(after.clocks) if clock == 2)
    assert (
        clock_tables.method_of(after, late, METHODS) == "rendezvous, stated wall clocks"
    )


def test_one_host_that_states_nothing_bounds_nobody() -> None:
    before, after, dropped, _ = always_late([0, 0], [1, None])

    assert after is before
    assert dropped == ()


def test_one_false_statement_among_three_is_told_and_dropped() -> None:
    before, after, dropped, outside = always_late([0, 80, 0], [1, 1, 1])

    assert [each.clock for each in dropped] == [1]
    assert dropped[0].against in (0, 2)
    assert dropped[0].excess_ns > 20 * MILLISECOND
    assert widest(after) < widest(before)
    assert outside == 0


def test_of_two_statements_that_contradict_each_other_neither_is_used() -> None:
    before, after, dropped, _ = always_late([0, 900], [1, 1])

    assert sorted(each.clock for each in dropped) == [0, 1]
    assert after.upper is before.upper


def test_a_wall_clock_that_was_set_contradicts_itself_and_is_dropped() -> None:
    job = simulated_job(3, COUNT)
    hosts = [slewed_host(seed=at, slew_ppm=0.0, end_s=END_S) for at in range(3)]
    made = solved(hosts, job.arrival, job.completion)
    walls = {}
    for at, host in enumerate(hosts):
        rows = replace(host, stated_us=1_000).readings(at, END_S)
        if at == 1:
            late = np.arange(len(rows)) > len(rows) // 2
            rows = rows.with_columns(
                realtime_ns=rows["realtime_ns"] - late * 500 * MILLISECOND
            )
        walls[at] = wall_clock.WallReadings.of(rows)

    group, dropped = clock_stated.narrowed(made.group, made.clocks, walls)

    assert [(each.clock, each.against) for each in dropped] == [(1, 1)]
    assert np.array_equal(group.upper, made.group.upper)


def test_two_stated_errors_add_up_to_what_two_wall_clocks_may_be_apart() -> None:
    host = slewed_host(seed=0, slew_ppm=0.0, end_s=END_S, stated_us=10)

    readings = wall_clock.WallReadings.of(host.readings(0, END_S))
    limit = wall_clock.limit(readings, readings)

    assert readings.is_stated.all()
    assert limit is not None
    assert limit.low_ns <= -20_000 < 20_000 <= limit.high_ns


@pytest.mark.parametrize("status", [64, None])
def test_an_unsynchronised_wall_clock_is_right_within_an_hour_for_two(
    status: int | None,
) -> None:
    rows = SlewedHost(
        offset_ns=5,
        crystal_ppm=0.0,
        changes_s=np.zeros(1),
        slew_ppm=np.zeros(1),
        stated_us=10,
    ).readings(0, 10.0)
    rows = rows.with_columns(adjtime_status=pl.lit(status, dtype=pl.Int64))

    readings = wall_clock.WallReadings.of(rows)
    limit = wall_clock.limit(readings, readings)

    assert not readings.is_stated.any()
    assert limit is not None
    assert limit.high_ns == pytest.approx(wall_clock.HOUR_NS, rel=1e-6)
    assert wall_clock.limit(readings, None) is None
