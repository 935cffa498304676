"""Claim: facts say what is so, are written when they change, and only then."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from capture import procfs
from capture.facts import FactBook, ProbeFacts
from capture.host import read_host
from capture.libraries import LibraryTable
from capture.loaders import AttachResult, CpuLoss, ProbeCounter
from capture.probes import ProbeSite, rows_for
from capture.targets import TargetProcess
from capture.world import WorldFinder
from tests.capture.processes import CUDART, make_library, make_user, running

if TYPE_CHECKING:
    from pathlib import Path

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="no compiler here")


class Spool:
    """Keeps what is appended."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def append(self, rows: list[dict[str, Any]]) -> None:
        """Take some rows."""
        self.rows += rows

    def of(self, fact: str) -> list[dict[str, Any]]:
        """Return the rows of one table, oldest first."""
        return [row for row in self.rows if row["fact"] == fact]


def target_of(pid: int) -> TargetProcess:
    stat = procfs.process_stat(pid)
    assert stat is not None
    return TargetProcess(pid, stat.start_ticks, "pid")


@needs_gcc
def test_process_with_its_rank_threads_and_mappings_is_noted(tmp_path: Path) -> None:
    library = make_library(tmp_path, "libcudart.so.12", CUDART)
    program = make_user(tmp_path, library)
    env = {"RANK": "3", "WORLD_SIZE": "4", "TORCHELASTIC_RUN_ID": "r1", "SECRET": "s"}
    spool = Spool()
    table = LibraryTable()
    book = FactBook(spool.append, table)
    with running(program, env) as child:
        target = target_of(child.pid)
        book.process(target, is_new=True)
        book.flush()
        said = len(spool.rows)
        book.process(target, is_new=False)
        book.flush()
        repeated = spool.rows[said:]
        child.tell("t")
        book.threads(child.pid)
        book.ended(child.pid, 77)
        book.ended(child.pid, 88)
        book.flush()
    table.close()

    process = spool.of("process")
    assert process[0]["process_name"] == "user"
    assert process[0]["parent_pid"] == os.getpid()
    assert process[0]["job_id"] == "torchrun:r1"
    assert [row["exit_ns"] for row in process] == [None, 77]
    assert [(row["rank"], row["source"]) for row in spool.of("rank")] == [
        (3, "torchrun")
    ]
    assert repeated == []
    first, second = spool.of("thread")
    assert (first["tid"], second["pid"]) == (child.pid, child.pid)
    assert first["state_at_start"] in "SR"
    assert second["state_at_start"] is None
    paths = {row["library_ref"]: row["path"] for row in spool.of("library")}
    mapped = {paths[row["library_ref"]] for row in spool.of("mapping")}
    assert {str(library), str(program)} <= mapped
    assert "SECRET" not in json.dumps(spool.rows)


def test_a_process_replaced_by_another_of_its_number_is_not_noted() -> None:
    spool = Spool()
    book = FactBook(spool.append, LibraryTable())

    book.process(TargetProcess(os.getpid(), 1, "pid"), is_new=True)
    book.flush()

    assert spool.rows == []


def test_communicator_keeps_its_end_whatever_is_said_later() -> None:
    spool = Spool()
    book = FactBook(spool.append, LibraryTable())
    row = {"fact": "communicator", "communicator_ref": 5, "pid": 7, "how": "seen"}

    book.communicator({**row, "first_ns": 3})
    book.destroyed(5, 99)
    book.communicator({**row, "how": "world", "first_ns": 77})
    book.destroyed(6, 99)
    book.flush()

    rows = [(r["how"], r["first_ns"], r["destroyed_ns"]) for r in spool.rows]
    assert rows == [("seen", 3, None), ("seen", 3, 99), ("world", 3, 99)]


def test_rank_comes_from_the_widest_communicator_where_nothing_else_says_it() -> None:
    spool = Spool()
    book = FactBook(spool.append, LibraryTable())
    ids = {"start_ticks": 1, "job_id": None, "exit_ns": None}
    said = {"local_rank": None, "world_size": 8, "source": "torchrun", "job_id": None}
    for pid in (7, 11):
        book.put("process", {"pid": pid, **ids})
    book.put("rank", {"pid": 11, "start_ticks": 1, "rank": 6, **said})
    for ref, pid, size, rank in ((1, 7, 2, 1), (2, 7, 8, 5), (3, 11, 8, 4)):
        row = {"communicator_ref": ref, "pid": pid, "size": size, "rank": rank}
        book.communicator({**row, "how": "init", "first_ns": ref})
    book.relate_ranks()
    book.flush()

    ranks = [(row["pid"], row["rank"], row["source"]) for row in spool.of("rank")]
    assert ranks == [(11, 6, "torchrun"), (7, 5, "communicator")]


def test_world_of_mpi_has_the_size_and_rank_that_the_launcher_gave() -> None:
    spool = Spool()
    book = FactBook(spool.append, LibraryTable())
    ids = {"start_ticks": 1, "local_rank": 1, "job_id": "pmix:1"}
    book.put("rank", {"pid": 7, **ids, "rank": 3, "world_size": 4, "source": "openmpi"})
    for ref, how in ((1, "world"), (2, "seen")):
        row = {"communicator_ref": ref, "pid": 7, "size": None, "rank": None}
        book.communicator({**row, "how": how, "first_ns": ref})
    book.relate_ranks()
    book.relate_ranks()
    book.flush()

    rows = [(r["how"], r["rank"], r["size"]) for r in spool.of("communicator")]
    assert rows == [("world", None, None), ("seen", None, None), ("world", 3, 4)]


def test_probes_carry_their_outcome_and_their_counts() -> None:
    spool = Spool()
    book = FactBook(spool.append, LibraryTable())
    facts = ProbeFacts(book)
    probe = next(p for p in rows_for("cudart") if "cudaStreamSynchronize" in p.symbols)
    names = {"symbol": "cudaStreamSynchronize", "aliases": ("alias",)}
    sites = [ProbeSite(n, probe, 0, "/proc/self/fd/9", 64, **names) for n in (1, 2)]
    facts.sites(
        sites,
        [
            AttachResult(1, "gpu_call", "cudaStreamSynchronize", is_attached=True),
            AttachResult(
                2,
                "gpu_call",
                "cudaStreamSynchronize",
                is_attached=False,
                refused_reason="denied",
            ),
        ],
    )
    facts.tracepoints([AttachResult(None, "off_cpu", "sched_switch", is_attached=True)])
    rows = facts.count(
        [
            ProbeCounter(
                1,
                "gpu_call",
                17,
                1,
                (CpuLoss(0, 5, 2, 100, 200), CpuLoss(6, 7, 0, 90, 110)),
            ),
            ProbeCounter(None, "off_cpu", 19, 0),
        ]
    )
    book.flush()

    by_id = {row["probe_id"]: row for row in rows if row["fact"] == "probe"}
    assert by_id[1]["operation"] == "stream_sync"
    assert (by_id[1]["hit_count"], by_id[1]["lost_count"]) == (17, 12)
    assert (by_id[1]["lost_first_ns"], by_id[1]["lost_last_ns"]) == (90, 200)
    assert by_id[2]["refused_reason"] == "denied"
    assert not by_id[2]["is_attached"]
    assert (by_id[-1]["symbol"], by_id[-1]["hit_count"]) == ("sched_switch", 19)
    assert [
        (row["cpu"], row["reason"], row["lost_count"]) for row in spool.of("loss")
    ] == [(0, "ring_full", 3), (0, "map_full", 2), (6, "ring_full", 7)]
    assert spool.of("probe")[-1]["hit_count"] == 19


def test_host_is_named_by_its_boot() -> None:
    host = read_host()

    assert len(host["boot_id"]) == 36
    assert host["architecture"] == os.uname().machine
    assert host["ticks_per_second"] == os.sysconf("SC_CLK_TCK")
    assert host["cpu_count"] >= 1


WORLD = "struct communicator { long words[8]; } ompi_mpi_comm_world = { { 7 } };"
WORLD_USER = """
#include <stdio.h>
extern struct communicator { long words[8]; } ompi_mpi_comm_world;
int main(void) {
  puts("up"); fflush(stdout);
  while (getchar() > 0) {
    printf("%p\\n", (void *)&ompi_mpi_comm_world);
    fflush(stdout);
    getchar();
  }
}
"""


@needs_gcc
@pytest.mark.parametrize("flag", ["-fPIE -pie", "-fPIC -pie", "-fno-pie -no-pie"])
def test_world_is_where_the_program_sees_it(tmp_path: Path, flag: str) -> None:
    library = make_library(tmp_path, "libmpi.so.40", WORLD)
    program = make_user(tmp_path, library, WORLD_USER, *flag.split())
    table = LibraryTable()
    with running(program) as child:
        before = WorldFinder(table).address(child.pid)
        for mapping in procfs.parse_maps(procfs.raw_maps(child.pid)):
            table.of_mapping(child.pid, mapping)
        address = WorldFinder(table).address(child.pid)
        seen = int(child.tell("w"), 16)
    table.close()

    assert before is None
    assert address == seen
