"""The claim: what is odd about a case as a whole is a row, kept up to date."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.builders import SECOND, case
from tests.workbench.loading import kinds, load, rewritten, two_hosts
from workbench.store.load import load_bundles

if TYPE_CHECKING:
    from pathlib import Path

    from tests.builders import HostBuilder


def clones(folder: Path, *, start_utc: str) -> list[Path]:
    builder = two_hosts()
    for host in builder.hosts.values():
        host.changes["machine_id"] = "5" * 32
        host.rank(0 if host.name == "a" else 1)
    first, second = builder.write(folder)
    return [first, rewritten(second, start_utc=start_utc)]


def test_clones_of_one_machine_are_told_apart_and_named(tmp_path: Path) -> None:
    first, second = clones(tmp_path, start_utc="2026-11-30T00:53:20Z")

    made, report = load(first, second)

    assert kinds(report) == ["cloned_machine_id"]
    assert report.problems[0].message == (
        f"machine id {'5' * 32} is shared by a and b,"
        " two hosts that ran at the same time"
    )
    assert made.frame("select count(distinct host_id) from raw.bundle").item() == 2


def test_a_machine_after_a_reboot_is_no_clone(tmp_path: Path) -> None:
    first, second = clones(tmp_path, start_utc="2026-12-01T00:53:20Z")

    _, report = load(first, second)

    assert kinds(report) == []


def test_bundles_of_different_jobs_are_named(tmp_path: Path) -> None:
    builder = case()
    builder.host("a", job_id="train", world_size=1).rank(0).gpu_call(start_ns=1)
    builder.host("b", job_id="eval", world_size=1).rank(0).gpu_call(start_ns=1)

    _, report = load(*builder.write(tmp_path))

    assert [(p.kind, p.message) for p in report.problems] == [
        ("different_jobs", "bundles of different jobs in one case: eval, train")
    ]


def test_ranks_that_no_bundle_brings_are_named(tmp_path: Path) -> None:
    host = case().host("a", world_size=8)
    for rank in (0, 1, 2, 3, 4, 7):
        host.rank(rank)

    made, report = load(host.write(tmp_path))

    message = "no bundle brings ranks 5, 6 of the 8 of job job"
    assert [(p.kind, p.message) for p in report.problems] == [("missing_rank", message)]
    assert made.frame("select kind, message from raw.load_problem").rows() == [
        ("missing_rank", message)
    ]


def test_a_missing_rank_that_arrives_is_missing_no_longer(tmp_path: Path) -> None:
    builder = case()
    builder.host("a", world_size=2).rank(0)
    builder.host("b", world_size=2).rank(1)
    first, second = builder.write(tmp_path)
    made, report = load(first)
    assert kinds(report) == ["missing_rank"]

    later = load_bundles(made, [second], build=False)

    assert kinds(later) == []
    assert made.frame("select * from raw.load_problem").is_empty()


def claimed(host: HostBuilder, *, first_ns: int, exit_ns: int | None) -> None:
    """Say when the only process of a host was there."""
    host.facts["process"][0] |= {"first_ns": first_ns, "exit_ns": exit_ns}


def test_one_rank_claimed_by_two_processes_is_a_conflict(tmp_path: Path) -> None:
    builder = case()
    builder.host("a", world_size=1).rank(0)
    builder.host("b", world_size=1).rank(0)

    _, report = load(*builder.write(tmp_path))

    assert [(p.kind, p.message) for p in report.problems] == [
        (
            "rank_conflict",
            "rank 0 of job job is claimed by process 1000 on a and process 1000 on b",
        )
    ]


def test_a_rank_that_moved_after_a_restart_is_no_conflict(tmp_path: Path) -> None:
    builder = case()
    for name, first_ns, exit_ns in (("a", 10, 50 * SECOND), ("b", 60 * SECOND, None)):
        host = builder.host(name, world_size=1)
        host.rank(0)
        claimed(host, first_ns=first_ns, exit_ns=exit_ns)

    _, report = load(*builder.write(tmp_path))

    assert kinds(report) == []
