"""Which rank of which job a process is, by the words its launcher gave it.

Only the variables named here are looked at; nothing else of an environment is kept,
not even for a moment longer than the search takes.

``job_id`` must be the same text on every host of a job, for it names the job's MPI
world there.  Open MPI sets ``PMIX_NAMESPACE`` to the same number for every process of
one ``mpirun``, on whatever host; under Slurm's PMIx plugin it names job and step.  With
neither, Slurm's job and step, and PMI's own, do.  Under torchrun the run id does unless
it is left at its default "none", which every such run shares: then the address of the
rendezvous stands for the job.

The launcher that is nearest to the process wins: ``mpirun`` inside a Slurm step leaves
Slurm's rank of the daemon in the environment of every rank, and torchrun may run under
either.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from capture import procfs

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_NUMBER = re.compile(r"\d{1,9}")
_MAX_WORD = 256

# Source, rank, local rank, world size.
_LAUNCHERS = (
    ("torchrun", "RANK", "LOCAL_RANK", "WORLD_SIZE"),
    (
        "openmpi",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_SIZE",
    ),
    ("pmi", "PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE"),
    ("slurm", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS"),
)
_JOB_VARIABLES = (
    "TORCHELASTIC_RUN_ID",
    "PMIX_NAMESPACE",
    "OMPI_MCA_ess_base_jobid",
    "PMI_JOBID",
    "PMI_KVSNAME",
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "MASTER_ADDR",
    "MASTER_PORT",
)
ALLOWED = frozenset(
    name for launcher in _LAUNCHERS for name in launcher[1:]
) | frozenset(_JOB_VARIABLES)


@dataclass(frozen=True)
class Rank:
    """What a process's environment says about its place in a job."""

    rank: int
    local_rank: int | None
    world_size: int | None
    source: str
    job_id: str | None


def read_rank(process: Path) -> Rank | None:
    """Return the rank of a process, given its folder under /proc."""
    return rank_of(read_allowed(process))


def read_allowed(process: Path) -> dict[str, str]:
    """Return the variables of a process that say something about its rank."""
    found: dict[str, str] = {}
    for name, value in procfs.read_environment(process):
        key = name.decode("ascii", "replace")
        if key in ALLOWED and key not in found:
            found[key] = value[:_MAX_WORD].decode("utf-8", "replace")
    return found


def rank_of(words: Mapping[str, str]) -> Rank | None:
    """Return the rank that a launcher's words give, if they give one."""
    for source, rank_name, local_name, size_name in _LAUNCHERS:
        rank = _number(words.get(rank_name))
        if rank is None or (source == "torchrun" and "WORLD_SIZE" not in words):
            continue
        return Rank(
            rank=rank,
            local_rank=_number(words.get(local_name)),
            world_size=_number(words.get(size_name)),
            source=source,
            job_id=job_of(words),
        )
    return None


def job_of(words: Mapping[str, str]) -> str | None:
    """Return the name of the job, the same on all of its hosts."""
    run_id = words.get("TORCHELASTIC_RUN_ID")
    if run_id and run_id != "none":
        return f"torchrun:{run_id}"
    for name in ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"):
        if words.get(name):
            return f"pmix:{words[name]}"
    for name in ("PMI_JOBID", "PMI_KVSNAME"):
        if words.get(name):
            return f"pmi:{words[name]}"
    if words.get("SLURM_JOB_ID"):
        return f"slurm:{words['SLURM_JOB_ID']}.{words.get('SLURM_STEP_ID', 'batch')}"
    if words.get("MASTER_ADDR") and words.get("MASTER_PORT"):
        return f"rendezvous:{words['MASTER_ADDR']}:{words['MASTER_PORT']}"
    return None


def _number(text: str | None) -> int | None:
    """Return a number that a launcher wrote; anything else is none."""
    return int(text) if text and _NUMBER.fullmatch(text) else None
