"""Claim: an inventory says what a recording cost, gave up, missed, and never heard."""

from __future__ import annotations

from typing import Any

from capture.show_cost import cost_lines, given_up, missed
from capture.silent_probes import silence

S = 1_000_000_000
COST = {
    "user_ns": 3 * S // 2,
    "system_ns": S // 4,
    "rss_bytes": 172_000_000,
    "rss_without_rings_bytes": 35_600_000,
    "spool_bytes": 200_000,
}


def program(
    window_ns: int, run_ns: int | None, missed_count: int = 0
) -> dict[str, Any]:
    return {
        "program": "on_switch",
        "window_ns": window_ns,
        "run_ns": run_ns,
        "missed_count": missed_count,
    }


def probe(
    library_ref: int | None, hit_count: int, stream: str = "gpu_call"
) -> dict[str, Any]:
    return {
        "library_ref": library_ref,
        "hit_count": hit_count,
        "stream": stream,
        "is_attached": True,
    }


def test_cost_is_told_with_its_units() -> None:
    ring = {"stream": "off_cpu", "size_bytes": 1 << 20, "most_used_bytes": 1 << 18}
    facts = {"cost": [COST], "ring": [ring], "program": [program(S // 2, S // 100)]}

    assert dict(cost_lines(facts, 60.0)) == {
        "cost": "1.50 s user, 0.25 s system time of the recorder",
        "memory": "35.6 MB, 172.0 MB with its rings; 0.2 MB spooled",
        "ring fill": "at most off_cpu 25.00 %",
        "programs": "2.00 % of a CPU, sampled for 0.5 s of 60.0",
    }


def test_run_time_that_nobody_may_count_is_unknown_and_not_zero() -> None:
    (line,) = cost_lines({"program": [program(0, None)]}, 60.0)

    assert line == (
        "programs",
        "run time unknown: not counted, or not allowed to be",
    )


def test_bundle_without_these_facts_has_no_such_lines() -> None:
    assert list(cost_lines({}, 1.0)) == []


def test_a_step_of_the_budget_is_told_with_its_time_and_its_reason() -> None:
    step = {
        "time_ns": 7 * S,
        "step": "gpu_queries_off",
        "stream": "gpu_call",
        "effect": "queries of events and streams are left out",
        "share_ppm": 31_200,
        "budget_ppm": 20_000,
    }

    (told,) = given_up({"budget_step": [step]}, 3 * S)

    assert told == (
        "from 4.0 s on, gpu_call: queries of events and streams are left out "
        "(gpu_queries_off): it cost 3.12 % of a CPU, the budget is 2 %"
    )


def test_runs_that_the_kernel_left_out_are_told() -> None:
    facts = {"program": [program(0, None, 0), program(0, None, 3)]}

    assert list(missed(facts)) == [
        "the kernel left out 3 runs of on_switch, which was running on that CPU already"
    ]


def test_a_library_that_nobody_called_is_named() -> None:
    libraries = [
        {"library_ref": 0, "path": "/usr/lib/libcuda.so.1"},
        {"library_ref": 1, "path": "/opt/libnccl.so.2"},
    ]
    probes = [probe(0, 5), probe(0, 0), probe(1, 0), probe(None, 9, "off_cpu")]

    assert silence(probes, libraries) == (
        "never hit: 2 of 3 library probes, among them all those of /opt/libnccl.so.2"
    )


def test_many_libraries_that_nobody_called_are_counted() -> None:
    probes = [probe(ref, 0) for ref in range(9)]
    libraries = [{"library_ref": ref, "path": f"/l{ref}"} for ref in range(9)]

    assert silence(probes, libraries) == (
        "never hit: 9 of 9 library probes, among them all those of /l0 and /l1 and /l2 "
        "and 6 other libraries"
    )


def test_the_scheduler_is_silent_only_if_all_its_tracepoints_are() -> None:
    heard = [probe(None, 9, "off_cpu"), probe(None, 0, "off_cpu")]
    unheard = [probe(None, 0, "off_cpu"), probe(None, 0, "off_cpu")]

    assert silence(heard, []) is None
    assert silence(unheard, []) == "never hit: those of off_cpu"
