"""The few system calls of the kernel's BPF and perf interfaces that loaders need.

Both loaders make and read maps and attach probes through these, so neither libbpf's
version nor BCC's decides what can be done: libbpf 0.5 to 1.1 know nothing of
uprobe_multi, which is what makes detaching 300 probes take 40 ms instead of 74 s.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_IS_ARM = platform.machine() == "aarch64"
_NR_BPF, _NR_PERF_EVENT_OPEN = (280, 241) if _IS_ARM else (321, 298)

_MAP_CREATE, _MAP_LOOKUP, _MAP_UPDATE, _MAP_DELETE = 0, 1, 2, 3
_PROG_LOAD, _MAP_LOOKUP_BATCH, _LINK_CREATE = 5, 24, 28

MAP_HASH, MAP_ARRAY, MAP_PROG_ARRAY, MAP_PERCPU_ARRAY, MAP_RING = 1, 2, 3, 6, 27
PROG_KPROBE = 2
ATTACH_UPROBE_MULTI, _ATTACH_PERF_EVENT = 48, 41
_MULTI_RETURN = 1
_IOC_ENABLE, _IOC_SET_BPF = 0x2400, 0x40042408
_CLOEXEC = 8
_POSSIBLE_CPUS = Path("/sys/devices/system/cpu/possible")

_libc = ctypes.CDLL(None, use_errno=True)
EXIT = bytes.fromhex("b7000000000000009500000000000000")
"""r0 = 0; exit"""


def bpf(
    command: int, attribute: bytes | bytearray | ctypes.Array[ctypes.c_char]
) -> int:
    """Return what the bpf system call returns, or raise OSError."""
    if isinstance(attribute, ctypes.Array):
        buffer = attribute
    else:
        buffer = ctypes.create_string_buffer(bytes(attribute).ljust(128, b"\0"), 128)
    result = _libc.syscall(_NR_BPF, command, ctypes.byref(buffer), 128)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def _address(buffer: ctypes.Array[ctypes.c_char]) -> int:
    return ctypes.addressof(buffer)


class Map:
    """One map of the kernel, by its descriptor."""

    def __init__(
        self, name: str, kind: int, key_size: int, value_size: int, entries: int
    ) -> None:
        self.name = name
        self.cpus: tuple[int, ...] = ()
        """CPUs of a per-CPU map, in the order of the values under a key."""
        if kind == MAP_PERCPU_ARRAY:
            self.cpus = possible_cpus(_POSSIBLE_CPUS.read_text())
        self.value_size = value_size * max(1, len(self.cpus))
        self._key_size = key_size
        self._entries = entries
        label = name.encode()[:15].ljust(16, b"\0")
        attribute = struct.pack(
            "<IIIIIII16s", kind, key_size, value_size, entries, 0, 0, 0, label
        )
        self.fd = bpf(_MAP_CREATE, attribute)
        self._key = ctypes.create_string_buffer(max(key_size, 1))
        self._value = ctypes.create_string_buffer(max(self.value_size, 1))

    def _element(self, command: int, key: bytes) -> None:
        self._key.raw = key
        # A field that a command does not use has to be zero.
        value = 0 if command == _MAP_DELETE else _address(self._value)
        attribute = struct.pack("<I4xQQ", self.fd, _address(self._key), value)
        bpf(command, attribute)

    def lookup(self, key: bytes) -> bytes | None:
        """Return the value under a key, or None."""
        try:
            self._element(_MAP_LOOKUP, key)
        except OSError as error:
            if error.errno == errno.ENOENT:
                return None
            raise
        return self._value.raw

    def update(self, key: bytes, value: bytes) -> None:
        """Put a value under a key."""
        self._value.raw = value
        self._element(_MAP_UPDATE, key)

    def delete(self, key: bytes) -> None:
        """Remove a key, if it is there."""
        try:
            self._element(_MAP_DELETE, key)
        except OSError as error:
            if error.errno != errno.ENOENT:
                raise

    def entries(self) -> list[tuple[bytes, bytes]]:
        """Return all keys with their values, read in one system call."""
        count = self._entries
        keys = ctypes.create_string_buffer(count * self._key_size)
        values = ctypes.create_string_buffer(count * self.value_size)
        token = ctypes.create_string_buffer(max(8, self._key_size))
        attribute = ctypes.create_string_buffer(
            struct.pack(
                "<QQQQIIQQ",
                0,
                _address(token),
                _address(keys),
                _address(values),
                count,
                self.fd,
                0,
                0,
            ).ljust(128, b"\0"),
            128,
        )
        try:
            bpf(_MAP_LOOKUP_BATCH, attribute)
        except OSError as error:
            if error.errno != errno.ENOENT:  # the end of the map
                raise
        found = struct.unpack_from("<I", attribute, 32)[0]
        key, value = self._key_size, self.value_size
        all_keys, all_values = bytes(keys), bytes(values)
        return [
            (all_keys[i * key : (i + 1) * key], all_values[i * value : (i + 1) * value])
            for i in range(found)
        ]

    def close(self) -> None:
        """Let go of the map."""
        os.close(self.fd)


def possible_cpus(text: str) -> tuple[int, ...]:
    """Return the CPUs of a list such as ``0-3,8``."""
    found: list[int] = []
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return tuple(found)


def load_program(instructions: bytes, expected_attach_type: int = 0) -> int:
    """Return the descriptor of a uprobe program made of ready instructions."""
    code = ctypes.create_string_buffer(instructions, len(instructions))
    licence = ctypes.create_string_buffer(b"Dual BSD/GPL")
    attribute = bytearray(128)
    struct.pack_into(
        "<IIQQ",
        attribute,
        0,
        PROG_KPROBE,
        len(instructions) // 8,
        _address(code),
        _address(licence),
    )
    struct.pack_into("<I", attribute, 68, expected_attach_type)
    return bpf(_PROG_LOAD, attribute)


def has_uprobe_multi() -> bool:
    """Return whether the kernel has uprobe_multi links: tried, on what is no file."""
    try:
        program = load_program(EXIT, ATTACH_UPROBE_MULTI)
    except OSError:
        return False
    try:
        os.close(attach_multi(program, "/", [0], [0], is_return=False))
    except OSError as error:
        # A kernel that knows them goes as far as looking at the path.
        return error.errno == errno.EBADF
    finally:
        os.close(program)
    return True


def attach_multi(
    program: int,
    path: str,
    offsets: Sequence[int],
    cookies: Sequence[int],
    *,
    is_return: bool,
) -> int:
    """Return one link that holds probes at all these offsets of a file."""
    count = len(offsets)
    where = (ctypes.c_uint64 * count)(*offsets)
    numbers = (ctypes.c_uint64 * count)(*cookies)
    name = ctypes.create_string_buffer(os.fsencode(path))
    attribute = struct.pack(
        "<IIIIQQQQIII",
        program,
        0,
        ATTACH_UPROBE_MULTI,
        0,
        _address(name),
        ctypes.addressof(where),
        0,
        ctypes.addressof(numbers),
        count,
        _MULTI_RETURN if is_return else 0,
        0,
    )
    return bpf(_LINK_CREATE, attribute)


@dataclass(frozen=True)
class PerfProbe:
    """A probe that is a perf event of its own."""

    event: int
    link: int | None

    def close(self) -> None:
        """Remove the probe; each takes the kernel about 0.1 s."""
        if self.link is not None:
            os.close(self.link)
        os.close(self.event)


def attach_perf(
    program: int, path: str, offset: int, cookie: int | None, *, is_return: bool
) -> PerfProbe:
    """Return one probe at an offset of a file; a cookie needs kernel 5.15."""
    folder = Path("/sys/bus/event_source/devices/uprobe")
    kind = int((folder / "type").read_text())
    bit = int((folder / "format/retprobe").read_text().split(":")[1])
    name = ctypes.create_string_buffer(os.fsencode(path))
    attribute = bytearray(112)
    struct.pack_into("<IIQ", attribute, 0, kind, 112, int(is_return) << bit)
    struct.pack_into("<QQ", attribute, 56, _address(name), offset)
    buffer = ctypes.create_string_buffer(bytes(attribute), 112)
    event = _libc.syscall(
        _NR_PERF_EVENT_OPEN, ctypes.byref(buffer), -1, 0, -1, _CLOEXEC
    )
    if event < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    try:
        return PerfProbe(event, _bind(program, event, cookie))
    except OSError:
        os.close(event)
        raise


def _bind(program: int, event: int, cookie: int | None) -> int | None:
    """Let a perf event run a program; a link carries the cookie."""
    if cookie is not None:
        attribute = struct.pack("<IIIIQ", program, event, _ATTACH_PERF_EVENT, 0, cookie)
        return bpf(_LINK_CREATE, attribute)
    for request, value in ((_IOC_SET_BPF, program), (_IOC_ENABLE, 0)):
        if _libc.ioctl(event, ctypes.c_ulong(request), value) < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
    return None
