"""The recorder needs nothing but a Python: every module imports under ``-I -S``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ONLY_WITH_BCC = {"capture.loaders.bcc"}
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in (ROOT / "capture").rglob("*.py")
    if path.name not in {"__init__.py", "__main__.py"}
)
IMPORT = """
import importlib, sys
sys.path.insert(0, {root!r})
for name in {modules!r}:
    importlib.import_module(name)
"""


def _python(modules: list[str]) -> subprocess.CompletedProcess[str]:
    program = IMPORT.format(root=str(ROOT), modules=modules)
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", program],
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_recorder_module_imports_without_site_packages() -> None:
    modules = [name for name in MODULES if name not in ONLY_WITH_BCC]

    done = _python(modules)

    assert len(modules) > 10
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("foreign", ["numpy", "duckdb", "polars"])
def test_the_guard_would_catch_a_third_party_import(foreign: str) -> None:
    done = _python([foreign])

    assert "ModuleNotFoundError" in done.stderr
