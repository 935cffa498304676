"""Settings of a host and its processes are read as they are, and no secret too."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from capture import procfs, settings

if TYPE_CHECKING:
    from pathlib import Path


def values(rows: list[settings.Row]) -> dict[str, str]:
    return {row["key"]: row["value"] for row in rows}


def test_settings_of_this_host_are_those_that_the_kernel_shows() -> None:
    found = values(settings.of_host())

    assert found["kernel_build"] == os.uname().version[:128]
    assert found["cpu_online"]
    assert all(row["pid"] is None for row in settings.of_host())
    assert "[" not in found.get("transparent_hugepage", "")


def test_affinity_is_that_of_the_process() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        os.sched_setaffinity(child.pid, {0})
        found = values(settings.of_process(child.pid))
    finally:
        child.communicate()

    assert found["affinity"] == "0"
    assert settings.of_process(child.pid) == []


def test_an_environment_gives_plain_values_of_listed_names_and_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = {
        "NCCL_ALGO": "Ring,Tree",
        "NCCL_PROTO": "^LL128",
        "NCCL_BUFFSIZE": "8388608",
        "NCCL_DEBUG": "/home/secret/log",
        "NCCL_SOCKET_IFNAME": "secret0",
        "NCCL_COMM_ID": "10.1.2.3:4",
        "OMP_NUM_THREADS": "10.159.14.1",
        "PASSWORD": "secret",
    }
    (tmp_path / "7").mkdir()
    data = b"\0".join(f"{name}={value}".encode() for name, value in words.items())
    (tmp_path / "7" / "environ").write_bytes(data + b"\0\xff\xfe=x\0broken")
    monkeypatch.setattr(procfs, "PROC", tmp_path)

    rows = settings.of_process(7)

    assert values(rows) == {
        "env.NCCL_ALGO": "Ring,Tree",
        "env.NCCL_PROTO": "^LL128",
        "env.NCCL_BUFFSIZE": "8388608",
        "env.NCCL_DEBUG": "(set)",
        "env.NCCL_SOCKET_IFNAME": "(set)",
        "env.OMP_NUM_THREADS": "(set)",
    }
    assert "secret" not in str(rows)
    assert "10." not in str(rows)


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"a": "max 100000", "a/b": "600000 100000"}, "600000 100000"),
        ({"a": "50000 100000", "a/b": "600000 100000"}, "50000 100000"),
        ({"a": "max 100000", "a/b": "max 100000"}, "max"),
        ({}, None),
    ],
)
def test_the_tightest_limit_of_all_groups_counts(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    limits: dict[str, str],
    expected: str | None,
) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    for group, text in limits.items():
        (tmp_path / group / "cpu.max").write_text(f"{text}\n")
    monkeypatch.setattr(settings, "CGROUP", tmp_path)
    monkeypatch.setattr(procfs, "cgroup", lambda _pid: "/a/b")

    assert values(settings.of_process(os.getpid())).get("cpu_max") == expected


def test_the_link_of_a_gpu_is_told_with_what_it_could_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, kind, vendor in (
        ("0000:17:00.0", "0x030200", "0x10de"),
        ("0000:18:00.0", "0x020000", "0x15b3"),
    ):
        device = tmp_path / "bus" / "pci" / "devices" / name
        device.mkdir(parents=True)
        for file, text in {
            "class": kind,
            "vendor": vendor,
            "current_link_width": "8",
            "max_link_width": "16",
            "max_link_speed": "32.0 GT/s PCIe",
        }.items():
            (device / file).write_text(f"{text}\n")
    monkeypatch.setattr(settings, "SYS", tmp_path)

    links = {key: v for key, v in values(settings.of_host()).items() if "pcie" in key}
    assert links == {"pcie.0000:17:00.0": "x8 of x16, at most 32.0 GT/s PCIe"}
