"""The capabilities that recording can need, and which of them this process has.

A capability of a user namespace that is not the host's is listed by the kernel all the
same and counts for nothing with BPF: what matters is tried elsewhere, this names it.
"""

from __future__ import annotations

import re
from pathlib import Path

CAPABILITIES = {
    "CAP_BPF": 39,
    "CAP_PERFMON": 38,
    "CAP_SYS_ADMIN": 21,
    "CAP_SYS_PTRACE": 19,
    "CAP_DAC_READ_SEARCH": 2,
    "CAP_CHECKPOINT_RESTORE": 40,
}
_STATUS = Path("/proc/self/status")
_LOCKDOWN = Path("/sys/kernel/security/lockdown")
_CHOSEN = re.compile(r"\[(\w+)\]")


def effective() -> frozenset[str]:
    """Return the capabilities of this process that stand in its status."""
    found = re.search(r"^CapEff:\s*([0-9a-f]+)$", _STATUS.read_text(), re.MULTILINE)
    bits = int(found[1], 16) if found else 0
    return frozenset(name for name, bit in CAPABILITIES.items() if bits >> bit & 1)


def lockdown() -> str | None:
    """Return the kernel's lockdown mode, or None where it tells none."""
    try:
        found = _CHOSEN.search(_LOCKDOWN.read_text())
    except OSError:
        return None
    return found[1] if found else None
