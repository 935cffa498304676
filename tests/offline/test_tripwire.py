"""The trip-wire catches what it is there to catch."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time

import pytest

from tests.offline.tripwire import Tripwire

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("ip") is None, reason="needs root and iproute2"
)


def _attempts(program: str) -> list[str]:
    with Tripwire() as wire:
        subprocess.run([sys.executable, "-c", program], check=True)
        deadline = time.monotonic() + 5
        while not wire.attempts and time.monotonic() < deadline:
            time.sleep(0.05)
    return wire.attempts


def test_a_child_that_connects_outside_is_recorded_with_its_target() -> None:
    program = (
        "import socket\n"
        "s = socket.socket(); s.settimeout(0.3)\n"
        "try: s.connect(('198.51.100.7', 443))\n"
        "except OSError: pass\n"
    )

    assert "tcp 198.51.100.7:443" in _attempts(program)


def test_a_name_look_up_is_recorded_with_the_name() -> None:
    question = b"\0\1\1\0\0\1\0\0\0\0\0\0\5fonts\7example\0\0\1\0\1"
    program = (
        "import socket\n"
        "s = socket.socket(type=socket.SOCK_DGRAM)\n"
        f"s.sendto({question!r}, ('198.51.100.53', 53))\n"
    )

    assert "dns fonts.example" in _attempts(program)


def test_loopback_works_and_leaves_no_trace() -> None:
    with Tripwire() as wire:
        with socket.create_server(("127.0.0.1", 0)) as server:
            client = socket.create_connection(server.getsockname())
            accepted, _ = server.accept()
            client.sendall(b"x")
            received = accepted.recv(1)
            client.close()
            accepted.close()
        time.sleep(0.3)

    assert received == b"x"
    assert wire.attempts == []
