"""The commands of ``coldtrace``, one module each."""

from __future__ import annotations
