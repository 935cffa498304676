"""A host that slept has three clocks; a wall clock that was set moves none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from tests.builders import SECOND
from workbench.analysis import clock_model
from workbench.analysis.clock_parts import host_clocks, jumps

if TYPE_CHECKING:
    from numpy.typing import NDArray


def readings_of(
    monotonic: NDArray[np.int64], boottime: NDArray[Any], **clocks: NDArray[Any]
) -> pl.DataFrame:
    """Return readings of host 7, whose other clocks agree unless told."""
    return pl.DataFrame(
        {
            "host_id": [7] * len(monotonic),
            "monotonic_ns": monotonic,
            "monotonic_raw_ns": clocks.get("raw", monotonic),
            "boottime_ns": boottime,
            "realtime_ns": clocks.get("realtime", boottime),
            "bracket_ns": [400] * len(monotonic),
        }
    )


def test_a_jump_of_boottime_over_monotonic_is_a_suspend() -> None:
    monotonic = np.arange(10) * SECOND
    boottime = monotonic.copy()
    boottime[6:] += 95 * SECOND

    assert jumps(readings_of(monotonic, boottime), "boottime_ns") == [
        (5 * SECOND, 6 * SECOND + 1, 95 * SECOND)
    ]
    assert jumps(readings_of(monotonic, monotonic), "boottime_ns") == []


def test_a_planted_drift_between_the_two_clocks_is_no_suspend() -> None:
    monotonic = np.arange(0, 3_000, 60) * SECOND
    boottime = monotonic + (monotonic * 40e-6).astype(np.int64)

    assert jumps(readings_of(monotonic, boottime), "boottime_ns") == []


def test_a_suspended_host_has_three_clocks_and_one_of_them_proves_nothing() -> None:
    hosts = pl.DataFrame(
        {
            "host_id": [7],
            "host_name": ["a"],
            "start_ns": [0],
            "stop_ns": [9 * SECOND],
            "bundle_count": [1],
        }
    )
    monotonic = np.arange(10) * SECOND
    boottime = monotonic + (np.arange(10) > 5) * 95 * SECOND
    readings = readings_of(monotonic, boottime)
    bound = pl.DataFrame(
        {
            "number": [0, 1, 2],
            "host_id": [7, 7, 7],
            "arrival_ns": [1 * SECOND, 5 * SECOND + 5, 7 * SECOND],
            "completion_ns": [1 * SECOND + 9, 7 * SECOND, None],
            "is_release": [True, True, True],
        }
    )

    clocks, found = host_clocks(hosts, readings)
    _, exits = clock_model.constraints_of(bound, clocks)

    assert [(jump.kind, jump.jump_ns) for jump in found] == [("suspend", 95 * SECOND)]
    assert [clock.is_cut_off for clock in clocks] == [False, True, False]
    assert [clock.segment for clock in clocks] == [0, 1, 2]
    assert exits.clock.tolist() == [0, 2]
    assert exits.completion_ns.tolist() == [1 * SECOND + 9, 7 * SECOND]


def test_a_wall_clock_that_was_set_is_a_step_and_cuts_nothing() -> None:
    hosts = pl.DataFrame(
        {
            "host_id": [7],
            "host_name": ["a"],
            "start_ns": [0],
            "stop_ns": [9 * SECOND],
            "bundle_count": [1],
        }
    )
    monotonic = np.arange(10) * SECOND
    realtime = monotonic - (np.arange(10) > 3) * SECOND // 2

    clocks, found = host_clocks(
        hosts, readings_of(monotonic, monotonic, realtime=realtime)
    )

    assert [clock.segment for clock in clocks] == [0]
    assert [(jump.kind, jump.jump_ns) for jump in found] == [("step", -SECOND // 2)]
