"""Two hosts on one kernel look like two hosts from inside, and leave nothing behind."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.lab.building import why_not_built
from tests.lab.jobs import start_mpi_job, start_nccl_job
from tests.lab.namespaces import Lab, LabHost, cgroup_root, lab

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(shutil.which("nsenter") is None, reason="needs nsenter"),
    pytest.mark.skipif(why_not_built() is not None, reason=why_not_built() or ""),
]


def output_of(host: LabHost, *command: str) -> str:
    words = host.words(command, cwd=host.folder)
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def lab_cgroups() -> set[Path]:
    return set(cgroup_root().glob(f"coldtrace-lab-{os.getpid()}-*"))


def members(host: LabHost) -> list[str]:
    return (host.cgroup / "cgroup.procs").read_text().split()


def test_each_host_has_its_own_identity() -> None:
    files = ("/proc/sys/kernel/random/boot_id", "/etc/machine-id")
    ours = [Path(file).read_text() for file in files]

    with lab("hosta", "hostb") as made:
        names = [output_of(host, "hostname").strip() for host in made.hosts]
        seen = [[output_of(host, "cat", f) for f in files] for host in made.hosts]

    assert names == ["hosta", "hostb"]
    for index in range(len(files)):
        assert len({ours[index], *(each[index] for each in seen)}) == 3
    assert [Path(file).read_text() for file in files] == ours


def test_a_lab_is_gone_when_it_closes_even_with_a_job_still_running() -> None:
    before = lab_cgroups()

    with lab("hosta", "hostb") as made:
        job = start_nccl_job(made, ranks_a_host=1, options={"steps": 100_000})
        folder = made.folder
        holders = [host.holder.pid for host in made.hosts]
        while not all(len(members(host)) > 1 for host in made.hosts):
            pass
    job.end()

    assert lab_cgroups() == before
    assert not folder.exists()
    assert not any(Path(f"/proc/{pid}").exists() for pid in holders)


def test_two_labs_do_not_meet() -> None:
    with lab("hosta", "hostb") as one, lab("hosta", "hostb") as other:
        assert one.hosts[0].cgroup != other.hosts[0].cgroup
        assert nccl_says(one) == nccl_says(other) == "done: 4 ranks\n"


def nccl_says(made: Lab) -> str:
    options = {"steps": 3, "sleep_us": 1000, "prologue": 1}
    return start_nccl_job(made, ranks_a_host=2, options=options).wait(30)


def test_an_mpi_job_spans_both_hosts_and_stays_in_their_cgroups() -> None:
    with lab("hosta", "hostb") as made:
        job = start_mpi_job(made, ranks_a_host=2, options={"steps": 3})
        printed = job.wait(30)
        left = [members(host) for host in made.hosts]
        holders = [[str(host.holder.pid)] for host in made.hosts]

    assert printed == "done: 4 ranks, sum 4\n"
    assert left == holders
