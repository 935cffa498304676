"""Models: what SQL cannot compute, as nodes of the view library.

A model reads views and writes tables of the schema ``model``.  ``workbench.analysis``
registers its models here, so that imports still run downwards only and the library
can order models and views in one graph.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from workbench.store.case import Case


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelSpec:
    """One model: the views it reads, the tables it writes and how."""

    name: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    run: Callable[[Case], None]


_MODELS: dict[str, ModelSpec] = {}


def register(model: ModelSpec) -> None:
    """Add a model to the graph of the library; the same name replaces."""
    _MODELS[model.name] = model


def registered() -> Mapping[str, ModelSpec]:
    """Return the registered models by name."""
    return dict(_MODELS)
