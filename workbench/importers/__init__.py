"""Importers of foreign evidence: a kind of file each, a module each.

A module has ``KIND``, ``HELP`` and ``read``, as ``workbench.store.imports.Importer``
says, and stands in ``MODULES``.  The tables that it fills stand in
``workbench.store.import_schema``, because every case has them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from workbench.store.imports import Importer

MODULES = {"straggler-ops": "straggler_ops", "tcp-pairs": "tcp_pairs"}
"""Module of each kind; imported when it is asked for."""


def importer(kind: str) -> Importer:
    """Return the importer of a kind of file."""
    return cast("Importer", import_module(f"{__name__}.{MODULES[kind]}"))
