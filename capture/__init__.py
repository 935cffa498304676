"""The recorder: Python standard library only, 3.9 syntax, plus libbpf or bcc if the host has one."""

from __future__ import annotations

__version__ = "0.1.0"
