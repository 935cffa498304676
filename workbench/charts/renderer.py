"""How a chart shows itself in a notebook: live where JupyterLab is, else a picture.

JupyterLab 4.6 draws Vega-Lite up to 5, and Altair 6 labels what it writes 6, so its own
"mimetype" renderer prints ``<VegaLite 6 object>``; its default one asks a CDN for
scripts.  The same specification draws under the label that JupyterLab knows, with
nothing fetched.  Every other front end shows the PNG, and a terminal the title.
"""

from __future__ import annotations

import base64
from typing import Any

import altair as alt

from workbench.charts.png import spec_to_png

NAME = "coldtrace"
MEDIA_TYPE = "application/vnd.vegalite.v5+json"
SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
"""A name for JupyterLab to know the version by; nobody asks for it."""

EMBED_OPTIONS = {"renderer": "canvas", "actions": False}
"""vega-embed 7 draws SVG by default, twice as slow from some 500 marks on."""


def render(spec: dict[str, Any], **_: object) -> dict[str, Any]:
    """Return one bundle of a chart's specification, its picture and its title."""
    picture = spec_to_png(spec, scale=1.0)
    meta = {**spec.get("usermeta", {}), "embedOptions": EMBED_OPTIONS}
    return {
        MEDIA_TYPE: {**spec, "$schema": SCHEMA, "usermeta": meta},
        "image/png": base64.b64encode(picture).decode(),
        "text/plain": _words(spec.get("title", "chart")),
    }


def _words(title: str | dict[str, Any]) -> str:
    if isinstance(title, str):
        return title
    return ": ".join(str(title[part]) for part in ("text", "subtitle") if part in title)


def enable() -> None:
    """Make every chart of this process show itself so."""
    alt.renderers.register(NAME, render)
    alt.renderers.enable(NAME)
