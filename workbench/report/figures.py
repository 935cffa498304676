"""Charts as pictures inside a page: drawn when it is made, right on any ground.

Up to 1,000 rows a chart is SVG in the page's own ink (``currentColor``), which suits
light, dark and paper alike.  Above that it is two PNGs, one for a dark screen: as SVG
each mark would cost 200 bytes.  The title is not in the drawing, for the page says it
in text that wraps, can be found and is read aloud.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import vl_convert

from workbench.charts import png

if TYPE_CHECKING:
    from workbench.report.content import Figure

MOST_SVG_ROWS = 1_000
INK = "currentColor"
LIGHT_INK, DARK_INK = "#1b1f24", "#e6e8eb"
PADDING = {"left": 24, "top": 8, "right": 24, "bottom": 8}
"""Room for the labels of fonts that are wider than those that the drawing measured."""

LEGENDS = {"bottom": {"direction": "horizontal", "anchor": "start", "margin": 28}}

_ID = re.compile(r'\bid="([^"]+)"')
_BLACK = re.compile(r'(fill|stroke)="(?:#000|#000000|black)"')


@dataclass(frozen=True, kw_only=True, slots=True)
class Picture:
    """A drawn figure: SVG, or two PNGs in base64."""

    svg: str | None = None
    light_png: str | None = None
    dark_png: str | None = None


def headings(chart: dict[str, Any]) -> tuple[str, str]:
    """Return title and subtitle of a chart's specification."""
    title = chart.get("title", "")
    if isinstance(title, str):
        return title, ""
    return _joined(title.get("text", "")), _joined(title.get("subtitle", ""))


def _joined(text: str | list[str]) -> str:
    return text if isinstance(text, str) else " ".join(text)


def specification(figure: Figure, *, ink: str) -> dict[str, Any]:
    """Return the chart of a figure in one ink, on no ground, without its title."""
    spec = figure.chart.to_dict()
    spec.pop("title", None)
    spec["background"] = "transparent"
    config = spec.setdefault("config", {})
    config["padding"] = PADDING
    for part, colours in _inked(ink).items():
        config[part] = {**config.get(part, {}), **colours}
    return spec


def _inked(ink: str) -> dict[str, dict[str, Any]]:
    text = {"labelColor": ink, "titleColor": ink}
    lines = {"domainColor": ink, "tickColor": ink, "gridColor": ink}
    return {
        "axis": {**text, **lines, "gridOpacity": 0.15},
        # Fonts differ from machine to machine: entries need room not to touch.
        "legend": {**text, "columnPadding": 22, "layout": LEGENDS},
        "header": text,
        "title": {"color": ink, "subtitleColor": ink},
        "text": {"color": ink},
        "rule": {"color": ink},
    }


def draw(figure: Figure) -> Picture:
    """Return the picture of a figure."""
    if figure.frame.height <= MOST_SVG_ROWS:
        svg = vl_convert.vegalite_to_svg(specification(figure, ink=INK))
        return Picture(svg=_fit(svg, figure))
    return Picture(light_png=_png(figure, LIGHT_INK), dark_png=_png(figure, DARK_INK))


def _png(figure: Figure, ink: str) -> str:
    return base64.b64encode(png.draw(specification(figure, ink=ink))).decode()


def _fit(svg: str, figure: Figure) -> str:
    """Return SVG that shares a page: its own ids, the page's ink, no fixed size.

    Two drawings that both call a clip ``clip1`` would cut each other.
    """
    prefix = f"{figure.name}-"
    for name in dict.fromkeys(_ID.findall(svg)):
        svg = svg.replace(f'id="{name}"', f'id="{prefix}{name}"')
        svg = svg.replace(f"url(#{name})", f"url(#{prefix}{name})")
    return _BLACK.sub(rf'\1="{INK}"', svg)
