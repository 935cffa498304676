"""What the host brings beside its kernel: Python, room, clocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from capture.doctor.row import MISSING, OK, PARTLY, UNKNOWN, Row
from capture.spool import FREE_SPACE_FLOOR_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

FAMILY = "host"
OLDEST_PYTHON = (3, 9)
_UNSYNCHRONISED = 0x40
_GOOD_SOURCES = ("tsc", "arch_sys_counter", "kvm-clock", "hyperv_clocksource_tsc_page")
_MB = 1_000_000


def python_row(version: tuple[int, int], path: str) -> Row:
    """Judge the Python that runs this."""
    name = f"Python {version[0]}.{version[1]} ({path})"
    if version >= OLDEST_PYTHON:
        return Row(FAMILY, "python", OK, f"{name} runs the recorder", "everything")
    return Row(
        FAMILY,
        "python",
        MISSING,
        f"{name} is too old: 3.9 is the oldest that will do (RHEL 8 comes with 3.6)",
        "everything",
        "give the path of a newer one, such as /usr/bin/python3.9",
    )


def disk_row(folder: str, free_bytes: int | None, *, is_writable: bool) -> Row:
    """Judge the room in the output folder."""
    needed_for = "the spool and the bundle"
    if free_bytes is None or not is_writable:
        return Row(
            FAMILY,
            "disk",
            MISSING,
            f"{folder} cannot be written by this user",
            needed_for,
            "give another folder with -o",
        )
    free = f"{free_bytes // _MB} MB are free in {folder}"
    if free_bytes > 2 * FREE_SPACE_FLOOR_BYTES:
        sentence = f"{free}; a recording stops by itself before they are gone"
        return Row(FAMILY, "disk", OK, sentence, needed_for)
    return Row(
        FAMILY,
        "disk",
        PARTLY,
        f"{free}: a recording stops at {FREE_SPACE_FLOOR_BYTES // _MB} MB and a third "
        "of its spool",
        needed_for,
        "give a folder with more room with -o",
    )


def clock_source_row(current: str | None) -> Row:
    """Judge what the kernel's clocks are read from."""
    if current is None:
        sentence = "the kernel does not say what it reads its clocks from"
        return Row(FAMILY, "clock_source", UNKNOWN, sentence, "times of events")
    if current in _GOOD_SOURCES:
        sentence = f"clocks are read from {current}, fast and fine"
        return Row(FAMILY, "clock_source", OK, sentence, "times of events")
    return Row(
        FAMILY,
        "clock_source",
        PARTLY,
        f"clocks are read from {current}: slower and coarser than the CPU's own",
        "times of events",
        "see 'clocksource' in the kernel log: it says why tsc was left",
    )


def clock_discipline_row(status: int | None, max_error_us: int | None) -> Row:
    """Judge what steers the wall clock (``status`` of adjtimex)."""
    needed_for = "ordering the events of several hosts"
    if status is None:
        sentence = "the kernel does not say how its clock is steered"
        return Row(FAMILY, "clock_sync", UNKNOWN, sentence, needed_for)
    if status & _UNSYNCHRONISED:
        return Row(
            FAMILY,
            "clock_sync",
            PARTLY,
            "nothing steers the wall clock (adjtimex: unsynchronised)",
            needed_for,
            "nothing, as hosts are aligned by their collectives where there are any",
        )
    sentence = f"the wall clock is steered, within {max_error_us} us by its own account"
    return Row(FAMILY, "clock_sync", OK, sentence, needed_for)


def ptp_row(names: Sequence[str]) -> Row:
    """Tell of hardware clocks; whether one steers the host is not for us to see."""
    sentence = (
        f"hardware clocks: {', '.join(names)}; the kernel does not say whether one "
        "steers the host"
        if names
        else "there is no PTP hardware clock"
    )
    return Row(FAMILY, "ptp", OK, sentence, "ordering the events of several hosts")
