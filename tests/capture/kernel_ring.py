"""A program that the kernel runs for us: it takes a number and writes it to a ring."""

from __future__ import annotations

import ctypes
import os
import struct
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from capture.loaders import bpf_syscall
from capture.loaders.bpf_syscall import Map

if TYPE_CHECKING:
    from collections.abc import Iterator

_SOCKET_FILTER, _PROG_LOAD, _PROG_TEST_RUN = 1, 5, 10
_LOOKUP, _RESERVE, _SUBMIT = 1, 131, 132


@dataclass(frozen=True)
class KernelRing:
    """A ring, and the program that fills it."""

    program: int
    counter: Map
    ring: Map

    def make(self, count: int) -> None:
        """Let the kernel make so many records, or try to."""
        packet = ctypes.create_string_buffer(64)
        address = ctypes.addressof(packet)
        attribute = struct.pack(
            "<IIIIQQII", self.program, 0, 64, 0, address, 0, count, 0
        )
        bpf_syscall.bpf(_PROG_TEST_RUN, attribute)

    @property
    def asked(self) -> int:
        """How many records the kernel tried to make."""
        return int.from_bytes(self.counter.lookup(bytes(4)) or b"", "little")


@contextmanager
def kernel_ring(ring_bytes: int, size: int) -> Iterator[KernelRing]:
    """Load the program with a ring for records of one size, at least 16 bytes."""
    counter = Map("counter", bpf_syscall.MAP_ARRAY, 4, 8, 1)
    ring = Map("ring", bpf_syscall.MAP_RING, 0, 0, ring_bytes)
    code = _instructions(counter, ring, size)
    text = ctypes.create_string_buffer(code, len(code))
    licence = ctypes.create_string_buffer(b"GPL")
    attribute = struct.pack(
        "<IIQQ",
        _SOCKET_FILTER,
        len(code) // 8,
        ctypes.addressof(text),
        ctypes.addressof(licence),
    )
    program = bpf_syscall.bpf(_PROG_LOAD, attribute)
    yield KernelRing(program, counter, ring)
    os.close(program)
    counter.close()
    ring.close()


def _instructions(counter: Map, ring: Map, size: int) -> bytes:
    """Return instructions that reserve, fill and submit; failures are counted too."""
    code = (
        (0x62, 0x0A, -4, 0),  # key 0
        (0x18, 0x11, 0, counter.fd),
        (0x00, 0x00, 0, 0),
        (0xBF, 0xA2, 0, 0),
        (0x07, 0x02, 0, -4),
        (0x85, 0x00, 0, _LOOKUP),
        (0x15, 0x00, 16, 0),  # never
        (0xBF, 0x06, 0, 0),  # r6 = counter
        (0x79, 0x67, 0, 0),  # r7 = taken
        (0x07, 0x07, 0, 1),
        (0x7B, 0x76, 0, 0),
        (0x18, 0x11, 0, ring.fd),
        (0x00, 0x00, 0, 0),
        (0xB7, 0x02, 0, size),
        (0xB7, 0x03, 0, 0),
        (0x85, 0x00, 0, _RESERVE),
        (0x15, 0x00, 6, 0),  # full
        (0x7B, 0x70, 0, 0),
        (0xB7, 0x01, 0, 0),
        (0x7B, 0x10, 8, 0),
        (0xBF, 0x01, 0, 0),
        (0xB7, 0x02, 0, 1),
        (0x85, 0x00, 0, _SUBMIT),
        (0xB7, 0x00, 0, 0),
        (0x95, 0x00, 0, 0),
    )
    return b"".join(struct.pack("<BBhi", *instruction) for instruction in code)
