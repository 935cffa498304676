"""Load bundles into a case, align clocks, name the straggler: the public names.

The names are looked up when they are first used, so that ``coldtrace --help`` does not
wait for a database that it will not open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.analysis.opening import open_case
    from workbench.commands.load import load_case
    from workbench.errors import WorkbenchError
    from workbench.store.case import Case

    __version__: str

__all__ = ["Case", "WorkbenchError", "__version__", "load_case", "open_case"]

_HOMES = {
    "Case": "workbench.store.case",
    "WorkbenchError": "workbench.errors",
    "load_case": "workbench.commands.load",
    "open_case": "workbench.analysis.opening",
}


def __getattr__(name: str) -> object:
    if name == "__version__":
        return _version()
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - as late as possible

    return getattr(import_module(_HOMES[name]), name)


def _version() -> str:
    from importlib.metadata import (  # noqa: PLC0415 - as late as possible
        PackageNotFoundError,
        version,
    )

    try:
        return version("coldtrace")
    except PackageNotFoundError:  # a checkout that nobody installed
        return "0+unknown"
