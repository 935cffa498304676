"""What identifies this host, seen from the recorder's own namespaces."""

from __future__ import annotations

import mmap
import os
import socket
from pathlib import Path
from typing import Any

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_MACHINE_ID = Path("/etc/machine-id")
_OS_RELEASE = (Path("/etc/os-release"), Path("/usr/lib/os-release"))


def read_host() -> dict[str, Any]:
    """Return the one row of facts/host."""
    system = os.uname()
    return {
        "boot_id": _BOOT_ID.read_text(encoding="ascii").strip(),
        "machine_id": _first_line(_MACHINE_ID),
        "host_name": socket.gethostname(),
        "architecture": system.machine,
        "kernel_release": system.release,
        "os_name": _os_name(),
        "cpu_count": os.cpu_count() or 1,
        "page_size_bytes": mmap.PAGESIZE,
        "ticks_per_second": os.sysconf("SC_CLK_TCK"),
    }


def _first_line(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip() or None
    except OSError:
        return None


def _os_name() -> str | None:
    """Return the distribution's name for people."""
    for path in _OS_RELEASE:
        for line in (_first_line(path) or "").splitlines():
            name, _, value = line.partition("=")
            if name == "PRETTY_NAME":
                return value.strip("\"'")
    return None
