"""The recorder: standard library only, plus libbpf or bcc where the host has one."""

from __future__ import annotations

__version__ = "0.1.0"
