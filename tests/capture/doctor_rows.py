"""Every row that doctor can print, good and bad, from readings that we make up."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from capture.doctor import host, kernel, policy, privilege, stream
from capture.doctor.stream import Loaded
from capture.loaders.trial import Seen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from capture.doctor.row import Row

NO = "Operation not permitted"
HIT = Seen(count=1, pid=4_711, cookie=kernel.COOKIE)
NEVER_HIT = Seen(count=0, pid=0, cookie=0)
ELSEWHERE = Path("/nowhere")


def kernel_rows() -> Iterator[Row]:
    for mode in (None, "none", "integrity", "confidentiality"):
        yield kernel.lockdown_row(mode)
    yield kernel.btf_row(ELSEWHERE)
    yield kernel.headers_row("0.0.0", (ELSEWHERE,))
    for is_readable in (True, False):
        yield kernel.tracefs_row(ELSEWHERE, is_readable=is_readable)
    yield stream.bcc_row((str(ELSEWHERE),))
    for permitted in (True, False):
        for refusal in (None, NO):
            yield kernel.ring_buffer_row(refusal, is_permitted=permitted)
            yield kernel.return_probe_row(refusal, is_permitted=permitted)
        for outcome in (HIT, NEVER_HIT, NO):
            yield kernel.uprobe_multi_row(outcome, is_permitted=permitted)
            yield kernel.cookie_row(outcome, is_permitted=permitted)
            for has_multi in (True, False):
                yield kernel.perf_uprobe_row(
                    outcome, has_multi=has_multi, is_permitted=permitted
                )
    for pid, numbers in ((4_711, [4_711]), (9, [9]), (None, [1]), (None, [7, 1])):
        yield kernel.pid_namespace_row(pid, 4_711, numbers)


def privilege_rows() -> Iterator[Row]:
    for is_held in (True, False):
        for refusal in (None, NO):
            yield privilege.bpf_row(refusal, is_held=is_held)
            yield privilege.perfmon_row(refusal, is_held=is_held)
            yield privilege.checkpoint_restore_row(refusal, is_held=is_held)
            for other in (None, 1):
                yield privilege.dac_read_search_row(refusal, other, is_held=is_held)
                for is_asked in (True, False):
                    yield privilege.sys_ptrace_row(
                        refusal, other, is_held=is_held, is_asked=is_asked
                    )
        for has_multi in (True, False):
            yield privilege.sys_admin_row(is_held=is_held, has_multi=has_multi)


def policy_rows() -> Iterator[Row]:
    for was_refused in (True, False):
        for enforce in (None, "0", "1"):
            domain = "system_u:system_r:container_t:s0"
            yield policy.selinux_row(enforce, domain, was_refused=was_refused)
        for enabled, profile in ((None, None), ("Y", "unconfined"), ("Y", "docker")):
            yield policy.apparmor_row(enabled, profile, was_refused=was_refused)
        for mode in (None, 0, 2):
            yield policy.seccomp_row(mode, was_refused=was_refused)
    for value in (None, "0", "2", "4"):
        yield policy.paranoid_row(value)
        yield policy.unprivileged_bpf_row(value)


def host_rows() -> Iterator[Row]:
    for version in ((3, 6), (3, 9)):
        yield host.python_row(version, "/usr/bin/python3")
    for free in (None, 1_000_000, 1_000_000_000_000):
        for is_writable in (True, False):
            yield host.disk_row("/var/tmp", free, is_writable=is_writable)  # noqa: S108 a name
    for source in (None, "tsc", "hpet"):
        yield host.clock_source_row(source)
    for status in (None, 0, 0x40):
        yield host.clock_discipline_row(status, 1_500)
    for names in ((), ("mlx5_ptp",)):
        yield host.ptp_row(names)


def stream_rows() -> Iterator[Row]:
    yield stream.stream_row(Loaded("off_cpu", "core", "libbpf 1.1", ("is_iowait",)))
    yield stream.stream_row(Loaded("off_cpu", None, NO))


def every_row() -> list[Row]:
    """Return them all."""
    makers = (kernel_rows, privilege_rows, policy_rows, host_rows, stream_rows)
    return [row for make in makers for row in make()]
