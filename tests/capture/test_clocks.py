"""Claim: a clock reading holds every clock at one instant, to within its bracket."""

from __future__ import annotations

import time

from capture.clocks import read_clocks


def test_readings_rise_and_lie_within_the_time_of_the_call() -> None:
    before = time.monotonic_ns()
    readings = [read_clocks() for _ in range(20)]
    after = time.monotonic_ns()

    instants = [reading["monotonic_ns"] for reading in readings]

    assert before <= instants[0]
    assert instants == sorted(set(instants))
    assert instants[-1] <= after


def test_other_clocks_are_read_inside_the_bracket() -> None:
    offset = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()

    reading = read_clocks()

    distance = abs(reading["boottime_ns"] - reading["monotonic_ns"] - offset)
    assert reading["bracket_ns"] > 0
    # The offset itself was read a moment apart: a suspended host alone changes it.
    assert distance < 1_000_000_000
    assert reading["tai_ns"] >= reading["realtime_ns"]
    assert reading["monotonic_raw_ns"] > 0


def test_the_kernels_clock_discipline_is_read() -> None:
    reading = read_clocks()

    # 10,000 us a tick at 100 user ticks a second, and the kernel allows 10 % of change.
    assert 9_000 <= reading["adjtime_tick"] <= 11_000
    assert abs(reading["adjtime_frequency_ppb"]) <= 512_000
    assert isinstance(reading["adjtime_status"], int)
