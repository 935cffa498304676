"""All that a notebook of this project switches on: ``%load_ext workbench.ui.notebook``.

Charts draw themselves without a network, ``%%case`` asks the open case, and frames are
shown wide enough to be read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from workbench.charts import renderer
from workbench.ui import magic

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

SHOWN_ROWS = 30
SHOWN_TEXT = 120
"""Characters of a cell: a sentence of evidence is longer than polars would show."""


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Answer ``%load_ext workbench.ui.notebook``."""
    renderer.enable()
    magic.load_ipython_extension(shell)
    pl.Config.set_tbl_rows(SHOWN_ROWS)
    pl.Config.set_fmt_str_lengths(SHOWN_TEXT)
