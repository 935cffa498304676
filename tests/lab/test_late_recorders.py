"""Recorders that come to a running job three seconds apart still tie their hosts.

The job is a real one over MPI, both recorders attach to it live, and one host's clock
is moved afterwards by a known error.  Which call is which nobody tells: the numbers of
the two recorders start at different calls.
"""

from __future__ import annotations

import contextlib
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from tests.lab.building import why_not_built
from tests.lab.diagnosing import diagnose
from tests.lab.jobs import start_mpi_job
from tests.lab.namespaces import lab
from tests.lab.plant_clock import ClockError, plant_clock, planted_in
from tests.lab.recording import Recorder, start_recorder

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.bpf,
    pytest.mark.slow,
    pytest.mark.skipif(why_not_built() is not None, reason=why_not_built() or ""),
]

RUNNING_S = 2.0
APART_S = 3.0
LONG = {"steps": 20_000, "prologue": 2, "sleep_us": 15_000, "jitter_us": 1_000}


def recorded_late(folder: Path) -> list[Path]:
    """Return the bundles of a job that ran before either recorder came."""
    with lab("hosta", "hostb") as made, contextlib.ExitStack() as ends:
        job = start_mpi_job(made, ranks_a_host=2, options=LONG)
        ends.callback(job.end)
        time.sleep(RUNNING_S)
        running = []
        for host in made.hosts:
            recorder = start_recorder(host, folder / host.name, ())
            ends.callback(recorder.kill)
            recorder.wait_until_recording()
            running.append(recorder)
            time.sleep(APART_S)
        # Each takes seconds to seal; nothing of one depends on the other.
        with ThreadPoolExecutor() as pool:
            return list(pool.map(Recorder.stop, running))


@pytest.mark.long
def test_late_recorders_are_matched_and_the_true_offset_is_in_the_band(
    tmp_path: Path,
) -> None:
    first, second = recorded_late(tmp_path)
    error = ClockError(offset_ns=250_000_000, rate=20e-6)
    moved = plant_clock(second, tmp_path / "moved.bundle", error)
    _, planted = planted_in(moved)

    with diagnose([first, moved]) as case:
        attached = case.frame(
            "select rank, state, shift, call_count, reason from model.late_attach"
            " order by rank"
        )
        clock = case.frame(
            "select * from model.clock_summary where state <> 'reference'"
        ).row(0, named=True)
        whole = case.frame(
            "select count(*) from rendezvous where is_complete and host_count = 2"
        ).item()

    assert attached["shift"].null_count() == 0, attached.rows()
    assert len(attached) == 4
    assert whole > 50
    assert clock["method"] == "rendezvous, shift proved"
    assert clock["state"] == "proved"
    sign = 1 if clock["host_name"] == "hostb" else -1
    for place in ("start", "end"):
        own = clock["from_ns" if place == "start" else "to_ns"]
        moved_by = planted.at(own) - own
        off = clock[f"offset_{place}_ns"] + sign * moved_by
        # The planted error is a function of true time, which is own time less itself.
        slack = abs(planted.rate * planted.offset_ns) + 1
        assert abs(off) <= clock[f"error_{place}_ns"] + slack
