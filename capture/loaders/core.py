"""Loader of objects compiled ahead of time, through libbpf by ctypes.

Needs a kernel with BTF and a libbpf that can read it; no compiler and no tracefs.  Each
object loads on its own, because an object with one part that the kernel lacks fails as
a whole, and all share the maps made in :mod:`capture.loaders.kernel`.
"""

from __future__ import annotations

import contextlib
import functools
import os
from typing import TYPE_CHECKING

from capture.loaders import AttachResult, LoaderError, libbpf
from capture.loaders import bpf_syscall as kernel_calls
from capture.loaders.kernel import HeldProbes, KernelSide, words
from capture.probes import LAUNCHES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from capture.loaders import LoaderSettings
    from capture.probes import ProbeSite

_FD = "bpf_program__fd"
_WAKING_OBJECTS = ("waking_count", "waking_hot")
_SWITCHES = ("on_switch", "on_switch_of_task")
"""The second is for kernels before 5.18, whose tracepoint does not tell the state."""


class CoreLoader(KernelSide):
    """Loads ``bpf/*.bpf.o``."""

    name = "core"

    def __init__(self) -> None:
        super().__init__()
        self._objects: dict[str, int] = {}
        self._links: list[int] = []
        self._attached: list[tuple[str, int]] = []
        self._waking = ""
        self._switch = ""
        self._has_multi = False

    def _load_programs(self, settings: LoaderSettings) -> None:
        self._libbpf = libbpf.choose(settings.libbpf)
        self._has_multi = kernel_calls.has_uprobe_multi()
        how = "uprobe_multi" if self._has_multi else "perf uprobes"
        self.detail = f"libbpf {self._libbpf.version}, {how}"
        if {"collective", "gpu_call"} & set(settings.streams):
            self._load_object("calls")
        self._load_object("process")
        if "off_cpu" in settings.streams:
            self._load_off_cpu()

    def _load_off_cpu(self) -> None:
        """Load what watches the scheduler, by the variant that this kernel takes."""
        self._waking = next((n for n in _WAKING_OBJECTS if self._loads(n)), "off_cpu")
        has_context = self._waking != "off_cpu"
        left_out = ("on_waking",) if has_context else ()
        self._switch, other = _SWITCHES
        if not self._loads("off_cpu", (*left_out, other)):
            other, self._switch = _SWITCHES
            self._load_object("off_cpu", (*left_out, other))
        if not has_context:
            reason = "this kernel does not tell programs its interrupt state"
            self.missing_columns["off_cpu"] = {"is_waker_in_interrupt": reason}

    def _loads(self, name: str, left_out: Sequence[str] = ()) -> bool:
        """Load an object that the kernel may refuse, and return whether it took it."""
        try:
            self._load_object(name, left_out)
        except LoaderError:
            return False
        return True

    def _load_object(self, name: str, left_out: Sequence[str] = ()) -> None:
        """Bring one object into the kernel, with the shared maps in it."""
        call = self._libbpf.call
        handle = 0
        try:
            handle = self._libbpf.open_object(name)
            for map_name, shared in self._maps.items():
                with contextlib.suppress(OSError):
                    place = call(
                        "bpf_object__find_map_by_name", handle, map_name.encode()
                    )
                    call("bpf_map__reuse_fd", place, shared.fd)
            for program in left_out:
                call("bpf_program__set_autoload", self._program(handle, program), 0)
            if name == "calls" and self._has_multi:
                for program in ("on_enter", "on_leave"):
                    call(
                        "bpf_program__set_expected_attach_type",
                        self._program(handle, program),
                        kernel_calls.ATTACH_UPROBE_MULTI,
                    )
            call("bpf_object__load", handle)
        except OSError as error:
            if handle:
                call("bpf_object__close", handle)
            why = self._libbpf.reason() or words(error)
            raise LoaderError(
                f"{self._libbpf} cannot load programs '{name}': {why}",
                "try another libbpf with --libbpf, or --loader bcc",
            ) from error
        self._objects[name] = handle

    def _program(self, handle: int, name: str) -> int:
        return self._libbpf.call(
            "bpf_object__find_program_by_name", handle, name.encode()
        )

    def _descriptor(self, name: str) -> int:
        program = self._program(self._objects["calls"], name)
        return self._libbpf.call(_FD, program)

    def attach_tracepoints(self) -> list[AttachResult]:
        """Attach what watches processes and the scheduler."""
        results = [
            self._attach_tracepoint("process", "facts", program, event)
            for program, event in (
                ("on_newtask", "task_newtask"),
                ("on_exec", "sched_process_exec"),
                ("on_exit", "sched_process_exit"),
            )
        ]
        if "off_cpu" in self._objects:
            is_plain = self._waking == "off_cpu"
            program = "on_waking" if is_plain else "on_waking_in_context"
            waking = (self._waking, "off_cpu", program, "sched_waking")
            switch = ("off_cpu", "off_cpu", self._switch, "sched_switch")
            results += [self._attach_tracepoint(*where) for where in (waking, switch)]
        return results

    def _attach_tracepoint(
        self, name: str, stream: str, program: str, event: str
    ) -> AttachResult:
        reason = None
        try:
            place = self._program(self._objects[name], program)
            self._links.append(self._libbpf.call("bpf_program__attach", place))
            self._attached.append((program, self._libbpf.call(_FD, place)))
        except OSError as error:
            reason = words(error)
        return AttachResult(
            None, stream, event, is_attached=reason is None, refused_reason=reason
        )

    def _attach_probes(self, sites: Sequence[ProbeSite]) -> dict[int, str]:
        """Attach library by library: one link for many probes, where there is."""
        refusals: dict[int, str] = {}
        groups: dict[tuple[object, ...], list[ProbeSite]] = {}
        for site in sites:
            # What may go before the end has a link of its own.
            is_launch = site.probe.operation in LAUNCHES and site.probe.layer == 1
            part = (is_launch, site.probe.part if self._settings.can_thin else None)
            alone = 0 if self._has_multi else site.probe_id
            groups.setdefault((site.fd_path, part, alone), []).append(site)
        for group in groups.values():
            # Returns first: a return without its entry is counted, an entry whose
            # return was missed would look like a call that hangs.
            for is_return in (True, False):
                wanted = [
                    site
                    for site in group
                    if site.probe_id not in refusals
                    and (site.has_return or not is_return)
                ]
                refusals.update(self._attach_group(wanted, is_return=is_return))
        return refusals

    def _attach_group(
        self, sites: list[ProbeSite], *, is_return: bool
    ) -> dict[int, str]:
        """Attach sites of one library; a single one where there are no such links."""
        if not sites:
            return {}
        try:
            close = self._attach_at_once(sites, is_return=is_return)
        except OSError as error:
            if len(sites) == 1:
                return {sites[0].probe_id: words(error)}
            # One bad offset refuses them all: find it.
            refusals: dict[int, str] = {}
            for site in sites:
                refusals.update(self._attach_group([site], is_return=is_return))
            return refusals
        numbers = frozenset(site.probe_id for site in sites)
        self._held.append(HeldProbes(numbers, is_return, close))
        return {}

    def _attach_at_once(
        self, sites: list[ProbeSite], *, is_return: bool
    ) -> Callable[[], None]:
        """Attach by one call, and return what undoes it."""
        program = self._descriptor("on_leave" if is_return else "on_enter")
        path = sites[0].fd_path
        if not self._has_multi:
            (site,) = sites
            return kernel_calls.attach_perf(
                program, path, site.file_offset, site.probe_id, is_return=is_return
            ).close
        link = kernel_calls.attach_multi(
            program,
            path,
            [site.file_offset for site in sites],
            [site.probe_id for site in sites],
            is_return=is_return,
        )
        return functools.partial(os.close, link)

    def _programs(self) -> Iterator[tuple[str, int]]:
        yield from self._attached
        if "calls" in self._objects:
            for name in ("on_enter", "on_leave"):
                yield name, self._descriptor(name)

    def _unload(self) -> None:
        for link in self._links:
            self._libbpf.call("bpf_link__destroy", link)
        for handle in self._objects.values():
            self._libbpf.call("bpf_object__close", handle)
        self._links.clear()
        self._objects.clear()
