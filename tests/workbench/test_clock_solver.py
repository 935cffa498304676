"""The band holds the truth, and is only as narrow as the rendezvous prove."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.workbench.simulated_clocks import SimulatedJob, outside, simulated_job
from workbench.analysis import clock_closure, clock_solver, clock_tables
from workbench.analysis.clock_parts import HostClock
from workbench.analysis.clock_solver import Group, solve

MATCHED_ONLY = [None] * 200


def one_group(solution: clock_solver.Solution) -> Group:
    assert len(solution.groups) == 1
    assert solution.alone == ()
    assert solution.contradictions == ()
    return solution.groups[0]


def solved(job: SimulatedJob) -> Group:
    return one_group(solve(job.constraints(), extents=MATCHED_ONLY[: len(job.arrival)]))


@pytest.mark.parametrize("seed", range(4))
def test_two_hosts_with_offset_drift_and_wander_stay_inside_the_band(seed: int) -> None:
    job = simulated_job(2, 300, wander_ppm=1.0, seed=seed)

    group = solved(job)

    assert outside(group, job)[0] == 0


@pytest.mark.parametrize("period", [30.0, 100.0, 600.0])
@pytest.mark.parametrize("seed", range(2))
def test_eight_hosts_that_all_wander_stay_inside_the_band(
    seed: int, period: float
) -> None:
    job = simulated_job(8, 300, wander_ppm=1.0, period=period, seed=seed)

    group = solved(job)

    assert outside(group, job)[0] == 0


def test_a_thousand_collectives_of_two_hosts_give_a_band_below_30_us() -> None:
    job = simulated_job(2, 1000, wander_ppm=1.0)

    group = solved(job)

    half = np.delete(group.half_width(), group.reference, axis=0)
    error = np.maximum(half[:, :-1], half[:, 1:]) + group.between_knots()
    assert np.median(error) < 30_000
    assert outside(group, job)[0] == 0


def test_a_host_late_now_and_then_does_not_widen_the_band() -> None:
    late = simulated_job(
        8, 280, late=lambda k: {5: 0.29} if k % 14 == 13 else {}, wander_ppm=1.0
    )

    group = solved(late)

    assert np.median(group.half_width()) < 100_000
    assert outside(group, late)[0] == 0


def test_a_host_that_is_always_last_leaves_a_band_of_half_its_lateness() -> None:
    job = simulated_job(2, 300, late=lambda _: {1: 0.05})

    group = solved(job)

    middle = group.half_width().max(axis=0)[len(group.knots) // 2]
    assert 20e6 < middle < 30e6
    assert outside(group, job)[0] == 0


def test_hosts_that_never_met_are_joined_through_others() -> None:
    ring = [[0, 1], [1, 2], [2, 3]]
    job = simulated_job(4, 450, groups=ring)

    group = solved(job)

    assert np.isfinite(group.upper).all()
    assert outside(group, job)[0] == 0


def test_hosts_without_a_common_rendezvous_are_groups_of_their_own() -> None:
    job = simulated_job(5, 200, groups=[[0, 1], [2, 3]])

    solution = solve(job.constraints(), extents=MATCHED_ONLY[:5])

    assert sorted(group.clocks for group in solution.groups) == [(0, 1), (2, 3)]
    assert solution.alone == (4,)
    assert solution.contradictions == ()


def test_no_rendezvous_at_all_leaves_every_host_alone() -> None:
    job = simulated_job(3, 1, groups=[[0]])

    solution = solve(job.constraints(), extents=MATCHED_ONLY[:3])

    assert solution.groups == ()
    assert solution.alone == (0, 1, 2)


def test_a_bound_on_one_side_alone_joins_nobody() -> None:
    both = simulated_job(2, 50).constraints()
    one_way = replace(both, has_arrival=both.clock == 0, has_completion=both.clock == 1)

    solution = solve(one_way, extents=MATCHED_ONLY[:2])

    assert solution.groups == ()
    assert solution.alone == (0, 1)


def test_a_single_rendezvous_bounds_two_clocks() -> None:
    job = simulated_job(2, 1)

    group = solved(job)

    assert np.isfinite(group.upper).all()
    assert outside(group, job)[0] == 0


def test_the_band_grows_towards_the_ends_of_the_captures() -> None:
    job = simulated_job(2, 100)
    extents = [
        (
            int(job.own(host, np.array([-5.0]))[0]),
            int(job.own(host, np.array([60.0]))[0]),
        )
        for host in range(2)
    ]

    group = one_group(solve(job.constraints(), extents=extents))

    half = group.half_width().max(axis=0)
    assert half[0] > half[1:-1].min()
    assert half[-1] > half[1:-1].max()


def test_one_host_with_wrong_numbers_is_separated_from_the_seven_others() -> None:
    job = simulated_job(8, 200)

    solution = solve(job.constraints(shift={3: 5}), extents=MATCHED_ONLY[:8])

    (contradiction,) = solution.contradictions
    assert contradiction.separated == (3,)
    assert contradiction.excess_ns > 0
    assert solution.alone == (3,)
    assert solution.groups[0].clocks == (0, 1, 2, 4, 5, 6, 7)


def test_of_two_hosts_that_contradict_each_other_neither_is_believed() -> None:
    job = simulated_job(2, 200)

    solution = solve(job.constraints(shift={1: 3}), extents=MATCHED_ONLY[:2])

    (contradiction,) = solution.contradictions
    assert sorted(contradiction.clocks) == [0, 1]
    assert solution.groups == ()
    assert solution.alone == (0, 1)


def test_a_cycle_of_three_is_found_where_every_pair_alone_is_possible() -> None:
    upper = np.array([[0.0, -5.0, 9.0], [9.0, 0.0, -5.0], [-5.0, 9.0, 0.0]])

    cycle, excess = clock_closure.shortest_negative_cycle(upper)

    assert sorted(cycle) == [0, 1, 2]
    assert excess == -15.0


def test_more_wander_than_one_ppm_is_found_and_allowed_for() -> None:
    job = simulated_job(4, 500, wander_ppm=5.0, period=100.0)

    group = solved(job)

    assert 2e-6 < group.wander <= 50e-6
    assert outside(group, job)[0] == 0


def test_the_reference_has_most_rendezvous_and_ties_go_to_the_first() -> None:
    uneven = simulated_job(3, 300, groups=[[0, 1], [1, 2]])
    even = simulated_job(3, 100)

    assert solved(uneven).clocks[solved(uneven).reference] == 1
    assert solved(even).clocks[solved(even).reference] == 0


def test_the_error_of_a_difference_is_below_the_sum_of_two_errors() -> None:
    job = simulated_job(8, 300)

    group = solved(job)

    half = group.half_width()
    summed = half[:, None] + half[None]
    others = [at for at in range(8) if at != group.reference]
    pair = group.pair_error()[np.ix_(others, others)]
    assert np.median(pair) < 0.8 * np.median(summed[np.ix_(others, others)])


def three_clocks(count: int = 600) -> SimulatedJob:
    """Return case 8: B is 11.56 s ahead, C drifts by 40 ppm, exits jitter by 0.8 ms."""
    random = np.random.default_rng(8)
    met = np.arange(1, count + 1) * 0.5
    arrival = met + random.uniform(0, 1e-3, (3, count))
    completion = arrival.max(axis=0) + random.uniform(0, 0.8e-3, (3, count))
    return SimulatedJob(
        arrival=arrival,
        completion=completion,
        offset_ns=(0, 11_560_000_000, 777_000_000_000_000),
        rate=np.array([0.0, 0.0, 40e-6]),
        wander=np.zeros(3),
        period=100.0,
        phase=np.zeros(3),
    )


def test_offset_and_drift_of_three_clocks_are_recovered() -> None:
    job = three_clocks()

    group = solved(job)

    rows = clock_tables.clock_rows(
        group,
        [
            HostClock(
                host_id=at,
                host_name=f"h{at}",
                segment=0,
                from_ns=None,
                to_ns=None,
                extent=None,
            )
            for at in range(3)
        ],
        ["rendezvous"] * 3,
    )
    at_knots = [rows["offset_ns"][rows["host_id"] == host][1:-1] for host in range(3)]
    times = [rows["from_ns"][rows["host_id"] == host][1:-1] for host in range(3)]
    drift = np.polyfit(times[2] - times[2][0], -at_knots[2].astype(float), 1)[0]
    assert np.abs(at_knots[1] + 11_560_000_000).max() < 500_000
    assert drift == pytest.approx(40e-6, abs=1e-6)
    assert outside(group, job)[0] == 0
