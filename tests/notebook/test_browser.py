"""Charts and notebooks work with the cable cut: server, kernel and browser alike.

Two guards, each of which sees what the other cannot: the page's own requests, also
those that fail at once, and the wire around the whole session (tests/offline), which
sees every packet.  Each has a control here that it must catch.
"""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING

import nbformat
import pytest
from nbclient import NotebookClient

from tests.offline.tripwire import Tripwire
from workbench.charts.registry import CHARTS
from workbench.ui.writing import write_notebooks

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.notebook.conftest import Tab

pytestmark = pytest.mark.slow
CANVAS = ".jp-OutputArea-output .vega-embed canvas"
HOSTILE = "<img src=x onerror='window.pwned=1'></script>\x1b[31m\u202e"

OPEN = """
from workbench import open_case
from workbench.charts.registry import CHARTS
%load_ext workbench.ui.notebook
case = open_case({path!r})
"""
HOSTILE_FRAME = """
import polars as pl
from workbench.charts.frame import drawable
from workbench.charts.lanes import LANES_SCHEMA, lanes_chart
row = (NAME, 1, "calls", "read", 0.0, 1.0, 1, 1000.0, 0.1)
frame = drawable(pl.DataFrame([row], schema=LANES_SCHEMA, orient="row"))
"""
CDN = """
import altair as alt, polars as pl
alt.Chart(pl.DataFrame({"x": [1, 2]})).mark_bar().encode(x="x:Q")
"""
SOCKET = """
import socket
s = socket.socket(); s.settimeout(0.3)
try: s.connect(("198.51.100.7", 443))
except OSError: print("refused")
"""


def write(folder: Path, name: str, *cells: str) -> str:
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(cell) for cell in cells]
    )
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(notebook, folder / name)
    return name


def test_every_chart_draws_a_canvas_has_a_picture_and_shows_hostile_text_as_text(
    tab: Tab, sample_case: Callable[[str], Path]
) -> None:
    path = str(sample_case("late-rank"))
    cells = [
        f"CHARTS[{entry.name!r}].draw({', '.join(['case'] * entry.case_count)})"
        for entry in CHARTS.values()
    ]
    hostile = HOSTILE_FRAME.replace("NAME", repr(HOSTILE))
    first = OPEN.format(path=path) + hostile
    cells.append("lanes_chart(frame)")
    name = write(tab.root, "charts.ipynb", first, *cells, "frame")

    tab.open(name)
    tab.run(until=f"{CANVAS}, .dataframe", count=len(cells) + 1)

    assert tab.page.locator(CANVAS).count() == len(cells)
    assert tab.page.evaluate("window.pwned") is None
    shown = tab.page.locator(".dataframe").inner_text()
    assert "<img src=x" in shown
    assert "\\x1b[31m\\u202e" in shown
    assert (tab.foreign, tab.errors) == ([], [])
    tab.close()
    saved = json.loads((tab.root / name).read_text())["cells"][1:-1]
    pictures = [cell["outputs"][0]["data"]["image/png"] for cell in saved]
    assert all(picture.startswith("iVBOR") for picture in pictures)


def test_a_notebook_of_ours_runs_to_its_answer_and_asks_for_nothing(
    tab: Tab, sample_case: Callable[[str], Path]
) -> None:
    write_notebooks(sample_case("late-rank"), tab.root)

    tab.open("why_is_it_late.ipynb")
    tab.run(until=CANVAS, count=4)
    tab.page.wait_for_selector("text=blocked_read", timeout=60_000)

    assert (tab.foreign, tab.errors) == ([], [])


def test_the_default_renderer_is_caught_asking_for_a_cdn(tab: Tab) -> None:
    name = write(tab.root, "default.ipynb", CDN)

    tab.open(name)
    with tab.page.expect_request("**/cdn.jsdelivr.net/**", timeout=60_000):
        tab.run(until=".jp-OutputArea-output")

    assert any("cdn.jsdelivr.net" in url for url in tab.foreign)


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("ip") is None, reason="needs root and iproute2"
)
def test_a_kernel_that_opens_a_socket_is_caught_by_the_wire() -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(SOCKET)])

    with Tripwire() as wire:
        NotebookClient(notebook, kernel_name="python3", timeout=60).execute()

    assert "tcp 198.51.100.7:443" in wire.attempts
