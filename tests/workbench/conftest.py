"""Samples as loaded cases: made once for all tests that only read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conftest import ROOT
from workbench.commands.load import load_into
from workbench.store.case import open_case
from workbench.store.own_views import open_library

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from workbench.report.content import Report


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


@pytest.fixture(scope="session")
def sample_report(sample_case: Callable[[str], Path]) -> Callable[[str], Report]:
    """Return what gives the report of a sample by its name."""
    from workbench.commands.case_report import build  # noqa: PLC0415 -- it draws

    made: dict[str, Report] = {}

    def built(name: str) -> Report:
        if name not in made:
            with open_case(sample_case(name)) as case:
                open_library(case)
                made[name] = build(case)
        return made[name]

    return built
