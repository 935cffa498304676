"""Coldtrace's workbench: load bundles into one case, align clocks, name the straggler."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from workbench.errors import WorkbenchError
from workbench.store.case import Case, open_case

try:
    __version__ = version("coldtrace")
except PackageNotFoundError:  # a checkout that nobody installed
    __version__ = "0+unknown"

__all__ = ["Case", "WorkbenchError", "__version__", "open_case"]
