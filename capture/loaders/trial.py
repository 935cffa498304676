"""A probe on code of our own, to try what the kernel does instead of guessing it.

The code is a page in memory that no other process maps: a function of two instructions.
The program on it writes down how often it ran, which process the kernel saw there, and
its cookie.  Doctor calls the function itself; before the first return probe of a
recording a child calls it under a strict seccomp filter (:func:`try_return_probe`).
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import platform
import signal
import struct
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from capture.loaders import bpf_syscall as kernel_calls

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_ANSWER = 42
_IS_ARM = platform.machine() == "aarch64"
_CODE = bytes.fromhex("40058052c0035fd6" if _IS_ARM else "b82a000000c3")
"""return 42"""

_GET_PID_TGID, _GET_COOKIE, _MAP_LOOKUP = 14, 174, 1
_SEEN = struct.Struct("<QQQ")

# Of exit_group, exit, write, futex, mmap, munmap, brk, madvise, rt_sigreturn.
_NEEDED = (
    (94, 93, 64, 98, 222, 215, 214, 233, 139)
    if _IS_ARM
    else (231, 60, 1, 202, 9, 11, 12, 28, 15)
)
_AUDIT_ARCH = 0xC00000B7 if _IS_ARM else 0xC000003E
_LOAD, _JUMP_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _KILL_PROCESS = 0x7FFF0000, 0x80000000
_PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 4, 38
_PR_SET_SECCOMP, _FILTER_MODE = 22, 2
_TROUBLE_EXIT = 3
_CHILD_S = 5.0


@dataclass(frozen=True)
class Seen:
    """What a program saw: how often it ran, in which process, with which cookie."""

    count: int
    pid: int
    cookie: int


class OwnCode:
    """The page with the function, as a file of no name."""

    def __init__(self) -> None:
        self.fd = os.memfd_create("coldtrace-trial", os.MFD_CLOEXEC)
        os.write(self.fd, _CODE.ljust(mmap.PAGESIZE, b"\0"))

    @property
    def path(self) -> str:
        """The path under which probes can be attached."""
        return f"/proc/self/fd/{self.fd}"

    def function(self) -> Callable[[], int]:
        """Return the function, mapped into this process for good.

        Raises
        ------
        OSError
            If this process may not run code from such a page.
        """
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        size, protection = mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_EXEC
        place = libc.mmap(None, size, protection, mmap.MAP_PRIVATE, self.fd, 0)
        if place in (None, ctypes.c_void_p(-1).value):
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        return ctypes.CFUNCTYPE(ctypes.c_int)(place)

    def close(self) -> None:
        """Let go of the page."""
        os.close(self.fd)


class TrialProbe:
    """A program on that function, at its entry or at its return.

    Parameters
    ----------
    code
        The page.
    with_multi
        By a uprobe_multi link, else by a perf event.
    is_return
        At the return.
    cookie
        Number to be handed to the program; None where that is not asked for.

    Raises
    ------
    OSError
        If the kernel refuses the map, the program or the probe.
    """

    def __init__(
        self, code: OwnCode, *, with_multi: bool, is_return: bool, cookie: int | None
    ) -> None:
        self._map = kernel_calls.Map("trial", kernel_calls.MAP_ARRAY, 4, _SEEN.size, 1)
        self._close: list[Callable[[], None]] = [self._map.close]
        try:
            self._attach(
                code, with_multi=with_multi, is_return=is_return, cookie=cookie
            )
        except OSError:
            self.close()
            raise

    def _attach(
        self, code: OwnCode, cookie: int | None, *, with_multi: bool, is_return: bool
    ) -> None:
        kind = kernel_calls.ATTACH_UPROBE_MULTI if with_multi else 0
        program = kernel_calls.load_program(
            _note_program(self._map.fd, has_cookie=cookie is not None), kind
        )
        self._close.append(lambda: os.close(program))
        if with_multi:
            link = kernel_calls.attach_multi(
                program, code.path, [0], [cookie or 0], is_return=is_return
            )
            self._close.append(lambda: os.close(link))
        else:
            probe = kernel_calls.attach_perf(
                program, code.path, 0, cookie, is_return=is_return
            )
            self._close.append(probe.close)

    def seen(self) -> Seen:
        """Return what the program noted so far."""
        count, pid_tgid, cookie = _SEEN.unpack(self._map.lookup(bytes(4)) or bytes(24))
        return Seen(count, pid_tgid >> 32, cookie)

    def close(self) -> None:
        """Take the probe off."""
        while self._close:
            self._close.pop()()


def _note_program(map_fd: int, *, has_cookie: bool) -> bytes:
    """Return a program that counts its runs and notes process and cookie."""
    cookie = (
        (0xBF, 0x61, 0, 0),  # r1 = r6, the context
        (0x85, 0x00, 0, _GET_COOKIE),
        (0xBF, 0x08, 0, 0),  # r8 = the cookie
    )
    code = (
        (0xBF, 0x16, 0, 0),  # r6 = r1
        (0xB7, 0x08, 0, 0),  # r8 = 0
        *(cookie if has_cookie else ()),
        (0x85, 0x00, 0, _GET_PID_TGID),
        (0xBF, 0x07, 0, 0),  # r7 = process and thread
        (0x62, 0x0A, -4, 0),  # key: 0
        (0x18, 0x11, 0, map_fd),  # r1 = map
        (0x00, 0x00, 0, 0),
        (0xBF, 0xA2, 0, 0),  # r2 = r10 - 4
        (0x07, 0x02, 0, -4),
        (0x85, 0x00, 0, _MAP_LOOKUP),
        (0x15, 0x00, 4, 0),  # not there: end
        (0x7B, 0x70, 8, 0),  # value[1] = r7
        (0x7B, 0x80, 16, 0),  # value[2] = r8
        (0xB7, 0x01, 0, 1),
        (0xDB, 0x10, 0, 0),  # lock value[0] += 1
        (0xB7, 0x00, 0, 0),  # r0 = 0
        (0x95, 0x00, 0, 0),  # exit
    )
    return b"".join(struct.pack("<BBhi", *instruction) for instruction in code)


def try_return_probe(allowed: Sequence[int] = _NEEDED) -> str | None:
    """Return why no return probe may be used here, or None if one is survived.

    A child of ours sets a seccomp filter that kills it at any system call but a few,
    as service managers and container engines do, and calls a function that carries a
    return probe.  Kernels 6.11 to before 6.13.3 and 6.14 make a system call of their
    own at such a return, and the filter kills the process.

    Parameters
    ----------
    allowed
        Numbers of the system calls that the child may make.
    """
    try:
        code = OwnCode()
    except OSError as error:
        return f"they could not be tried: {error.strerror}"
    try:
        has_multi = kernel_calls.has_uprobe_multi()
        probe = TrialProbe(code, with_multi=has_multi, is_return=True, cookie=None)
        try:
            return _judge(_run_child(code, allowed), probe)
        finally:
            probe.close()
    except OSError as error:
        return f"they could not be tried: {error.strerror or error}"
    finally:
        code.close()


def _judge(status: int | None, probe: TrialProbe) -> str | None:
    """Return what the end of the child says."""
    if status is None:
        return f"a process of our own did not come back from one in {_CHILD_S:.0f} s"
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        return (
            f"a process of our own under a seccomp filter was killed by {name} in one"
        )
    if os.WEXITSTATUS(status) != 0:
        return "they could not be tried: the process for it did not get that far"
    if probe.seen().count != 1:
        return "they could not be tried: the one of the trial was not hit"
    return None


def _run_child(code: OwnCode, allowed: Sequence[int]) -> int | None:
    """Return the wait status of a child that calls the function, None if it hangs."""
    child = os.fork()
    if child == 0:
        try:
            os._exit(_call_filtered(code.function(), allowed))
        finally:
            os._exit(_TROUBLE_EXIT)
    deadline = time.monotonic() + _CHILD_S
    while time.monotonic() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return status
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def _call_filtered(function: Callable[[], int], allowed: Sequence[int]) -> int:
    """Call a function under the filter and return the exit status that tells of it."""
    libc = ctypes.CDLL(None, use_errno=True)
    code = _filter_code(allowed)
    program = _FilterProgram(len(code) // 8, code)
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)  # a death that is no crash: no core file
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    ctypes.set_errno(0)
    if libc.prctl(_PR_SET_SECCOMP, _FILTER_MODE, ctypes.byref(program), 0, 0) == 0:
        return 0 if function() == _ANSWER else _TROUBLE_EXIT
    # EINVAL: this kernel knows no filters, so no process of it has one.
    has_filters = ctypes.get_errno() != errno.EINVAL
    return _TROUBLE_EXIT if has_filters or function() != _ANSWER else 0


class _FilterProgram(ctypes.Structure):
    """``struct sock_fprog``."""

    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))


def _filter_code(allowed: Sequence[int]) -> bytes:
    """Return a filter that lets these calls pass and kills the process at any other."""
    count = len(allowed)
    code = (
        (_LOAD, 0, 0, 4),  # the architecture
        (_JUMP_EQUAL, 0, count + 1, _AUDIT_ARCH),
        (_LOAD, 0, 0, 0),  # the number
        *((_JUMP_EQUAL, count - at, 0, number) for at, number in enumerate(allowed)),
        (_RETURN, 0, 0, _KILL_PROCESS),
        (_RETURN, 0, 0, _ALLOW),
    )
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in code)
