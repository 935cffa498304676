"""A network namespace where loopback works and every other packet is a recorded fact.

With loopback alone a forbidden request fails at once and leaves no trace, so a test
that looks only at results passes although the program tried.  Here the default route
leads into a veth pair whose far end is read by a packet socket: nothing leaves the
machine, and what any process started inside has tried is in ``Tripwire.attempts``.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import subprocess
import threading
from pathlib import Path
from typing import Self

CLONE_NEWNET = 0x40000000
IPV4 = 0x0800
TRANSPORTS = {6: "tcp", 17: "udp"}
DNS_PORT = 53

_SET_UP = (
    "link set lo up",
    "link add trip0 type veth peer name trip1",
    "link set trip1 up",
    "link set trip0 up",
    "addr add 192.0.2.2/24 dev trip0",
    "neigh replace 192.0.2.1 lladdr 02:00:00:00:00:01 dev trip0 nud permanent",
    "route add default via 192.0.2.1 dev trip0",
)
_libc = ctypes.CDLL(None, use_errno=True)


def _call(name: str, *args: int) -> None:
    if getattr(_libc, name)(*args) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), name)


class Tripwire:
    """Move the calling thread, and all it starts, into a watched namespace."""

    def __init__(self) -> None:
        self.attempts: list[str] = []
        self._stop = threading.Event()

    def __enter__(self) -> Self:
        self._home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        _call("unshare", CLONE_NEWNET)
        for line in _SET_UP:
            subprocess.run(["ip", *line.split()], check=True)
        # Router solicitations are the kernel's own and nobody's attempt.
        for device in ("trip0", "trip1"):
            switch = Path(f"/proc/sys/net/ipv6/conf/{device}/disable_ipv6")
            if switch.exists():
                switch.write_text("1")
        self._socket = socket.socket(
            socket.AF_PACKET, socket.SOCK_RAW, socket.htons(IPV4)
        )
        self._socket.bind(("trip1", IPV4))
        self._socket.settimeout(0.2)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        return self

    def _read(self) -> None:
        while not self._stop.is_set():
            try:
                frame = self._socket.recv(65535)
            except TimeoutError:
                continue
            self.attempts.append(describe(frame))

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._socket.close()
        _call("setns", self._home, CLONE_NEWNET)
        os.close(self._home)


def describe(frame: bytes) -> str:
    """Return where an Ethernet frame with IPv4 inside wanted to go."""
    packet = frame[14:]
    header_size = (packet[0] & 15) * 4
    target = socket.inet_ntoa(packet[16:20])
    transport = TRANSPORTS.get(packet[9])
    if transport is None:
        return f"protocol {packet[9]} to {target}"
    (port,) = struct.unpack_from("!H", packet, header_size + 2)
    if transport == "udp" and port == DNS_PORT:
        return f"dns {_question(packet[header_size + 8 :])}"
    return f"{transport} {target}:{port}"


def _question(message: bytes) -> str:
    labels, at = [], 12
    while at < len(message) and message[at]:
        labels.append(message[at + 1 : at + 1 + message[at]].decode("latin1"))
        at += 1 + message[at]
    return ".".join(labels)
