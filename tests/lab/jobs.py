"""Jobs of the lab: an MPI one over both hosts, or one of stand-in NCCL ranks.

The ranks of a host are numbered one after the other, so with four a host ranks 4 to 7
are on the second.  Words for the workload programs stand in workload/options.c.
"""

from __future__ import annotations

import subprocess
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.lab.building import build

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.lab.namespaces import Lab


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """A running job: its processes, of which the first speaks for it."""

    processes: list[subprocess.Popen[str]]

    def wait(self, timeout_s: float) -> str:
        """Return what the job printed, once all of it has ended.

        Raises
        ------
        RuntimeError
            If a process fails or takes too long; the others are ended.
        """
        try:
            printed = [
                each.communicate(timeout=timeout_s)[0] for each in self.processes
            ]
        except subprocess.TimeoutExpired as error:
            self.end()
            raise RuntimeError(f"the job did not end within {timeout_s} s") from error
        failed = [each.returncode for each in self.processes if each.returncode]
        if failed:
            raise RuntimeError(f"the job failed with {failed}: {''.join(printed)}")
        return "".join(printed)

    def end(self) -> None:
        """Kill what still runs."""
        for each in self.processes:
            each.kill()
            each.communicate()


def option_words(options: Mapping[str, object]) -> list[str]:
    """Return a workload's command-line words: ``fault_us=1`` is ``--fault-us 1``."""
    words = [("--" + name.replace("_", "-"), str(v)) for name, v in options.items()]
    return [word for pair in words for word in pair]


def start_mpi_job(lab: Lab, *, ranks_a_host: int, options: Mapping[str, object]) -> Job:
    """Start an Open MPI job over all hosts of the lab, from the first of them."""
    folder = build()
    places = ",".join(f"{host.name}:{ranks_a_host}" for host in lab.hosts)
    settings = {
        "plm_rsh_agent": lab.agent,
        "orte_tmpdir_base": lab.folder,
        "btl": "tcp,self,vader",
        "mpi_yield_when_idle": 1,
        "hwloc_base_binding_policy": "none",
    }
    first, *others = lab.hosts
    if others:
        settings |= {"btl_tcp_if_include": "eth0", "oob_tcp_if_include": "eth0"}
    words = [w for name, v in settings.items() for w in ("--mca", name, str(v))]
    count = str(ranks_a_host * len(lab.hosts))
    launch = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--map-by", "slot"]
    work = [folder / "mpi_job", "--feeder", folder / "feeder", *option_words(options)]
    process = first.start_job(
        [*launch, *words, "--host", places, "-n", count, *work], cwd=lab.folder
    )
    return Job(processes=[process])


def start_nccl_job(
    lab: Lab, *, ranks_a_host: int, options: Mapping[str, object]
) -> Job:
    """Start stand-in NCCL ranks on all hosts, with the words that torchrun gives."""
    folder = build()
    run_id = uuid.uuid4().hex
    work = [folder / "nccl_job", "--feeder", folder / "feeder"]
    id_file = ["--id-file", lab.folder / f"nccl-id-{run_id}"]
    processes = []
    for index, host in enumerate(lab.hosts):
        for local_rank in range(ranks_a_host):
            environment = {
                "RANK": str(index * ranks_a_host + local_rank),
                "LOCAL_RANK": str(local_rank),
                "WORLD_SIZE": str(ranks_a_host * len(lab.hosts)),
                "MASTER_ADDR": lab.hosts[0].name,
                "MASTER_PORT": "29500",
                "TORCHELASTIC_RUN_ID": run_id,
            }
            words = [*work, *id_file, *option_words(options)]
            processes.append(
                host.start_job(words, cwd=lab.folder, environment=environment)
            )
    return Job(processes=processes)
