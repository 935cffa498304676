"""Hosts that differ are told apart, and a silent probe names what to record next.

The case of the study, 11 B: two hosts map one path of NCCL whose files differ, and a
program on one of them holds a copy of the CUDA runtime of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.builders import case
from tests.sql.standing import rows, stand

if TYPE_CHECKING:
    from tests.builders import HostBuilder
    from workbench.store.case import Case

NCCL = "/opt/venv/lib/python3/site-packages/nvidia/nccl/lib/libnccl.so.2"
CUDART = "/usr/local/cuda/lib64/libcudart.so.12"
CUDA = "/usr/lib/libcuda.so.1"
PYTHON, STATIC = "/usr/bin/python3", "/opt/bin/static_train"


def library(host: HostBuilder, ref: int, path: str, kind: str, sha256: str) -> None:
    """Add a file that is mapped."""
    columns: dict[str, Any] = {"device": 1, "inode": ref, "build_id": None}
    host.fact(
        "library", library_ref=ref, path=path, kind=kind, sha256=sha256, **columns
    )


def mapping(host: HostBuilder, pid: int, ref: int, start: str) -> None:
    """Add a file to the memory of a process."""
    ends = {"end_address": "7fffffffffff", "file_offset": 0, "seen_ns": 5}
    host.fact("mapping", pid=pid, library_ref=ref, start_address=start, **ends)


def config(host: HostBuilder, key: str, value: str, pid: int | None = None) -> None:
    """Add a setting of the host or of a process."""
    scope = "host" if pid is None else "process"
    host.fact("config", scope=scope, pid=pid, key=key, value=value, source="/proc")


def probe(host: HostBuilder, probe_id: int, **columns: Any) -> None:  # noqa: ANN401
    """Add an attached probe."""
    row: dict[str, Any] = {
        "vendor": "nvidia",
        "layer": 1,
        "symbol": columns["operation"],
        "file_offset": 1,
        "has_return": True,
        "is_asked": True,
        "is_attached": True,
        "refused_reason": None,
        "lost_count": 0,
        "lost_first_ns": None,
        "lost_last_ns": None,
        "unmatched_return_count": 0,
        "aliases": [],
    }
    host.fact("probe", probe_id=probe_id, **row | columns)


@pytest.fixture(scope="module")
def two_hosts(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """Return h1 and h2 of case 11 B, with a few settings that differ or do not."""
    made = case()
    for number, name in enumerate(("h1", "h2")):
        host = made.host(name, stream_facts={"gpu_call": {"hit_count": 0}})
        rank = host.rank(number)
        rank.collective(start_ns=1_000, duration_ns=500)
        library(host, 1, NCCL, "nccl", ("a" if number == 0 else "b") * 64)
        library(host, 2, CUDART, "cudart", "c" * 64)
        library(host, 3, CUDA, "cuda", "d" * 64)
        library(host, 4, PYTHON, "other", "e" * 64)
        library(host, 5, STATIC, "other", "f" * 64)
        for ref, start in ((4, "400000"), (1, "7f0000000000"), (2, "7f1000000000")):
            mapping(host, rank.pid, ref, start)
        probe(host, 1, stream="collective", operation="all_reduce", library_ref=1,
              hit_count=1)  # fmt: skip
        hits = 9 if name == "h1" else 0
        probe(host, 2, stream="gpu_call", operation="memcpy", library_ref=2,
              hit_count=hits)  # fmt: skip
        config(host, "clock_source", ("tsc", "hpet")[number])
        config(host, "smt", "1")
        config(host, "affinity", ("0-7", "0-3")[number], pid=rank.pid)
        config(host, "affinity", "77", pid=4_000)  # no rank: nobody asks
    h2 = made.host("h2")
    h2.thread(77, name="static_train")
    mapping(h2, 77, 5, "555500000000")
    mapping(h2, 77, 3, "7f2000000000")
    config(h2, "governor", "powersave")
    folder = tmp_path_factory.mktemp("drift")
    return stand(made, folder, "config_drift", "silent_library", "coverage")


def test_one_path_with_different_files_is_told_apart_whatever_a_package_says(
    two_hosts: Case,
) -> None:
    found = rows(
        two_hosts,
        "select setting, setting_value, host_names, meaning, touches from config_drift"
        " where topic = 'library' order by setting_value",
    )

    same = "same path, different file"
    assert found == [
        (NCCL, f"sha256 {'a' * 64}", ["h1"], same, ["finding_straggler"]),
        (NCCL, f"sha256 {'b' * 64}", ["h2"], same, ["finding_straggler"]),
    ]


def test_settings_that_differ_are_told_with_their_hosts_and_others_are_not(
    two_hosts: Case,
) -> None:
    found = rows(
        two_hosts,
        "select setting, setting_value, host_names from config_drift"
        " where topic <> 'library' order by all",
    )

    assert found == [
        ("affinity", "0-3", ["h2"]),
        ("affinity", "0-7", ["h1"]),
        ("clock_source", "hpet", ["h2"]),
        ("clock_source", "tsc", ["h1"]),
        ("governor", "not told", ["h1"]),
        ("governor", "powersave", ["h2"]),
    ]


def test_a_silent_probe_names_the_static_binary_and_gives_no_number(
    two_hosts: Case,
) -> None:
    found = rows(
        two_hosts,
        "select h.host_name, path, probe_count, program_path, process_names, next_step"
        " from silent_library as s inner join host as h on s.host_id = h.host_id",
    )

    step = f"record the copy that it holds: coldtrace-capture record --library {STATIC}"
    assert found == [("h2", CUDART, 1, STATIC, ["static_train"], step)]
    state = rows(
        two_hosts, "select distinct state from coverage where stream = 'gpu_call'"
    )
    assert state == [("silent",)]
    assert rows(two_hosts, "select * from raw.gpu_call") == []
