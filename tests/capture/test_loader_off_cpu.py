"""Absences from the CPU add up exactly, and say why the thread was away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.capture import fake_driver

if TYPE_CHECKING:
    from pathlib import Path

    from tests.capture.fake_driver import Session

pytestmark = [pytest.mark.bpf, pytest.mark.slow]

SLEEP, YIELD = 230, 24  # clock_nanosleep, sched_yield on x86-64
LOADERS = ("core", "core_of_task", "bcc")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fake_driver.build(tmp_path_factory.mktemp("driver"))


def absences(session: Session) -> list[dict[str, Any]]:
    """Return the records of the driver that are absences, not only totals."""
    return [row for row in session.rows("off_cpu") if not row["is_totals_only"]]


def skipped(session: Session, column: str) -> int:
    """Return a total of short absences, with those told at the end."""
    rows = session.rows("off_cpu") + session.in_flight.get("off_cpu", [])
    return sum(row[column] for row in rows)


def hits(session: Session) -> int:
    """Return how often threads of targets left the CPU, as the kernel counted."""
    return sum(c["hit_count"] for c in session.counters if c["stream"] == "off_cpu")


def untold(session: Session) -> int:
    """Return how many ends of absences the kernel did not tell the program of."""
    return sum(
        c["unmatched_return_count"]
        for c in session.counters
        if c["stream"] == "off_cpu"
    )


@pytest.fixture(scope="module", params=LOADERS)
def sleeping(request: pytest.FixtureRequest, folder: Path) -> Session:
    return fake_driver.run(request.param, folder, "sleep", streams="off_cpu")


def test_every_switch_is_a_record_or_counted_as_short(sleeping: Session) -> None:
    open_count = len(sleeping.in_flight["off_cpu"])

    assert hits(sleeping) == (
        len(absences(sleeping))
        + skipped(sleeping, "skipped_count")
        + open_count
        + untold(sleeping)
    )


def test_twenty_sleeps_of_5_ms_are_found(sleeping: Session) -> None:
    slept = [
        row
        for row in absences(sleeping)
        if row["off_state"] == 1 and row["syscall"] == SLEEP
    ]
    long = slept[:20]  # the short ones come after them
    asleep = sorted(row["duration_ns"] - row["runq_latency_ns"] for row in long)

    assert len(long) == 20
    assert all(row["has_runq_latency_ns"] and row["has_waker"] for row in long)
    # The timer runs before the thread leaves the CPU. Where something holds it up in
    # between, as a hypervisor may, that absence is shorter than its sleep of 5 ms.
    assert asleep[5] > 4_900_000
    assert asleep[0] > 1_000_000


def test_short_sleeps_are_only_added_up(sleeping: Session) -> None:
    assert skipped(sleeping, "skipped_count") > 0
    assert all(row["duration_ns"] >= 100_000 for row in absences(sleeping))
    # Each of them slept 20 us at the least.
    assert skipped(sleeping, "skipped_ns") >= 20_000


def test_an_absence_in_progress_is_open(sleeping: Session) -> None:
    (waiting,) = sleeping.in_flight["off_cpu"]

    assert waiting["pid"] == sleeping.pid
    assert waiting["is_open"]
    assert not waiting["has_duration_ns"]
    assert waiting["syscall"] == 0  # read, of the end of its input


def test_what_bcc_cannot_read_is_named(sleeping: Session) -> None:
    if not sleeping.detail.startswith("bcc"):
        assert (
            not {"next_pid", "is_iowait"} & sleeping.missing_columns["off_cpu"].keys()
        )
        return
    assert {"next_pid", "is_iowait"} <= sleeping.missing_columns["off_cpu"].keys()


def test_yielding_is_never_taken_for_preemption(folder: Path) -> None:
    session = fake_driver.run("core", folder, "yield", streams="off_cpu")
    rows = absences(session)

    yielded = [row for row in rows if row["is_yielded"]]
    # Most yields are over in microseconds; whether one lasts 100 us is chance.
    assert skipped(session, "skipped_count") + len(yielded) > 1_000
    assert {row["syscall"] for row in yielded} <= {YIELD}
    assert not [row for row in rows if row["is_preempted"] and row["is_yielded"]]
    assert hits(session) == (
        len(rows)
        + skipped(session, "skipped_count")
        + sum(row["is_open"] for row in session.in_flight["off_cpu"])
        + untold(session)
    )
    assert untold(session) < hits(session) / 1_000


def test_threads_that_share_a_cpu_wait_for_it(folder: Path) -> None:
    session = fake_driver.run("core", folder, "spin", streams="off_cpu")
    preempted = [row for row in absences(session) if row["is_preempted"]]

    # Two threads spin for a second on one CPU: each is away for about the half.
    waited = sum(row["runq_latency_ns"] for row in preempted)
    assert waited > 400_000_000
    assert all(row["runq_latency_ns"] == row["duration_ns"] for row in preempted)
    tids = {row["tid"] for row in preempted}
    assert len(tids) == 2
    # Whoever it was, another thread took the CPU, and one had it before.
    assert all(row["next_tid"] not in (0, row["tid"]) for row in preempted)
    assert all(row["prev_tid"] not in (0, row["tid"]) for row in preempted)
