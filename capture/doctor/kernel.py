"""What the running kernel offers, whoever asks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from capture.doctor.row import CALL_STREAMS, MISSING, OK, PARTLY, UNKNOWN, Row
from capture.loaders.libbpf import BTF
from capture.options import STREAMS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from capture.loaders.trial import Seen

FAMILY = "kernel"
COOKIE = 7_919
"""Handed to the program of a trial, to see whether it comes back."""

_KHEADERS = Path("/sys/kernel/kheaders.tar.xz")


def lockdown_row(mode: str | None) -> Row:
    """Judge the lockdown mode; None where the kernel tells none."""
    fine = {
        None: "this kernel tells of no lockdown",
        "none": "the kernel is not locked down",
        "integrity": "the kernel is locked down for integrity, which leaves eBPF, "
        "uprobes and tracepoints alone",
    }
    if mode in fine:
        return Row(FAMILY, "lockdown", OK, fine[mode], "all event streams")
    return Row(
        FAMILY,
        "lockdown",
        MISSING,
        f"the kernel is locked down ({mode}): it refuses programs that read memory of "
        "the kernel or of a process",
        "all event streams",
        "record facts with --streams none",
    )


def btf_row(path: Path = BTF) -> Row:
    """Judge the kernel's own types."""
    if os.access(path, os.R_OK):
        return Row(FAMILY, "btf", OK, f"the kernel tells its types in {path}", "core")
    return Row(
        FAMILY,
        "btf",
        MISSING,
        f"the kernel tells no types: {path} cannot be read",
        "loader core",
        "use loader bcc, which compiles on this host",
    )


def headers_row(release: str, roots: Sequence[Path] = (Path("/lib/modules"),)) -> Row:
    """Judge the kernel's headers: those of exactly this kernel, or none."""
    builds = [root / release / "build" / "include" for root in roots]
    if any(path.is_dir() for path in builds):
        sentence = f"the headers of kernel {release} are here"
        return Row(FAMILY, "headers", OK, sentence, "loader bcc")
    if _KHEADERS.exists():
        sentence = f"the kernel carries its headers in {_KHEADERS}"
        return Row(FAMILY, "headers", OK, sentence, "loader bcc")
    return Row(
        FAMILY,
        "headers",
        MISSING,
        f"there are no headers of kernel {release} (kernel-devel on RHEL, "
        "linux-headers on Debian, of exactly this version)",
        "loader bcc",
        "nothing, as loader core needs none",
    )


def tracefs_row(root: Path, *, is_readable: bool) -> Row:
    """Judge access to the tracepoints' description."""
    if is_readable:
        return Row(FAMILY, "tracefs", OK, f"tracefs can be read at {root}", "bcc")
    return Row(
        FAMILY,
        "tracefs",
        MISSING,
        f"tracefs cannot be read at {root}: not mounted, or for root alone",
        "loader bcc",
        "nothing, as loader core needs none",
    )


def ring_buffer_row(refusal: str | None, *, is_permitted: bool) -> Row:
    """Judge the ring buffer by the map that was made, or not."""
    capability, needed_for = "ring_buffer", "all event streams"
    if refusal is None:
        sentence = "the kernel made a ring buffer for us"
        return Row(FAMILY, capability, OK, sentence, needed_for)
    if not is_permitted:
        sentence = f"could not be tried without CAP_BPF: {refusal}"
        return Row(FAMILY, capability, UNKNOWN, sentence, needed_for)
    return Row(
        FAMILY,
        capability,
        MISSING,
        f"the kernel has no BPF ring buffer ({refusal}); it came with 5.8",
        needed_for,
        "record facts with --streams none",
        STREAMS,
    )


def _untried(capability: str, needed_for: str, refusal: str) -> Row:
    """Return the row of a trial for which a right was missing."""
    sentence = f"could not be tried without CAP_BPF and CAP_PERFMON: {refusal}"
    return Row(FAMILY, capability, UNKNOWN, sentence, needed_for)


def uprobe_multi_row(outcome: Seen | str, *, is_permitted: bool) -> Row:
    """Judge links of many probes, by one on code of our own that was called once."""
    capability = "uprobe_multi"
    needed_for = "probes without CAP_SYS_ADMIN, and a stop within a moment"
    if not isinstance(outcome, str):
        if outcome.count == 1:
            sentence = "one link holds many probes; one on our own code was hit"
            return Row(FAMILY, capability, OK, sentence, needed_for)
        outcome = "a probe on our own code was attached and never hit"
    if not is_permitted:
        return _untried(capability, needed_for, outcome)
    return Row(
        FAMILY,
        capability,
        PARTLY,
        f"this kernel has no links of many probes ({outcome}); they came with 6.6",
        needed_for,
        "probes are perf events then: see perf_uprobe and stop_time",
    )


def perf_uprobe_row(outcome: Seen | str, *, has_multi: bool, is_permitted: bool) -> Row:
    """Judge probes that are perf events; loader bcc has no others."""
    capability = "perf_uprobe"
    needed_for = "probes of loader bcc, and of core where there is no uprobe_multi"
    if not isinstance(outcome, str) and outcome.count == 1:
        sentence = "a probe as a perf event on our own code was hit"
        return Row(FAMILY, capability, OK, sentence, needed_for)
    refusal = outcome if isinstance(outcome, str) else "it was never hit"
    if has_multi:
        sentence = f"not to be had ({refusal}), and not needed here with loader core"
        return Row(FAMILY, capability, OK, sentence, needed_for)
    if not is_permitted:
        return _untried(capability, needed_for, refusal)
    return Row(
        FAMILY,
        capability,
        MISSING,
        f"the kernel refuses a probe as a perf event: {refusal}",
        needed_for,
        "it takes CAP_SYS_ADMIN on kernels since 2025 and on patched older ones",
        CALL_STREAMS,
    )


def cookie_row(outcome: Seen | str, *, is_permitted: bool) -> Row:
    """Judge attach cookies by the one that came back."""
    capability = "attach_cookie"
    needed_for = "loader core: one program for all probes"
    if not isinstance(outcome, str) and outcome.cookie == COOKIE:
        sentence = "a program is told which probe it runs for"
        return Row(FAMILY, capability, OK, sentence, needed_for)
    if not is_permitted:
        sentence = "could not be tried without CAP_BPF and CAP_PERFMON"
        return Row(FAMILY, capability, UNKNOWN, sentence, needed_for)
    return Row(
        FAMILY,
        capability,
        MISSING,
        "a program is not told which probe it runs for; that came with 5.15",
        needed_for,
        "use loader bcc, which makes a program a probe",
    )


def pid_namespace_row(seen_pid: int | None, own_pid: int, pids: Sequence[int]) -> Row:
    """Judge whether the kernel counts processes as we do.

    Parameters
    ----------
    seen_pid
        Our number as a BPF program saw it; None if none could be run.
    own_pid
        Our number as we see it.
    pids
        Our numbers in all pid namespaces that we are in, ``NSpid`` of our status.
    """
    capability, needed_for = "pid_namespace", "finding the targets' records"
    if seen_pid is None:
        is_nested = len(pids) > 1
        state = PARTLY if is_nested else UNKNOWN
        sentence = (
            "we are in a pid namespace of our own"
            if is_nested
            else "could not be tried without CAP_BPF and CAP_PERFMON"
        )
        return Row(FAMILY, capability, state, sentence, needed_for, _HOST_PIDS)
    if seen_pid == own_pid:
        sentence = f"BPF programs and we give this process the same number, {own_pid}"
        return Row(FAMILY, capability, OK, sentence, needed_for)
    return Row(
        FAMILY,
        capability,
        MISSING,
        f"we call this process {own_pid}, BPF programs see it as {seen_pid}: records "
        "would not be found to belong to any target",
        needed_for,
        _HOST_PIDS,
        STREAMS,
    )


_HOST_PIDS = "run the recorder in the host's pid namespace (container: hostPID)"


def return_probe_row(refusal: str | None, *, is_permitted: bool) -> Row:
    """Judge the safety of return probes by the child that passed one."""
    capability = "return_probe"
    needed_for = "durations and return codes of calls"
    if refusal is None:
        return Row(
            FAMILY,
            capability,
            OK,
            "a process of our own under a strict seccomp filter survived one; but no "
            "C++ exception, thread cancellation or Go stack can pass one",
            needed_for,
            "--no-return-probes for programs whose callbacks unwind through a call",
        )
    if not is_permitted:
        return _untried(capability, needed_for, refusal)
    return Row(
        FAMILY,
        capability,
        PARTLY,
        f"return probes are not safe here: {refusal}",
        needed_for,
        "record does the same test and goes on with entries alone",
        CALL_STREAMS,
    )
