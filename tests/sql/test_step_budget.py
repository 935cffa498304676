"""The time budget: by nesting equal to a sweep, never negative, adding up to the step.

The sweep is the oracle: it goes over every instant at which something begins or ends
and asks what is innermost there.  It reads the raw tables and the steps, and shares no
code with the views.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import workbench.analysis  # noqa: F401 -- registers the models, which the views read
from tests.builders import case as build_case
from tests.sql.standing import rows

if TYPE_CHECKING:
    from tests.builders import ThreadBuilder
    from workbench.store.case import Case

RANKS, STEPS = 3, 9
STEP_NS = 10_000_000
SECOND_TID = 50
LONG_CALL = (25_000_000, 31_000_000)
LONG_AWAY = (61_000_000, 17_000_000, 7_500_000)
"""Start and length of spans over the edges of steps; the last is the wait for a CPU."""
SYNCS = ("stream_sync", "device_sync", "event_sync")
SLEEPS = {
    "read": "read",
    "fsync": "file",
    "poll": "network",
    "futex": "lock",
    "clock_nanosleep": "timed_sleep",
    "ioctl": "unexplained",
}


def away(random: Random, thread: ThreadBuilder, start: int, end: int) -> None:
    """Add an absence of some kind between two times."""
    kind = random.choice(("sleep", "disk", "stopped", "preempted", "yielded", "short"))
    length = random.randrange(1_000, max(1_001, (end - start) // 2))
    columns: dict[str, Any] = {"start_ns": start + 100, "duration_ns": length}
    if kind == "sleep":
        waited = random.randrange(length)
        syscall = random.choice(list(SLEEPS))
        thread.off_cpu(**columns, syscall=syscall, runq_latency_ns=waited)
    elif kind in ("disk", "stopped"):
        thread.off_cpu(**columns, off_state=kind, syscall="read", skipped_ns=300)
    elif kind == "short":
        thread.off_cpu(start_ns=start + 100, is_totals_only=True, skipped_ns=700)
    else:
        flag = {f"is_{kind}": True}
        thread.off_cpu(**columns, off_state="running", runq_latency_ns=length, **flag)


def step(random: Random, thread: ThreadBuilder, begin: int) -> None:
    """Add a step: gaps, calls and launches, each with an absence in it, maybe."""
    edges = sorted(random.sample(range(begin + 50_000, begin + 8_900_000, 20_000), 8))
    operations = ("stream_sync", "memcpy", "launch", "free")
    for number, (start, end) in enumerate(pairwise(edges)):
        if number % 2 == 0:
            operation = random.choice(operations)
            length = None if operation == "launch" else end - start - 5_000
            thread.gpu_call(operation, start_ns=start, duration_ns=length)
        if random.random() < 0.7:
            away(random, thread, start, end - 6_000)
    thread.collective(start_ns=begin + 9_000_000, duration_ns=700_000)
    if random.random() < 0.5:
        away(random, thread, begin + 9_000_000, begin + 9_600_000)


def second_thread(thread: ThreadBuilder) -> None:
    """Add a thread of rank 0 whose spans do not end with the steps."""
    thread.collective(start_ns=STEP_NS, duration_ns=1_000, communicator="own")
    thread.gpu_call("memcpy", start_ns=LONG_CALL[0], duration_ns=LONG_CALL[1])
    thread.off_cpu(
        start_ns=LONG_AWAY[0],
        duration_ns=LONG_AWAY[1],
        syscall="read",
        runq_latency_ns=LONG_AWAY[2],
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """Return three ranks whose steps are filled at random, one without off_cpu."""
    random = Random(14)  # noqa: S311 -- a made job, no secret
    job = build_case().communicator("world", kind="mpi")
    for rank in range(RANKS):
        thread = job.host("ab"[rank // 2]).rank(rank)
        for number in range(STEPS):
            step(random, thread, (number + 1) * STEP_NS)
    second_thread(job.host("a").thread(SECOND_TID, pid=1_000))
    for number in range(STEPS):
        thread = job.host("blind", streams=("collective", "gpu_call")).rank(RANKS)
        begin = (number + 1) * STEP_NS + 9_000_000
        thread.collective(start_ns=begin, duration_ns=700_000)
    return job.build(tmp_path_factory.mktemp("budget"))


def spans(case: Case, rank: int) -> list[tuple[int, int, int, str]]:
    """Return (start, end, depth, class) of all that one rank's thread did."""
    pid = 1_000 + rank
    found: list[tuple[int, int, int, str]] = []
    calls = case.frame(
        "select start_ns, start_ns + duration_ns, operation from raw.gpu_call"
        f" where tid = {pid} union all select start_ns, start_ns + duration_ns,"
        f" 'mpi' from raw.collective where tid = {pid} order by start_ns"
    ).rows()
    launch: int | None = None
    for start, end, operation in calls:
        if end is None:
            launch = start if launch is None else launch
            continue
        if launch is not None:
            found.append((launch, start, 1, "launch_gap"))
            launch = None
        kind = "gpu_sync_wait" if operation in SYNCS else "gpu_call"
        kind = "waiting_for_others" if operation == "mpi" else kind
        found.append((start, end, 1, kind))
    absences = case.frame(
        "select start_ns, duration_ns, runq_latency_ns, off_state, syscall, is_yielded"
        f" from raw.off_cpu where tid = {pid} and duration_ns is not null"
    ).rows()
    for start, length, runq, state, syscall, is_yielded in absences:
        queued = 0 if is_yielded else runq
        ready = start + length - queued
        kind = "yielded" if is_yielded else SLEEPS.get(syscall, "unexplained")
        kind = state if state in ("disk", "stopped") else kind
        found += [(start, ready, 2, kind), (ready, start + length, 2, "run_queue")]
    return found


def sweep(case: Case, rank: int) -> dict[tuple[int, str], int]:
    """Return the budget of one rank by (step, class), instant by instant."""
    found = spans(case, rank)
    total: dict[tuple[int, str], int] = defaultdict(int)
    steps = case.frame(
        f"select step, start_ns, end_ns from model.step where rank = {rank}"
    ).rows()
    for number, begin, stop in steps:
        edges = {begin, stop, *(edge for span in found for edge in span[:2])}
        inside = sorted(edge for edge in edges if begin <= edge <= stop)
        for start, end in pairwise(inside):
            on = [span for span in found if span[0] <= start and end <= span[1]]
            total[number, _class(on)] += end - start
        _take_short(case, rank, total, (number, begin, stop), found)
    return {key: value for key, value in total.items() if value}


def _class(on: list[tuple[int, int, int, str]]) -> str:
    """Return the class of an instant at which these spans are open."""
    around = next((kind for _, _, depth, kind in on if depth == 1), None)
    inner = next((kind for _, _, depth, kind in on if depth == 2), None)
    if around in ("waiting_for_others", "gpu_sync_wait") and inner == "run_queue":
        return "run_queue_in_wait"
    if inner is None or (around not in (None, "launch_gap") and inner != "run_queue"):
        return around or "on_cpu"
    return inner


def _take_short(
    case: Case,
    rank: int,
    total: dict[tuple[int, str], int],
    step_bounds: tuple[int, int, int],
    found: list[tuple[int, int, int, str]],
) -> None:
    """Move short absences outside calls from on_cpu to off_cpu_short."""
    number, *bounds = step_bounds
    totals = case.frame(
        f"select start_ns, skipped_ns from raw.off_cpu where tid = {1_000 + rank}"
        f" and start_ns >= {bounds[0]} and start_ns < {bounds[1]}"
    ).rows()
    calls = [s for s in found if s[2] == 1 and s[3] != "launch_gap"]
    outside = sum(
        skipped or 0
        for start, skipped in totals
        if not any(call[0] <= start < call[1] for call in calls)
    )
    short = min(outside, total[number, "on_cpu"])
    total[number, "off_cpu_short"] += short
    total[number, "on_cpu"] -= short


def budget(case: Case, rank: int) -> dict[tuple[int, str], int]:
    """Return the budget of one rank by (step, class) as the view has it."""
    sql = (
        "select step, class, duration_ns from step_budget"
        f" where rank = {rank} and is_main"
    )
    return {(number, kind): length for number, kind, length in rows(case, sql)}


@pytest.mark.parametrize("rank", range(RANKS))
def test_budget_by_nesting_equals_the_sweep(made: Case, rank: int) -> None:
    expected = sweep(made, rank)

    assert len(expected) > STEPS
    assert budget(made, rank) == expected


def test_budget_adds_up_to_every_step(made: Case) -> None:
    sql = (
        "select b.thread_id, s.step, max(s.end_ns - s.start_ns) - sum(b.duration_ns)"
        " from model.step as s inner join step_budget as b"
        " on s.rank = b.rank and s.step = b.step group by all"
    )
    gaps = rows(made, sql)

    assert len(gaps) == (RANKS + 2) * (STEPS - 1)
    assert {gap for _, _, gap in gaps} == {0}


def count(case: Case, start: int, end: int) -> tuple[int]:
    """Return how many steps of rank 0 a span touches."""
    sql = f"select 1 from model.step where rank = 0 and start_ns < {end}"
    return (len(rows(case, f"{sql} and end_ns > {start}")),)


def test_span_over_the_edge_of_steps_is_cut(made: Case) -> None:
    sql = (
        "select class, sum(duration_ns)::bigint, count(*) from step_budget"
        " where not is_main group by class"
    )
    budget_of = {kind: (total, steps) for kind, total, steps in rows(made, sql)}
    long_end = sum(LONG_CALL)
    ready, ran = sum(LONG_AWAY[:2]) - LONG_AWAY[2], sum(LONG_AWAY[:2])

    assert budget_of["gpu_call"] == (LONG_CALL[1], *count(made, LONG_CALL[0], long_end))
    assert budget_of["read"] == (
        ready - LONG_AWAY[0],
        *count(made, LONG_AWAY[0], ready),
    )
    assert budget_of["run_queue"] == (LONG_AWAY[2], *count(made, ready, ran))


def test_no_class_is_negative_and_parts_are_exact(made: Case) -> None:
    least = rows(made, "select min(duration_ns) from step_budget")
    parts = rows(made, "select min(duration_ns) from _budget_part")

    assert least[0][0] > 0
    assert parts[0][0] >= 0


def test_computing_is_not_claimed_without_off_cpu(made: Case) -> None:
    sql = "select distinct class from step_budget where rank = 3 order by 1"

    assert rows(made, sql) == [("unexplained",), ("waiting_for_others",)]


def test_outer_spans_hold_each_whole_call_and_no_other(made: Case) -> None:
    sql = "select count(*) from outer_span where class <> 'launch_gap'"
    raw = (
        "select (select count(*) from raw.collective)"
        " + (select count(*) from raw.gpu_call where duration_ns is not null)"
    )

    assert rows(made, sql) == rows(made, raw)


def test_launch_gap_reaches_from_the_first_launch_to_the_next_call(made: Case) -> None:
    gaps = {(a, b) for a, b, _, kind in spans(made, 0) if kind == "launch_gap"}
    sql = (
        "select l.start_ns, l.end_ns from _launch_gap as l inner join _step_thread as t"
        " on l.thread_id = t.thread_id where t.rank = 0 and t.is_main"
    )

    assert set(rows(made, sql)) == gaps


def test_waits_are_recorded_absences_of_their_rank(made: Case) -> None:
    sql = "select rank, sum(duration_ns), sum(skipped_ns) from wait_span group by rank"
    raw = (
        "select pid - 1000, sum(coalesce(duration_ns, 0)), sum(skipped_ns)"
        " from raw.off_cpu group by pid"
    )

    assert sorted(rows(made, sql)) == sorted(rows(made, raw))


def test_steps_of_a_thread_are_those_of_its_rank(made: Case) -> None:
    sql = "select distinct rank, step, start_ns, end_ns from {} order by all"

    assert rows(made, sql.format("_thread_step")) == rows(
        made, sql.format("model.step")
    )
