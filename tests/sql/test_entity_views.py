"""Entities: hosts, processes, threads, ranks, communicators, and what is covered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.builders import CaseBuilder
from tests.builders import case as build_case
from tests.sql.standing import rows, stand
from workbench.store.views import library_folder

if TYPE_CHECKING:
    from pathlib import Path

    from workbench.store.case import Case

PIPELINE = {0: ("send", 1), 1: ("recv", 0)}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """Return four ranks on two hosts: a pipeline of two stages, twice."""
    job = build_case().communicator("world", kind="mpi", size=4)
    for rank in range(4):
        host = job.host(
            "ab"[rank // 2], world_size=5, streams=("collective", "off_cpu")
        )
        thread = host.rank(rank)
        for step in range(10):
            begin = 1_000_000 * (step + 1)
            thread.collective(start_ns=begin + rank, duration_ns=100)
            operation, peer = PIPELINE[rank % 2]
            thread.collective(
                operation, start_ns=begin + 500, duration_ns=50, peer_rank=peer
            )
    job.host("a").thread(77, pid=1_000, name="loader")
    folder = tmp_path_factory.mktemp("entity")
    views = (path.stem for path in (library_folder() / "entity").glob("*.sql"))
    return stand(job, folder, *views, "job_presence")


def test_host_has_its_name_and_its_bundles(made: Case) -> None:
    sql = "select host_name, cpu_count, bundle_count from host order by host_name"

    assert rows(made, sql) == [("a", 2, 1), ("b", 2, 1)]


def test_process_and_threads_are_listed_once(made: Case) -> None:
    processes = rows(made, "select pid, process_name from process order by pid")
    loader = rows(
        made, "select pid, tid, process_name from thread where thread_name = 'loader'"
    )

    assert processes == [(1_000 + rank, "python") for rank in range(4)]
    assert loader == [(1_000, 77, "python")]


def test_stages_of_a_pipeline_have_roles_of_their_own(made: Case) -> None:
    roles = dict(rows(made, "select rank, role from rank"))

    assert roles[0] == roles[2] == "all_reduce/4 send/4"
    assert roles[1] == roles[3] == "all_reduce/4 recv/4"


def test_rank_owns_every_thread_of_its_process(made: Case) -> None:
    sql = "select rank, count(*) from rank_thread group by rank order by rank"

    assert rows(made, sql) == [(0, 2), (1, 1), (2, 1), (3, 1)]


def test_communicator_joins_its_members_over_hosts(made: Case) -> None:
    members = "select rank, communicator_rank from communicator_member order by rank"
    whole = "select kind, size, job_id, member_count, host_count from communicator"

    assert rows(made, members) == [(rank, rank) for rank in range(4)]
    assert rows(made, whole) == [("mpi", 4, "job", 4, 2)]


def test_communicator_of_unknown_origin_is_matched_with_nobodys(tmp_path: Path) -> None:
    job = build_case().communicator("lost", origin=None, size=2)
    for rank in range(2):
        job.host("ab"[rank]).rank(rank).collective(
            start_ns=1_000, duration_ns=10, communicator="lost"
        )

    counts = rows(
        stand(job, tmp_path, "communicator"), "select member_count from communicator"
    )

    assert counts == [(1,), (1,)]


def test_every_rank_is_a_subject(made: Case) -> None:
    sql = (
        "select subject_kind, subject_id, rank from subject"
        " where subject_kind = 'rank' order by rank"
    )

    assert rows(made, sql) == [("rank", str(rank), rank) for rank in range(4)]


def test_subjects_of_two_jobs_carry_the_job(tmp_path: Path) -> None:
    jobs = build_case()
    for name in ("x", "y"):
        host = jobs.host(name, job_id=f"job{name}")
        host.rank(0).collective(start_ns=1_000, duration_ns=10, communicator=name)

    sql = "select subject_id from subject where subject_kind = 'rank' order by 1"

    named = rows(stand(jobs, tmp_path, "subject"), sql)

    assert named == [("jobx/0",), ("joby/0",)]


def test_stream_that_was_not_recorded_is_absent_for_the_reason_told(
    tmp_path: Path,
) -> None:
    told = [{"name": name, "reason": "no right to"} for name in ("gpu_call", "off_cpu")]
    job: CaseBuilder = build_case()
    host = job.host("a", streams=["off_cpu"], manifest={"absent_streams": told})
    host.rank(0).off_cpu(start_ns=2_000, duration_ns=10)
    sql = "select stream, state, reason from coverage where stream <> 'gpu_kernel'"
    sql += " order by stream"

    # A stream that is there and is called absent too is believed to be there.
    assert rows(stand(job, tmp_path, "coverage"), sql) == [
        ("collective", "absent", "collective: not recorded"),
        ("gpu_call", "absent", "gpu_call: no right to"),
        ("off_cpu", "observed", None),
    ]


def test_missing_rank_of_a_job_is_said(made: Case) -> None:
    sql = "select world_size, rank_count, missing_ranks, note from job_presence"

    assert rows(made, sql) == [(5, 4, [4], "1 of 5 ranks are in no bundle: 4")]


def covered(folder: Path, stream: str, **facts: float) -> list[tuple[Any, ...]]:
    """Return coverage of one host whose manifest says this of one stream."""
    job: CaseBuilder = build_case()
    host = job.host("a", stream_facts={stream: facts})
    host.rank(0).collective(start_ns=1_000, duration_ns=10)
    host.rank(0).off_cpu(start_ns=2_000, duration_ns=10)
    sql = f"select state, reason from coverage where stream = '{stream}'"
    return rows(stand(job, folder, "coverage"), sql)


def test_stream_nobody_asked_for_is_absent(made: Case) -> None:
    sql = "select state, reason from coverage where stream = 'gpu_call'"

    assert rows(made, sql) == [("absent", "gpu_call: not recorded")] * 2


def test_gpu_side_times_are_never_observed(made: Case) -> None:
    sql = "select distinct state from coverage where stream = 'gpu_kernel'"

    assert rows(made, sql) == [("absent",)]


def test_loss_over_one_percent_makes_a_stream_partial(tmp_path: Path) -> None:
    found = covered(tmp_path, "off_cpu", row_count=1, lost_count=1)

    assert found == [("partial", "off_cpu: 50.0 % of it was lost")]


def test_loss_is_told_with_its_cpus_and_how_long_it_lasted(tmp_path: Path) -> None:
    job = build_case()
    host = job.host("a", streams=("off_cpu",))
    host.rank(0).off_cpu(start_ns=2_000, duration_ns=10)
    for cpu, first_ns, last_ns in ((1, 2_000, 3_000), (7, 900, 2_500_000_900)):
        times = {"lost_count": 1, "first_ns": first_ns, "last_ns": last_ns}
        host.fact(
            "loss",
            stream="off_cpu",
            probe_id=None,
            cpu=cpu,
            reason="ring_full",
            **times,
        )
    sql = "select lost_ratio, reason from coverage where stream = 'off_cpu'"

    ((ratio, reason),) = rows(stand(job, tmp_path, "coverage"), sql)

    assert ratio == pytest.approx(2 / 3)
    assert reason == "off_cpu: 66.7 % of it was lost, on 2 CPUs within 2.5 s"


def test_a_stream_that_was_thinned_is_partial_and_no_other(tmp_path: Path) -> None:
    job = build_case()
    host = job.host("a", streams=("off_cpu", "collective"))
    host.rank(0).off_cpu(start_ns=2_000, duration_ns=10)
    host.rank(0).collective(start_ns=2_000, duration_ns=10)
    stood = stand(job, tmp_path / "whole", "coverage")
    (start_ns,) = rows(stood, "select start_ns from stg_bundle")[0]
    host.fact(
        "budget_step",
        time_ns=start_ns + 4_200_000_000,
        step="off_cpu_totals",
        stream="off_cpu",
        effect="all absences are only added up",
        share_ppm=30_000,
        budget_ppm=20_000,
    )
    sql = (
        "select stream, state, reason from coverage where state <> 'absent' order by 1"
    )

    found = rows(stand(job, tmp_path / "thin", "coverage"), sql)

    assert found == [
        ("collective", "observed", None),
        (
            "off_cpu",
            "partial",
            "off_cpu: to save time, all absences are only added up from 4.2 s on",
        ),
    ]


def test_refused_probe_makes_a_stream_partial(tmp_path: Path) -> None:
    facts = {"asked_probe_count": 3, "attached_probe_count": 2}

    found = covered(tmp_path, "collective", **facts)

    assert found == [("partial", "collective: 2 of its 3 probes were attached")]


def test_probes_that_nobody_ran_through_prove_nothing(tmp_path: Path) -> None:
    facts = {"asked_probe_count": 3, "attached_probe_count": 3, "hit_count": 0}

    (state, _), *_ = covered(tmp_path, "gpu_call", **facts)

    assert state == "silent"


def test_tracepoint_without_hits_is_observed(tmp_path: Path) -> None:
    (state, reason), *_ = covered(tmp_path, "off_cpu", hit_count=0)

    assert (state, reason) == ("observed", None)


def test_every_cause_and_threshold_is_explained(made: Case) -> None:
    causes = rows(made, "select code from cause where meaning = '' or next_step = ''")
    classes = rows(
        made,
        "select class from syscall_class where class not in (select"
        " class from cause where class is not null)",
    )
    limits = dict(rows(made, "select name, value from threshold"))

    assert causes == []
    assert classes == []
    assert (limits["straggler_alone"], limits["straggler_share"]) == (1.05, 0.5)


def test_load_problem_names_the_host(tmp_path: Path) -> None:
    host = build_case().host("a")
    host.rank(0).collective(start_ns=1_000, duration_ns=-5)

    found = rows(
        stand(host, tmp_path, "load_problem"),
        "select kind, host_name from load_problem",
    )

    assert ("negative_duration", "a") in found
