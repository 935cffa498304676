"""What the site's policy says of us: read and explained, never to be changed.

Whether a policy stands in the way is tried elsewhere; these rows tell where to look if
something was refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from capture.doctor.row import OK, PARTLY, UNKNOWN, Row

if TYPE_CHECKING:
    from pathlib import Path

FAMILY = "policy"
_EVENTS = "all event streams"
_FILTERED = 2


def first_line(path: Path) -> str | None:
    """Return the first line of a small file, None where it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return text.rstrip("\0\n").split("\n")[0]


def selinux_row(enforce: str | None, domain: str | None, *, was_refused: bool) -> Row:
    """Judge SELinux; ``enforce`` is None where it is not there."""
    if enforce is None:
        return Row(FAMILY, "selinux", OK, "SELinux is not active", _EVENTS)
    mode = "enforcing" if enforce == "1" else "permissive"
    where = f"SELinux is {mode} and this process runs as {domain or 'unknown'}"
    if not was_refused or enforce != "1":
        return Row(FAMILY, "selinux", OK, f"{where}; it let our trials pass", _EVENTS)
    return Row(
        FAMILY,
        "selinux",
        UNKNOWN,
        f"{where}; a trial was refused, and SELinux may be the reason",
        _EVENTS,
        "look for 'avc: denied' with class bpf or perf_event in the audit log "
        "(ausearch -m avc -ts recent)",
    )


def apparmor_row(enabled: str | None, profile: str | None, *, was_refused: bool) -> Row:
    """Judge AppArmor; ``profile`` is that of this process."""
    if enabled != "Y":
        return Row(FAMILY, "apparmor", OK, "AppArmor is not active", _EVENTS)
    if profile in (None, "", "unconfined"):
        sentence = "AppArmor is active and does not confine this process"
        return Row(FAMILY, "apparmor", OK, sentence, _EVENTS)
    where = f"AppArmor confines this process by the profile {profile}"
    if not was_refused:
        return Row(FAMILY, "apparmor", OK, f"{where}; it let our trials pass", _EVENTS)
    return Row(
        FAMILY,
        "apparmor",
        UNKNOWN,
        f"{where}; a trial was refused, and it may be the reason",
        _EVENTS,
        'look for apparmor="DENIED" in the kernel log',
    )


def seccomp_row(mode: int | None, *, was_refused: bool) -> Row:
    """Judge a filter on our own system calls (``Seccomp`` of our status)."""
    if mode != _FILTERED:
        sentence = "no filter sits on our own system calls"
        return Row(FAMILY, "seccomp", OK, sentence, _EVENTS)
    where = "a seccomp filter sits on our own system calls, as in most containers"
    if not was_refused:
        return Row(FAMILY, "seccomp", OK, f"{where}; it lets bpf() pass", _EVENTS)
    return Row(
        FAMILY,
        "seccomp",
        PARTLY,
        f"{where}; a trial was refused, and it may be the reason",
        _EVENTS,
        "run the recorder on the host rather than in a container",
    )


def paranoid_row(value: str | None) -> Row:
    """Explain perf_event_paranoid, which concerns those without capabilities."""
    return Row(
        FAMILY,
        "perf_event_paranoid",
        OK,
        f"perf_event_paranoid is {value or 'not there'}: it binds users without "
        "CAP_PERFMON only",
        "nothing; leave it as it is",
    )


def unprivileged_bpf_row(value: str | None) -> Row:
    """Explain unprivileged_bpf_disabled, which concerns those without capabilities."""
    return Row(
        FAMILY,
        "unprivileged_bpf_disabled",
        OK,
        f"unprivileged_bpf_disabled is {value or 'not there'}: it binds users without "
        "CAP_BPF only",
        "nothing; leave it as it is",
    )
