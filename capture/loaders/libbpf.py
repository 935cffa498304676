"""Which libbpf is used: the first that can read this kernel's types, by trial.

The host's own comes first, then one carried beside the archive; one that the user names
is the only one tried.  Every version from 0.5 on will do if it passes
:meth:`Libbpf.self_test`; a libbpf that is older than the kernel does not (0.5 cannot
read the types of a 6.x kernel)::

    for name in candidates():
        library = Libbpf(name)  # AbsentError: it cannot be opened
        library.version  # "1.1"
        library.self_test()  # LoaderError: what it cannot do, and what to do about it

:func:`choose` does all of that and returns the first that passes.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
import stat
from pathlib import Path
from typing import Any, ClassVar

from capture import installation
from capture.loaders import LoaderError

BTF = Path("/sys/kernel/btf/vmlinux")
HOST_NAMES = ("libbpf.so.1", "libbpf.so.0")
_COMPANIONS = ("libz.so.1", "libzstd.so.1", "libelf.so.1")
"""What libbpf stands on, in the order of loading."""

_ERROR_POINTERS = -4096
_STRICT_DIRECT_ERRORS = 3
_LOG_BYTES = 1 << 20
_MAX_LINES = 64
_SHORT = 200
_TELLING = ("BTF_KIND", "missing BPF prog type", "")
"""Of what libbpf says, the line to show: the first with one of these words."""
_INSTALL = "install libbpf (Debian: libbpf1, RHEL: libbpf), or name one with --libbpf"
_CARRY = "carry in a newer libbpf (1.0 or later) with its libelf, and name it: --libbpf"
_LogFunction = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p
)


class AbsentError(LoaderError):
    """There is no such library, or it lacks what it stands on."""


class NotPermittedError(LoaderError):
    """The kernel refuses programs of this user; another libbpf would not help."""


class Libbpf:
    """The functions of libbpf that are needed, by name, with errors as OSError.

    Parameters
    ----------
    name
        A file, or a name for the host's dynamic loader.

    Raises
    ------
    AbsentError
        If it cannot be opened.
    LoaderError
        If it is no libbpf.
    """

    _POINTERS: ClassVar[frozenset[str]] = frozenset(
        {
            "bpf_object__open_mem",
            "bpf_object__find_program_by_name",
            "bpf_object__find_map_by_name",
            "bpf_program__attach",
            "btf__load_vmlinux_btf",
        }
    )
    _SILENT: ClassVar[frozenset[str]] = frozenset(
        {
            "bpf_object__close",
            "btf__free",
            "bpf_program__set_expected_attach_type",  # returns nothing before 0.8
        }
    )

    def __init__(self, name: str) -> None:
        self.path = name
        self._lines: list[str] = []
        self._library = _open(name)
        if not hasattr(self._library, "libbpf_set_print"):
            raise LoaderError(f"{name} is no libbpf", _INSTALL)
        self._log = _LogFunction(self._keep_line)
        self._function("libbpf_set_print")(self._log)
        # Older versions return errors as pointers unless told otherwise.
        with contextlib.suppress(AttributeError):
            self._library.libbpf_set_strict_mode(_STRICT_DIRECT_ERRORS)

    @property
    def version(self) -> str:
        """The version; before 0.6 the library does not tell, but what it has does."""
        try:
            function = self._library.libbpf_version_string
        except AttributeError:
            is_05 = hasattr(self._library, "btf__load_vmlinux_btf")
            return "0.5" if is_05 else "before 0.5"
        function.restype = ctypes.c_char_p
        return function().decode().lstrip("v")

    def __str__(self) -> str:
        return f"libbpf {self.version} ({self.path})"

    def call(self, name: str, *arguments: int | bytes | None) -> int:
        """Return a function's result, as OSError if it is an error of any form.

        Raises
        ------
        OSError
            For a negative number, a null pointer, or an error number as a pointer.
        LoaderError
            If this libbpf has no such function.
        """
        function = self._function(name)
        converted = [ctypes.c_void_p(a) if isinstance(a, int) else a for a in arguments]
        ctypes.set_errno(0)
        result: int = function(*converted) or 0
        if name in self._POINTERS:
            as_error = ctypes.c_int64(result).value
            if result == 0 or _ERROR_POINTERS < as_error < 0:
                raise _os_error(-as_error or ctypes.get_errno())
        elif result < 0:
            raise _os_error(-result)
        return result

    def open_object(self, name: str) -> int:
        """Return the handle of one of our objects, not yet loaded.

        Raises
        ------
        OSError
            If libbpf does not take it.
        LoaderError
            If the object is not in this installation.
        """
        self._lines.clear()
        content = read_object(name)
        return self.call("bpf_object__open_mem", content, len(content), None)

    def reason(self) -> str:
        """Return what libbpf said of the last object that failed, in one short line."""
        lines = [line.strip() for text in self._lines for line in text.splitlines()]
        said = (line for words in _TELLING for line in lines if words in line)
        told = next(said, "").replace("libbpf: ", "", 1)
        return ": ".join(filter(None, (told, self._verdict())))[:_SHORT]

    def _verdict(self) -> str:
        """Return why the kernel's verifier refused a program, if it did."""
        for text in self._lines:
            verdict, processed, _ = text.partition("\nprocessed ")
            if processed:
                return verdict.splitlines()[-1]
        return ""

    def self_test(self) -> None:
        """Load and attach a program of ours that reads one field, and take it away.

        Raises
        ------
        NotPermittedError
            If the types could be read, and the kernel then refused the program
            for want of a capability.
        LoaderError
            If this libbpf cannot do it, or this kernel tells no types.
        """
        if not BTF.exists():
            raise LoaderError(
                f"this kernel tells no types: there is no {BTF}", "use --loader bcc"
            )
        try:
            self._try_once()
        except OSError as error:
            # The verifier says "permission denied" too, but with reasons.
            is_right = error.errno in (errno.EPERM, errno.EACCES)
            if is_right and not self._verdict():
                self._read_types()
                raise NotPermittedError(
                    "the kernel refuses BPF programs of this user",
                    "run as root, or with CAP_BPF and CAP_PERFMON",
                ) from error
            raise self._refusal(error) from error

    def _try_once(self) -> None:
        handle = self.open_object("self_test")
        try:
            self.call("bpf_object__load", handle)
            program = self.call(
                "bpf_object__find_program_by_name", handle, b"read_a_task"
            )
            self.call("bpf_link__destroy", self.call("bpf_program__attach", program))
        finally:
            self.call("bpf_object__close", handle)

    def _read_types(self) -> None:
        """Read the kernel's types alone, which needs no privilege."""
        self._lines.clear()
        try:
            self.call("btf__free", self.call("btf__load_vmlinux_btf"))
        except OSError as error:
            raise self._refusal(error) from error

    def _refusal(self, error: OSError) -> LoaderError:
        told = self.reason()
        if "BTF" in told:
            what = "read this kernel's types"
        elif "prog type" in told:
            what = "load a type of program that is needed"
        else:
            what = "load and attach a program by the name of a tracepoint"
        why = told or error.strerror
        return LoaderError(f"{self} cannot {what}: {why}", _CARRY)

    def _function(self, name: str) -> Any:  # noqa: ANN401 ctypes has no better type
        try:
            function = getattr(self._library, name)
        except AttributeError:
            raise LoaderError(f"{self} has no function {name}", _CARRY) from None
        if name in self._POINTERS:
            function.restype = ctypes.c_void_p
        elif name in self._SILENT:
            function.restype = None
        return function

    def _keep_line(self, level: int, text: bytes, values: int) -> int:
        """Keep what libbpf warns of: its errors alone say little.

        That it does not know a kind of type is not a warning, but it is the reason.
        """
        if level == 0 or b"BTF_KIND" in text:
            line = ctypes.create_string_buffer(_LOG_BYTES)
            libc = ctypes.CDLL(None)
            libc.vsnprintf(line, _LOG_BYTES, text, ctypes.c_void_p(values))
            self._lines.append(line.value.decode("utf-8", "replace").strip())
            del self._lines[:-_MAX_LINES]
        return 0


def candidates(asked: Path | None = None) -> list[str]:
    """Return what to try, in order: the one asked for alone, else all there are."""
    if asked is not None:
        return [str(asked.absolute())]  # a bare name would be looked for elsewhere
    return [*HOST_NAMES, *_carried()]


def choose(asked: Path | None = None) -> Libbpf:
    """Return the first libbpf that passes its self-test.

    Raises
    ------
    NotPermittedError
        If this user may not load programs.
    LoaderError
        If none passes, with the reason of each.
    """
    refusals: list[LoaderError] = []
    for name in candidates(asked):
        library = _passing(name, refusals)
        if library is not None:
            return library
    # One that is there and refuses says more than those that are not there.
    there = [error for error in refusals if not isinstance(error, AbsentError)]
    told = there or refusals[:1]
    raise LoaderError("; ".join(error.message for error in told), told[0].hint)


def _passing(name: str, refusals: list[LoaderError]) -> Libbpf | None:
    """Return a libbpf that passes its self-test, or add to the refusals."""
    try:
        library = Libbpf(name)
        library.self_test()
    except NotPermittedError:
        raise
    except LoaderError as error:
        refusals.append(error)
        return None
    return library


def read_object(name: str) -> bytes:
    """Return an object that was compiled ahead of time, from a folder or an archive.

    Raises
    ------
    LoaderError
        If this installation does not have it for this machine.
    """
    file_name = f"{name}-{platform.machine()}.bpf.o"
    content = installation.read(f"bpf/{file_name}")
    if content is None:
        raise LoaderError(
            f"no {file_name} in this installation",
            "run 'make bpf' or 'make capture' on any machine with clang, or use "
            "--loader bcc",
        )
    return content


def _open(name: str) -> ctypes.CDLL:
    """Return a library; what it stands on may lie beside it."""
    try:
        return ctypes.CDLL(name, use_errno=True)
    except OSError as error:
        reason = str(error)
    with contextlib.suppress(OSError):
        for path in _beside(Path(name).parent) if "/" in name else ():
            ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL)
        return ctypes.CDLL(name, use_errno=True)
    raise AbsentError(f"cannot open {_said_once(name, reason)}", _INSTALL)


def _beside(folder: Path) -> list[Path]:
    """Return what libbpf stands on, as far as it is in a folder."""
    paths = [folder / name for name in _COMPANIONS]
    return [path for path in paths if path.exists()]


def _said_once(name: str, reason: str) -> str:
    """Return a reason of the dynamic loader, which may begin with the file's name."""
    return reason if reason.startswith(f"{name}:") else f"{name}: {reason}"


def _carried() -> list[str]:
    """Return what lies beside the archive that this program runs from.

    It is loaded with privilege and without being asked for, so whoever could have put
    it there, or could replace it, must be root or the user who runs this.
    """
    archive = installation.archive()
    if archive is None:
        return []
    folder = archive.parent
    found = sorted(folder.glob("libbpf.so*"))
    loaded = [folder, *found, *_beside(folder)]
    return [str(path) for path in found] if all(map(_is_ours, loaded)) else []


def _is_ours(path: Path) -> bool:
    status = path.stat()
    is_open = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return status.st_uid in (0, os.geteuid()) and not is_open


def _os_error(code: int) -> OSError:
    return OSError(code, os.strerror(code))
