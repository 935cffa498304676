"""Claim: a rank and its job come from the launcher's words, the same on every host."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from capture.ranks import ALLOWED, job_of, rank_of, read_allowed, read_rank

TORCHRUN = {
    "RANK": "5",
    "LOCAL_RANK": "1",
    "WORLD_SIZE": "8",
    "MASTER_ADDR": "192.0.2.7",
    "MASTER_PORT": "29500",
    "TORCHELASTIC_RUN_ID": "night-17",
}
WAIT = "import sys; print('up', flush=True); sys.stdin.read()"


def test_a_real_childs_rank_is_read_and_nothing_else_of_its_environment() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", WAIT],
        env={**TORCHRUN, "API_TOKEN": "hush"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with child:
        assert child.stdout is not None
        child.stdout.readline()
        process = Path("/proc") / str(child.pid)
        rank = read_rank(process)
        words = read_allowed(process)
        child.communicate()

    assert rank is not None
    assert (rank.rank, rank.local_rank, rank.world_size) == (5, 1, 8)
    assert (rank.source, rank.job_id) == ("torchrun", "torchrun:night-17")
    assert set(words) == set(TORCHRUN)
    assert set(words) <= ALLOWED


def test_a_process_that_is_gone_has_no_rank(tmp_path: Path) -> None:
    assert read_rank(tmp_path / "1") is None


def test_run_id_none_is_every_jobs_default_and_names_nothing() -> None:
    words = {**TORCHRUN, "TORCHELASTIC_RUN_ID": "none"}

    assert job_of(words) == "rendezvous:192.0.2.7:29500"


def test_mpirun_inside_a_slurm_step_gives_its_own_rank() -> None:
    words = {
        "OMPI_COMM_WORLD_RANK": "3",
        "OMPI_COMM_WORLD_LOCAL_RANK": "1",
        "OMPI_COMM_WORLD_SIZE": "4",
        "PMIX_NAMESPACE": "1932066817",
        "SLURM_PROCID": "0",
        "SLURM_JOB_ID": "12",
    }

    rank = rank_of(words)

    assert rank is not None
    assert (rank.rank, rank.source, rank.job_id) == (3, "openmpi", "pmix:1932066817")


def test_slurm_and_pmi_name_job_and_step() -> None:
    slurm = rank_of({"SLURM_PROCID": "2", "SLURM_JOB_ID": "12", "SLURM_STEP_ID": "4"})
    pmi = rank_of({"PMI_RANK": "1", "PMI_SIZE": "2", "PMI_JOBID": "kvs_9"})

    assert slurm is not None
    assert pmi is not None
    assert (slurm.rank, slurm.source, slurm.job_id) == (2, "slurm", "slurm:12.4")
    assert (pmi.rank, pmi.source, pmi.job_id) == (1, "pmi", "pmi:kvs_9")


@pytest.mark.parametrize("word", ["", "-1", "1e3", "many", "99999999999"])
def test_words_that_are_no_rank_are_none(word: str) -> None:
    assert rank_of({"RANK": word, "WORLD_SIZE": "8"}) is None


def test_a_program_that_merely_sets_rank_is_not_taken_for_a_worker() -> None:
    assert rank_of({"RANK": "5"}) is None


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("mpirun") is None, reason="no Open MPI here")
def test_ranks_of_a_real_mpirun_share_their_job() -> None:
    program = (
        "from pathlib import Path; from capture.ranks import read_rank;"
        "print(read_rank(Path('/proc/self')))"
    )
    command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2"]
    done = subprocess.run(
        [*command, sys.executable, "-c", program],
        capture_output=True,
        check=True,
        cwd=Path(__file__).parents[2],
        text=True,
    )

    lines = sorted(done.stdout.splitlines())
    assert [line[:12] for line in lines] == ["Rank(rank=0,", "Rank(rank=1,"]
    assert all("source='openmpi'" in line for line in lines)
    jobs = {line.split("job_id=")[1] for line in lines}
    assert len(jobs) == 1
    assert jobs.pop().startswith("'pmix:")
