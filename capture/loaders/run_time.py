"""What the programs cost: their run time by name, where there is the right to it.

The kernel counts run time only while somebody asks it to, for the counting itself costs
two clock reads a run, so it is asked for short windows only.  Runs that the kernel left
out, because the program was running on that CPU already, are counted at all times.
"""

from __future__ import annotations

import ctypes
import struct
from typing import TYPE_CHECKING, NamedTuple

from capture.loaders.bpf_syscall import bpf

if TYPE_CHECKING:
    from collections.abc import Iterable

_OBJ_GET_INFO_BY_FD, _ENABLE_STATS = 15, 32
_RUN_TIME = 0
_INFO_BYTES, _NUMBERS_AT = 224, 192
_NUMBERS = struct.Struct("<QQQ")


class ProgramRuns(NamedTuple):
    """What the kernel counted for one program so far."""

    run_ns: int
    run_count: int
    missed_count: int


def count_run_time() -> int:
    """Let the kernel count run time until the descriptor returned is closed.

    Raises
    ------
    OSError
        Without CAP_SYS_ADMIN, or before kernel 5.8.
    """
    return bpf(_ENABLE_STATS, struct.pack("<I", _RUN_TIME))


def program_runs(programs: Iterable[tuple[str, int]]) -> dict[str, ProgramRuns]:
    """Return what was counted, by name; programs of one name are added up.

    Parameters
    ----------
    programs
        Name and descriptor of each.
    """
    found: dict[str, ProgramRuns] = {}
    for name, fd in programs:
        before = found.get(name, ProgramRuns(0, 0, 0))
        found[name] = ProgramRuns(*(a + b for a, b in zip(before, _runs_of(fd))))
    return found


def _runs_of(fd: int) -> ProgramRuns:
    info = ctypes.create_string_buffer(_INFO_BYTES)
    attribute = struct.pack("<IIQ", fd, _INFO_BYTES, ctypes.addressof(info))
    bpf(_OBJ_GET_INFO_BY_FD, attribute)
    return ProgramRuns(*_NUMBERS.unpack_from(info, _NUMBERS_AT))
