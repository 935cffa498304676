"""How a host and its targets are set up: small files of /proc and /sys.

Two hosts that should be equal and are not differ in one of these more often than in
anything that can be timed.  Nothing here needs a right that the recorder does not have;
what cannot be read has no row.

Of an environment only the names listed here are looked at.  The value is kept of those
that take a number or a word, and only where it is one; of those that take a path, an
interface or an address it is only kept that they are set.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from capture import procfs

if TYPE_CHECKING:
    from collections.abc import Iterator

Row = dict[str, Any]

SYS = Path("/sys")
CGROUP = Path("/sys/fs/cgroup")

_BY_VALUE = """
    NCCL_ALGO NCCL_PROTO NCCL_P2P_DISABLE NCCL_P2P_LEVEL NCCL_SHM_DISABLE
    NCCL_IB_DISABLE NCCL_IB_GID_INDEX NCCL_IB_TC NCCL_IB_SL NCCL_IB_TIMEOUT
    NCCL_IB_RETRY_CNT NCCL_IB_QPS_PER_CONNECTION NCCL_IB_ADAPTIVE_ROUTING
    NCCL_NET_GDR_LEVEL NCCL_NET_GDR_READ NCCL_CROSS_NIC NCCL_NVLS_ENABLE
    NCCL_CUMEM_ENABLE NCCL_MIN_NCHANNELS NCCL_MAX_NCHANNELS NCCL_MIN_CTAS
    NCCL_MAX_CTAS NCCL_NTHREADS NCCL_BUFFSIZE NCCL_LAUNCH_MODE NCCL_DEBUG
    NCCL_SOCKET_NTHREADS NCCL_NSOCKS_PERTHREAD NCCL_PXN_DISABLE NCCL_COLLNET_ENABLE
    TORCH_NCCL_BLOCKING_WAIT TORCH_NCCL_ASYNC_ERROR_HANDLING
    CUDA_LAUNCH_BLOCKING CUDA_DEVICE_MAX_CONNECTIONS CUDA_DEVICE_ORDER
    CUDA_MODULE_LOADING OMP_NUM_THREADS
"""
_BY_PRESENCE = """
    NCCL_SOCKET_IFNAME NCCL_IB_HCA NCCL_NET NCCL_NET_PLUGIN NCCL_TOPO_FILE
    NCCL_GRAPH_FILE NCCL_CONF_FILE NCCL_TUNER_PLUGIN CUDA_VISIBLE_DEVICES LD_PRELOAD
"""
BY_VALUE = frozenset(_BY_VALUE.split())
BY_PRESENCE = frozenset(_BY_PRESENCE.split())
SET = "(set)"

_PLAIN = re.compile(
    r"-?\d{1,12}|\^?[A-Za-z][A-Za-z0-9]{0,15}(?:,[A-Za-z0-9]{1,16}){0,7}"
)
_CHOSEN = re.compile(r"\[([^\]]+)\]")
_MAX_VALUE = 128

_CLOCKS = "/sys/devices/system/clocksource/clocksource0"
_FILES = (
    ("kernel_build", "/proc/sys/kernel/version"),
    ("cpu_online", "/sys/devices/system/cpu/online"),
    ("cpu_isolated", "/sys/devices/system/cpu/isolated"),
    ("smt", "/sys/devices/system/cpu/smt/active"),
    ("numa_nodes", "/sys/devices/system/node/online"),
    ("numa_balancing", "/proc/sys/kernel/numa_balancing"),
    ("transparent_hugepage", "/sys/kernel/mm/transparent_hugepage/enabled"),
    ("hugepage_defrag", "/sys/kernel/mm/transparent_hugepage/defrag"),
    (
        "clock_source",
        "/sys/devices/system/clocksource/clocksource0/current_clocksource",
    ),
    ("nvidia_driver", "/sys/module/nvidia/version"),
    ("amdgpu_driver", "/sys/module/amdgpu/version"),
)
_MASKS = (("affinity", "Cpus_allowed_list"), ("mems", "Mems_allowed_list"))
_GOVERNORS = "devices/system/cpu/cpu*/cpufreq/scaling_governor"
_GPU_VENDORS = ("0x10de", "0x1002")
_DISPLAY_OR_ACCELERATOR = ("0x03", "0x12")


def of_host() -> list[Row]:
    """Return the settings of this host."""
    rows = [
        _row("host", None, key, _chosen(_text(Path(path))), path)
        for key, path in _FILES
    ]
    rows.append(_row("host", None, "governor", _governors(), f"/sys/{_GOVERNORS}"))
    rows += _gpu_links()
    return [row for row in rows if row["value"]]


def of_process(pid: int) -> list[Row]:
    """Return the settings of one process; none if it is gone."""
    process = procfs.PROC / str(pid)
    status = _status(process)
    rows = [
        _row("process", pid, key, status.get(name, ""), "/proc/PID/status")
        for key, name in (
            ("affinity", "Cpus_allowed_list"),
            ("mems", "Mems_allowed_list"),
        )
    ]
    rows.append(_row("process", pid, "cpu_max", _cpu_max(pid), "cpu.max"))
    for name, value in sorted(_environment(process).items()):
        rows.append(_row("process", pid, f"env.{name}", value, "/proc/PID/environ"))
    return [row for row in rows if row["value"]]


def _row(scope: str, pid: int | None, key: str, value: str, source: str) -> Row:
    return {
        "scope": scope,
        "pid": pid,
        "key": key,
        "value": value[:_MAX_VALUE],
        "source": source,
    }


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


def _chosen(text: str) -> str:
    """Return the word in brackets of a file that lists all choices, else the text."""
    found = _CHOSEN.search(text)
    return found[1] if found else text


def _governors() -> str:
    """Return the frequency governors of all CPUs, each once."""
    return ",".join(sorted({_text(path) for path in SYS.glob(_GOVERNORS)} - {""}))


def _gpu_links() -> Iterator[Row]:
    """Yield the width and speed of each GPU's PCIe link, as it is and as it can be.

    An idle GPU lowers the speed of its link by itself.
    """
    for device in sorted((SYS / "bus/pci/devices").glob("*")):
        is_gpu = _text(device / "class").startswith(_DISPLAY_OR_ACCELERATOR)
        if not is_gpu or _text(device / "vendor") not in _GPU_VENDORS:
            continue
        names = ("current_link_width", "max_link_width")
        width, most = (_text(device / name) for name in names)
        speed = _text(device / "max_link_speed")
        if width and most:
            value = f"x{width} of x{most}, at most {speed}"
            source = f"/sys/bus/pci/devices/{device.name}"
            yield _row("host", None, f"pcie.{device.name}", value, source)


def _status(process: Path) -> dict[str, str]:
    lines = _text(process / "status").splitlines()
    pairs = (line.partition(":") for line in lines)
    return {name: value.strip() for name, _, value in pairs}


def _cpu_max(pid: int) -> str:
    """Return the tightest CPU limit of a process's cgroups, "max" if there is none.

    As quota and period in microseconds; nothing where no limit can be read.
    """
    group = procfs.cgroup(pid)
    if group is None or ".." in group:  # outside the recorder's own control groups
        return ""
    found: list[str] = []
    path = CGROUP / group.lstrip("/")
    while path != CGROUP and CGROUP in path.parents:
        found.append(_text(path / "cpu.max"))
        path = path.parent
    limits = [limit for limit in found if limit.split(" ")[0].isdigit()]
    if limits:
        return min(limits, key=_share)
    return "max" if any(limit.startswith("max") for limit in found) else ""


def _share(limit: str) -> float:
    quota, _, period = limit.partition(" ")
    return int(quota) / int(period or 1)


def _environment(process: Path) -> dict[str, str]:
    """Return the listed variables; of a value that is no plain word only that it is."""
    found: dict[str, str] = {}
    for raw, value in procfs.read_environment(process):
        name = raw.decode("ascii", "replace")
        text = value.decode("ascii", "replace")
        if name in BY_VALUE:
            found[name] = text if _PLAIN.fullmatch(text) else SET
        elif name in BY_PRESENCE:
            found[name] = SET
    return found
