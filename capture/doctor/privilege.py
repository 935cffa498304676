"""The rights that recording takes: each read from our status, and tried.

Also the sets that are enough, which doctor prints: with exactly such a set an ordinary
user can record.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from capture.doctor.row import CALL_STREAMS, MISSING, OK, PARTLY, UNKNOWN, Row
from capture.options import STREAMS

FAMILY = "privilege"
PROGRAMS = ("CAP_BPF", "CAP_PERFMON")
OTHERS = ("CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH", "CAP_CHECKPOINT_RESTORE")


@dataclass(frozen=True)
class CapabilitySet:
    """Capabilities that are enough for something."""

    enough_for: str
    capabilities: tuple[str, ...]

    def words(self) -> str:
        """Return the words that give a command this set and no more."""
        names = [f"+{name.lower()[len('cap_') :]}" for name in self.capabilities]
        held = ",".join(["-all", *names])
        return (
            "setpriv --reuid USER --regid GROUP --clear-groups "
            f"--inh-caps {held} --ambient-caps {held} --bounding-set {held}"
        )

    def as_json(self) -> dict[str, Any]:
        """Return the set with its keys in a fixed order."""
        return {
            "enough_for": self.enough_for,
            "capabilities": list(self.capabilities),
            "setpriv": self.words(),
        }


def capability_sets(*, has_multi: bool | None) -> list[CapabilitySet]:
    """Return the sets that are enough on this kernel.

    Parameters
    ----------
    has_multi
        Whether the kernel has uprobe_multi; None if that could not be tried.
    """
    found: list[CapabilitySet] = []
    if has_multi is not False:
        where = "" if has_multi else ", if the kernel has uprobe_multi (6.6)"
        found += _sets(PROGRAMS, where)
    if not has_multi:
        where = "" if has_multi is False else ", if it has not"
        found += _sets((*PROGRAMS, "CAP_SYS_ADMIN"), where)
    return found


_NOBODY_ELSE = "not held; there is no process of another user to try it on"


def _sets(programs: tuple[str, ...], where: str) -> list[CapabilitySet]:
    return [
        CapabilitySet(f"one's own processes{where}", programs),
        CapabilitySet(f"the processes of every user{where}", (*programs, *OTHERS)),
    ]


def bpf_row(refusal: str | None, *, is_held: bool) -> Row:
    """Judge CAP_BPF by a map that was made, or not."""
    return _needed("CAP_BPF", "all event streams", "a BPF map", refusal, is_held)


def perfmon_row(refusal: str | None, *, is_held: bool) -> Row:
    """Judge CAP_PERFMON by a program that was loaded, or not."""
    needed_for = "all event streams"
    return _needed("CAP_PERFMON", needed_for, "a BPF program", refusal, is_held)


def _needed(
    name: str,
    needed_for: str,
    what: str,
    refusal: str | None,
    is_held: bool,  # noqa: FBT001
) -> Row:
    held = "held" if is_held else "not held by name"
    if refusal is None:
        sentence = f"{held}; the kernel took {what} of ours"
        return Row(FAMILY, name, OK, sentence, needed_for)
    if is_held:
        return Row(
            FAMILY,
            name,
            MISSING,
            f"held, and yet the kernel refused {what} of ours ({refusal}): a policy or "
            "a user namespace stands in the way",
            needed_for,
            "see lockdown and the policies; capabilities of a container's own user "
            "namespace do not count",
            STREAMS,
        )
    return Row(
        FAMILY,
        name,
        MISSING,
        f"not held, and the kernel refused {what} of ours: {refusal}",
        needed_for,
        f"run as root, or add {name}",
        STREAMS,
    )


def sys_admin_row(*, is_held: bool, has_multi: bool) -> Row:
    """Judge CAP_SYS_ADMIN: needed by few things, and whether by probes was tried."""
    needed_for = (
        "probes as perf events; the run time of BPF programs; kernels before 5.8"
    )
    if is_held:
        return Row(FAMILY, "CAP_SYS_ADMIN", OK, "held", needed_for)
    if has_multi:
        sentence = (
            "not held, and not needed for probes here; what the BPF programs cost is "
            "not measured"
        )
        return Row(FAMILY, "CAP_SYS_ADMIN", OK, sentence, needed_for)
    sentence = "not held; whether probes need it here says perf_uprobe"
    return Row(FAMILY, "CAP_SYS_ADMIN", PARTLY, sentence, needed_for)


def sys_ptrace_row(
    refusal: str | None, other_pid: int | None, *, is_held: bool, is_asked: bool
) -> Row:
    """Judge CAP_SYS_PTRACE by the mapped files of a process of another user.

    Parameters
    ----------
    refusal
        Why they could not be read, None if they could.
    other_pid
        The process, None if there is none of another user.
    is_held
        Whether our status has the capability.
    is_asked
        Whether targets were named: then their own rows say what suffers.
    """
    name, needed_for = "CAP_SYS_PTRACE", "the libraries of other users' processes"
    if other_pid is None:
        state = OK if is_held else UNKNOWN
        sentence = "held" if is_held else _NOBODY_ELSE
        return Row(FAMILY, name, state, sentence, needed_for)
    if refusal is None:
        sentence = f"the libraries of process {other_pid}, another user's, are in reach"
        return Row(FAMILY, name, OK, sentence, needed_for)
    return Row(
        FAMILY,
        name,
        PARTLY,
        f"the libraries of process {other_pid}, another user's, are out of reach: "
        f"{refusal}; those of one's own are not",
        needed_for,
        f"add {name} to record other users' processes",
        () if is_asked else CALL_STREAMS,
    )


def dac_read_search_row(
    refusal: str | None, other_pid: int | None, *, is_held: bool
) -> Row:
    """Judge CAP_DAC_READ_SEARCH by the folder of another user's mapped files."""
    name = "CAP_DAC_READ_SEARCH"
    needed_for = "libraries in folders that only their user may enter"
    if other_pid is None:
        state = OK if is_held else UNKNOWN
        sentence = "held" if is_held else _NOBODY_ELSE
        return Row(FAMILY, name, state, sentence, needed_for)
    if refusal is None:
        sentence = f"the mapped files of process {other_pid}, of another user, are open"
        return Row(FAMILY, name, OK, sentence, needed_for)
    sentence = f"the mapped files of process {other_pid} are closed to us: {refusal}"
    return Row(
        FAMILY,
        name,
        PARTLY,
        sentence,
        needed_for,
        f"add {name} if such a library is used",
    )


def checkpoint_restore_row(refusal: str | None, *, is_held: bool) -> Row:
    """Judge CAP_CHECKPOINT_RESTORE by a mapped file of our own."""
    name = "CAP_CHECKPOINT_RESTORE"
    needed_for = "libraries whose file was replaced or deleted since it was mapped"
    held = "held" if is_held else "not held by name"
    if refusal is None:
        sentence = (
            f"{held}; a mapped file of ours was opened through /proc/PID/map_files"
        )
        return Row(FAMILY, name, OK, sentence, needed_for)
    return Row(
        FAMILY,
        name,
        PARTLY,
        f"/proc/PID/map_files is closed to us ({refusal}): a library is taken by its "
        "name, and only if that file is the mapped one",
        needed_for,
        f"add {name} if libraries are upgraded under running jobs",
    )
