"""Arguments are where the calling conventions put them, and offsets are probed once."""

from __future__ import annotations

import platform
import subprocess
from typing import TYPE_CHECKING

import pytest

from capture import probes
from capture.layout import OPERATIONS
from capture.libraries import LibraryTable

if TYPE_CHECKING:
    from pathlib import Path

STACK = 128
KINDS = ("nccl", "mpi", "cudart", "cuda")


def place(kind: str, symbol: str, name: str, machine: str) -> int:
    """Return where a named argument of a call is."""
    (row,) = [r for r in probes.rows_for(kind) if symbol in r.symbols]
    return dict(probes.parameters(row.call, machine))[name].place


# What gcc compiles callers of the real headers to.
PLACES = (
    ("cudart", "cudaLaunchKernel", "stream", STACK | 2, 8),
    ("cuda", "cuLaunchKernel", "stream", STACK | 3, STACK | 0),
    ("nccl", "ncclAllReduce", "stream", STACK | 1, 7),
    ("nccl", "ncclAllReduce", "communicator", 6, 6),
    ("nccl", "ncclReduce", "communicator", STACK | 1, 7),
    ("mpi", "MPI_Allgather", "communicator", STACK | 1, 7),
    ("cudart", "cudaMemcpy2D", "kind", STACK | 1, 7),
    ("nccl", "ncclCommInitRank", "id", STACK | 1, 3),
    ("nccl", "ncclCommInitRank", "rank", 3, 4),
    ("nccl", "ncclCommInitRankScalable", "id", 5, 5),
    ("nccl", "ncclCommInitRankScalable", "rank", 3, 3),
)


@pytest.mark.parametrize(("kind", "symbol", "name", "x86", "arm"), PLACES)
def test_arguments_are_where_the_calling_convention_puts_them(
    kind: str, symbol: str, name: str, x86: int, arm: int
) -> None:
    assert place(kind, symbol, name, "x86_64") == x86
    assert place(kind, symbol, name, "aarch64") == arm


def test_every_row_has_an_operation_of_its_stream_and_can_be_packed() -> None:
    rows = [row for kind in KINDS for row in probes.rows_for(kind)]

    for row in rows:
        assert row.operation in OPERATIONS[row.stream], row.symbols
        site = probes.ProbeSite(1, row, 0, "/x", 0, row.symbols[0])
        for machine in ("x86_64", "aarch64"):
            assert len(probes.pack_row(site, machine)) == probes.ROW.size


def test_a_name_belongs_to_one_row() -> None:
    names = [
        name for kind in KINDS for r in probes.rows_for(kind) for name in r.symbols
    ]

    assert len(names) == len(set(names))


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """Return a library with an alias and with a variant of its own."""
    source = tmp_path / "lib.c"
    source.write_text(
        "int ncclAllReduce(void) { return 1; }\n"
        'int pncclAllReduce(void) __attribute__((alias("ncclAllReduce")));\n'
        "int ncclGroupStart(void) { return 2; }\n"
    )
    target = tmp_path / "libnccl.so.2"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", target, source], check=True)
    return target


def test_aliases_of_one_address_are_one_site(library: Path) -> None:
    table = LibraryTable([library])
    sites = {site.symbol: site for site in probes.plan(table.libraries, "standard")}
    table.close()

    assert sites["ncclAllReduce"].aliases == ("pncclAllReduce",)
    assert sites["ncclAllReduce"].has_return
    assert not sites["ncclGroupStart"].has_return
    assert len(sites) == 2


def test_probe_ids_are_never_used_twice(library: Path) -> None:
    table = LibraryTable([library])
    twice = [
        site.probe_id
        for _ in range(2)
        for site in probes.plan(table.libraries, "standard")
    ]
    table.close()

    assert len(set(twice)) == 4


def test_another_architecture_is_not_probed(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = LibraryTable([library])
    other = "aarch64" if platform.machine() == "x86_64" else "x86_64"
    monkeypatch.setattr(platform, "machine", lambda: other)

    assert probes.plan(table.libraries, "standard") == []
    table.close()
