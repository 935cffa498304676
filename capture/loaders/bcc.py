"""Loader that has BCC compile the same sources on the host: for kernels without BTF.

Nothing of BCC's own maps or attaching is used.  Maps are made in
:mod:`capture.loaders.kernel` and reach the source as descriptors, and since kernels
before 5.15 have no attach cookies, each probe runs a stub of a dozen instructions that
notes its number and tail-calls the one program for all.

Tracepoints go through tracefs, which has to be mounted.
"""

from __future__ import annotations

import importlib
import os
import platform
import re
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

from capture import installation
from capture.loaders import AttachResult, LoaderError
from capture.loaders import bpf_syscall as kernel_calls
from capture.loaders.kernel import PID, HeldProbes, KernelSide, words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from capture.loaders import LoaderSettings
    from capture.probes import ProbeSite

_INCLUDE = re.compile(r'^#include "([a-z_]+\.h)"$', re.MULTILINE)
TRACEFS = (Path("/sys/kernel/tracing"), Path("/sys/kernel/debug/tracing"))
_ENTRY, _RETURN = 0, 1
_GET_PID_TGID, _MAP_UPDATE, _TAIL_CALL = 14, 2, 12

_MISSING = {
    "off_cpu": {
        "next_pid": "bcc knows only the thread that comes next",
        "is_iowait": "bcc cannot read the task",
        "is_waker_in_interrupt": "bcc cannot read the interrupt state",
    }
}


class BccLoader(KernelSide):
    """Compiles ``bpf/*.bpf.c`` when it loads."""

    name = "bcc"

    def __init__(self) -> None:
        super().__init__()
        self._bcc = _import_bcc()
        self._compiled: Any = None
        self._stubs: list[int] = []

    def _load_programs(self, settings: LoaderSettings) -> None:
        _check_tracefs()
        extra = (
            ("probe_hops", kernel_calls.MAP_HASH, 4, 4, 65_536),
            ("jumps", kernel_calls.MAP_PROG_ARRAY, 4, 4, 2),
        )
        for name, *shape in extra:
            self._maps[name] = kernel_calls.Map(name, *shape)
        has_calls = bool({"collective", "gpu_call"} & set(settings.streams))
        sources = ["process"]
        sources += ["calls"] if has_calls else []
        sources += ["off_cpu"] if "off_cpu" in settings.streams else []
        text = "".join(_source(f"{name}.bpf.c") for name in sources)
        arch = {"x86_64": "x86", "aarch64": "arm64"}[platform.machine()]
        flags = [f"-D__TARGET_ARCH_{arch}", "-Wno-macro-redefined"]
        flags += [f"-D{name}_FD={made.fd}" for name, made in self._maps.items()]
        self._compile(text, flags, has_calls=has_calls)
        self.detail = f"bcc {getattr(self._bcc, '__version__', '')}, perf uprobes"
        self.missing_columns = dict(_MISSING)

    def _compile(self, text: str, flags: list[str], *, has_calls: bool) -> None:
        """Bring the programs into the kernel, and let stubs jump to them."""
        try:
            # Functions named tracepoint__* are attached at once.
            self._compiled = self._bcc.BPF(text=text, cflags=flags)
            if has_calls:
                for index, name in ((_ENTRY, "on_enter"), (_RETURN, "on_leave")):
                    program = self._compiled.load_func(name, self._bcc.BPF.KPROBE)
                    self._maps["jumps"].update(PID.pack(index), PID.pack(program.fd))
        except Exception as error:
            raise LoaderError(
                f"bcc cannot compile or load the programs: {error}",
                "it needs kernel headers and tracefs (mount -t tracefs tracefs "
                "/sys/kernel/tracing)",
            ) from error

    def attach_tracepoints(self) -> list[AttachResult]:
        """Return what was attached when the programs were loaded."""
        events = [
            ("facts", "task_newtask"),
            ("facts", "sched_process_exec"),
            ("facts", "sched_process_exit"),
        ]
        if "off_cpu" in self._settings.streams:
            events += [("off_cpu", "sched_waking"), ("off_cpu", "sched_switch")]
        return [
            AttachResult(None, stream, event, is_attached=True)
            for stream, event in events
        ]

    def _attach_probes(self, sites: Sequence[ProbeSite]) -> dict[int, str]:
        reasons = {site.probe_id: self._attach_site(site) for site in sites}
        return {number: reason for number, reason in reasons.items() if reason}

    def _attach_site(self, site: ProbeSite) -> str | None:
        """Attach one site, and return why that was refused, if it was."""
        try:
            # Returns first, as in the other loader.
            if site.has_return:
                self._attach_stub(site, is_return=True)
            self._attach_stub(site, is_return=False)
        except OSError as error:
            return words(error)
        return None

    def _attach_stub(self, site: ProbeSite, *, is_return: bool) -> None:
        code = self._stub(site.probe_id, _RETURN if is_return else _ENTRY)
        stub = kernel_calls.load_program(code)
        self._stubs.append(stub)
        probe = kernel_calls.attach_perf(
            stub, site.fd_path, site.file_offset, None, is_return=is_return
        )
        numbers = frozenset((site.probe_id,))
        self._held.append(HeldProbes(numbers, is_return, probe.close))

    def _stub(self, probe_id: int, index: int) -> bytes:
        """Return instructions that note a number and go on in the common program."""
        hops, jumps = self._maps["probe_hops"].fd, self._maps["jumps"].fd
        code = (
            (0xBF, 0x16, 0, 0),  # r6 = r1, the context
            (0x85, 0x00, 0, _GET_PID_TGID),
            (0x63, 0x0A, -4, 0),  # key: the thread
            (0x62, 0x0A, -8, probe_id),  # value
            (0x18, 0x11, 0, hops),  # r1 = map
            (0x00, 0x00, 0, 0),
            (0xBF, 0xA2, 0, 0),  # r2 = r10 - 4
            (0x07, 0x02, 0, -4),
            (0xBF, 0xA3, 0, 0),  # r3 = r10 - 8
            (0x07, 0x03, 0, -8),
            (0xB7, 0x04, 0, 0),  # r4 = 0
            (0x85, 0x00, 0, _MAP_UPDATE),
            (0x55, 0x00, 5, 0),  # no room: end
            (0xBF, 0x61, 0, 0),  # r1 = r6
            (0x18, 0x12, 0, jumps),  # r2 = programs
            (0x00, 0x00, 0, 0),
            (0xB7, 0x03, 0, index),  # r3
            (0x85, 0x00, 0, _TAIL_CALL),
            (0xB7, 0x00, 0, 0),  # r0 = 0
            (0x95, 0x00, 0, 0),  # exit
        )
        return b"".join(struct.pack("<BBhi", *instruction) for instruction in code)

    def _programs(self) -> Iterator[tuple[str, int]]:
        for name, function in self._compiled.funcs.items():
            yield name.decode().rpartition("__")[2], function.fd
        for stub in self._stubs:
            yield "stub", stub

    def _unload(self) -> None:
        for stub in self._stubs:
            os.close(stub)
        if self._compiled is not None:
            self._compiled.cleanup()
        self._stubs.clear()
        self._compiled = None


def _check_tracefs() -> None:
    """Refuse before the compiler does, which takes seconds and pages of messages."""
    formats = [root / "events/sched/sched_switch/format" for root in TRACEFS]
    if not any(os.access(path, os.R_OK) for path in formats):
        raise LoaderError(
            f"tracefs cannot be read at {TRACEFS[0]}",
            "run as root, with tracefs mounted (mount -t tracefs tracefs "
            "/sys/kernel/tracing), or use --loader core, which needs none",
        )


def _import_bcc() -> Any:  # noqa: ANN401 a module that brings no types
    """Return the module, which is there in the system's own Python only."""
    try:
        return importlib.import_module("bcc")
    except ImportError as error:
        raise LoaderError(
            f"cannot import bcc: {error}",
            "install the distribution's package (Debian: python3-bpfcc) and use the "
            "system's Python; the package 'bcc' on PyPI is something else",
        ) from error


def _source(name: str) -> str:
    """Return a source with its headers in it, from a folder or a zip."""
    content = installation.read(f"bpf/{name}")
    if content is None:
        raise LoaderError(f"no {name} in this installation", "get it whole")
    text = content.decode()
    return _INCLUDE.sub(lambda found: _source(found[1]), text)
