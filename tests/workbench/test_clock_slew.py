"""What NTP slews into MONOTONIC is taken out, and the truth stays inside the band."""

from __future__ import annotations

import numpy as np
import pytest

from tests.workbench.simulated_clocks import simulated_job
from tests.workbench.slewed_clocks import SECOND, slewed_host, solved
from workbench.analysis.clock_slew import slew_of

COUNT = 600
END_S = 200.0


@pytest.mark.parametrize("slew_ppm", [5.0, 40.0, 300.0])
@pytest.mark.parametrize("seed", range(2))
def test_slewed_hosts_stay_inside_a_narrower_band(slew_ppm: float, seed: int) -> None:
    job = simulated_job(3, COUNT, seed=seed)
    hosts = [
        slewed_host(seed=10 * seed + at, slew_ppm=slew_ppm, end_s=END_S)
        for at in range(3)
    ]

    without = solved(hosts, job.arrival, job.completion)

    outside, bands = without.error_of(hosts, job.end)
    assert outside == 0
    assert np.median(bands) < 45_000
    assert without.group.wander <= 3e-6


def test_without_raw_the_wander_is_allowed_for_and_the_band_is_wider() -> None:
    job = simulated_job(3, COUNT)
    hosts = [slewed_host(seed=at, slew_ppm=20.0, end_s=END_S) for at in range(3)]

    with_raw = solved(hosts, job.arrival, job.completion)
    plain = solved(hosts, job.arrival, job.completion, use_raw=False)

    outside, wide = plain.error_of(hosts, job.end)
    _, narrow = with_raw.error_of(hosts, job.end)
    assert outside == 0
    assert with_raw.group.wander < plain.group.wander / 2
    assert np.median(narrow) < 0.8 * np.median(wide)


def test_straight_times_come_back_and_lie_within_their_error() -> None:
    host = slewed_host(seed=4, slew_ppm=100.0, end_s=END_S)
    readings = host.readings(0, END_S)
    columns = ("monotonic_ns", "monotonic_raw_ns", "bracket_ns")
    slew = slew_of(*(readings[name].to_numpy() for name in columns))
    assert slew is not None
    seconds = np.linspace(0.0, END_S, 5001)
    own = host.monotonic(seconds)

    straight = slew.straight(own)

    assert np.abs(slew.own(straight) - own).max() <= 1
    raw = host.raw(seconds)
    scale = (own[-1] - own[0]) / (raw[-1] - raw[0])
    truth = own[0] + (raw - raw[0]) * scale
    assert (np.abs(straight - truth) <= slew.error(own) + 2).all()
    assert np.median(slew.error_ns) < 15_000
    assert len(slew.own_ns) <= 257


def test_clocks_that_agree_have_no_slew() -> None:
    monotonic = np.arange(100) * SECOND
    noise = np.random.default_rng(1).integers(-200, 200, 100)

    assert slew_of(monotonic, monotonic + noise, np.full(100, 400)) is None
    assert slew_of(monotonic[:2], monotonic[:2], np.full(2, 400)) is None
