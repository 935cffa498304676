"""Take the README's picture of a notebook: part of ``make picture``.

It is ``why_is_it_late`` on the sample with a late rank, in JupyterLab in Chromium.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import workbench.analysis  # noqa: F401 - registers the models
from tests.notebook.browsing import Tab, chromium, jupyterlab
from workbench.store.case import Case
from workbench.store.load import load_bundles
from workbench.ui.writing import write_notebooks

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "samples" / "late-rank"
CANVAS = ".jp-OutputArea-output .vega-embed canvas"


def take(picture: Path, scratch: Path) -> None:
    """Write the picture."""
    case = scratch / "late-rank.duckdb"
    with Case.create(case) as made:
        load_bundles(made, sorted(SAMPLE.glob("*.bundle")))
    folder = scratch / "late-rank-notebooks"
    write_notebooks(case, folder)
    with jupyterlab(folder, scratch / "home") as url, chromium() as browser:
        tab = Tab(browser, url, folder)
        tab.start()
        tab.open("why_is_it_late.ipynb")
        tab.run(until=CANVAS, count=4)
        tab.page.set_viewport_size({"width": 1200, "height": 900})
        tab.page.locator(CANVAS).first.scroll_into_view_if_needed()
        tab.page.wait_for_timeout(2_000)
        tab.page.screenshot(path=picture)


def main() -> None:
    """Take the picture again."""
    picture = Path(sys.argv[1]) if sys.argv[1:] else ROOT / "samples" / "notebook.png"
    with tempfile.TemporaryDirectory() as scratch:
        take(picture, Path(scratch))


if __name__ == "__main__":
    main()
