"""One look for every chart: sizes, fonts and colours that stay apart for all eyes.

Colours are Okabe and Ito's (2008) palette; one colour means one thing everywhere.
"""

from __future__ import annotations

from typing import Any

STRAGGLER = "#D55E00"
PEER = "#0072B2"
MUTED = "#999999"

FONT = "sans-serif"

CONFIG: dict[str, Any] = {
    "font": FONT,
    "view": {"stroke": None},
    "axis": {"labelFontSize": 11, "titleFontSize": 12, "titleFontWeight": "normal"},
    "title": {"anchor": "start", "fontSize": 15, "subtitleFontSize": 12, "offset": 12},
    "legend": {"labelFontSize": 11, "titleFontSize": 12, "titleFontWeight": "normal"},
    # vl-convert measures text with fonts of its own: without room, legends are cut.
    "padding": {"left": 8, "top": 8, "right": 24, "bottom": 8},
}
