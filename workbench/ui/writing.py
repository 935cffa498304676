"""Notebooks out of their sources: a folder of ``.ipynb`` filled with a case.

The sources are ``notebooks/*.py`` of the checkout, ``workbench/notebooks`` in an
installed wheel.  The SQL of a ``%%case`` cell is commented in them, so that they are
Python to every tool.  A notebook that is there already is somebody's work and stays.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import jupytext
import nbformat

from workbench.errors import CaseError

INPUT = 'case = open_case("case.duckdb")'
"""The line of a source that names its case, its only input."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """What was done: files written, and files left as they were."""

    folder: Path
    new: tuple[Path, ...]
    kept: tuple[Path, ...]


def source_folder() -> Path:
    """Return the folder of the sources."""
    package = Path(__file__).parents[1]
    inside = package / "notebooks"
    return inside if inside.is_dir() else package.parent / "notebooks"


def sources() -> list[Path]:
    """Return the sources, in the order of their names.

    Raises
    ------
    CaseError
        If this installation has none.
    """
    found = sorted(source_folder().glob("*.py"))
    if not found:
        raise CaseError(f"no notebook is in {source_folder()}")
    return found


def notebook_of(source: Path, case_name: str) -> nbformat.NotebookNode:
    """Return a source as a notebook whose first code cell opens that case."""
    notebook = jupytext.read(source)
    notebook.metadata["kernelspec"] = {
        "name": "python3",
        "display_name": "Python 3 (ipykernel)",
        "language": "python",
    }
    cell = next(cell for cell in notebook.cells if cell.cell_type == "code")
    if INPUT not in cell.source:
        raise CaseError(f"{source} does not open its case with: {INPUT}")
    cell.source = cell.source.replace(INPUT, f"case = open_case({case_name!r})")
    for each in notebook.cells:
        if each.source.startswith("%%case"):
            each.source = each.source.replace("\n# ", "\n")
    return notebook


def write_notebooks(case: Path, folder: Path) -> Written:
    """Write every notebook that `folder` does not have, filled with the case.

    The case is named relative to the folder, so both may be moved together.
    """
    folder.mkdir(parents=True, exist_ok=True)
    name = os.path.relpath(case.resolve(), folder.resolve())
    new, kept = [], []
    for source in sources():
        target = folder / f"{source.stem}.ipynb"
        text = nbformat.writes(notebook_of(source, name))
        try:
            with target.open("x", encoding="utf-8") as file:
                file.write(f"{text}\n")
        except FileExistsError:
            kept.append(target)
        else:
            new.append(target)
    return Written(folder=folder, new=tuple(new), kept=tuple(kept))
