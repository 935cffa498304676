"""Samples as loaded cases: made once for all tests that only read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conftest import ROOT
from workbench.commands.load import load_into

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture(scope="session")
def sample_case(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return what gives the case of a sample by its name."""
    folder = tmp_path_factory.mktemp("samples")

    def loaded(name: str) -> Path:
        path = folder / f"{name}.duckdb"
        if not path.exists():
            load_into(path, [ROOT / "samples" / name])
        return path

    return loaded
