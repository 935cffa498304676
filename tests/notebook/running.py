"""Run notebooks as they would be run by hand, several after one another in one kernel.

Starting a kernel and importing the workbench takes longer than most notebooks; between
two of them all names are forgotten, so none can stand on another's.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import nbformat
import polars as pl
from nbclient import NotebookClient

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FORGET = "%reset -f\nimport warnings; warnings.simplefilter('error')"
ANSWER = "print(answer.write_json())"
# ipykernel itself warns when it is told to stop.
LAST = "import warnings; warnings.simplefilter('ignore')"


def run_notebooks(
    notebooks: Mapping[str, nbformat.NotebookNode],
    folder: Path,
    environment: Mapping[str, str] | None = None,
) -> dict[str, pl.DataFrame]:
    """Run notebooks in `folder`, warnings as errors, and return each one's ``answer``.

    The outputs are in the cells of `notebooks` afterwards.
    """
    run = nbformat.v4.new_notebook()
    asked = {}
    for name, notebook in notebooks.items():
        asked[name] = nbformat.v4.new_code_cell(ANSWER)
        run.cells += [nbformat.v4.new_code_cell(FORGET), *notebook.cells, asked[name]]
    run.cells.append(nbformat.v4.new_code_cell(LAST))
    client = NotebookClient(
        run,
        timeout=180,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
    )
    client.execute(env={**os.environ, **(environment or {})})
    return {
        name: pl.read_json(cell.outputs[0]["text"].encode())
        for name, cell in asked.items()
    }


def outputs(notebook: nbformat.NotebookNode) -> list[dict[str, Any]]:
    """Return the outputs of all cells in order."""
    code = (cell for cell in notebook.cells if cell.cell_type == "code")
    return [output for cell in code for output in cell.outputs]
