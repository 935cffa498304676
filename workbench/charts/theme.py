"""One look for every chart: sizes, fonts and colours that stay apart for all eyes.

Colours are of Okabe and Ito's (2008) palette and of Paul Tol's "muted" scheme, both
made for colour-blind readers; one colour means one thing everywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import altair as alt

if TYPE_CHECKING:
    from collections.abc import Iterable

STRAGGLER = "#D55E00"
PEER = "#0072B2"
MUTED = "#999999"

CLASS_COLOURS = {
    "on_cpu": "#0072B2",
    "run_queue": "#E69F00",
    "read": "#D55E00",
    "disk": "#882255",
    "file": "#AA4499",
    "network": "#009E73",
    "lock": "#CC79A7",
    "timed_sleep": "#56B4E9",
    "gpu_sync_wait": "#117733",
    "gpu_call": "#44AA99",
    "collective_call": "#DDCC77",
    "launch_gap": "#999933",
    "off_cpu_short": "#332288",
    "yielded": "#88CCEE",
    "stopped": "#661100",
    "reclaim": "#6699CC",
    "throttled": "#F0E442",
    "unexplained": "#000000",
    "run_queue_in_wait": "#888888",
    "waiting_for_others": "#CCCCCC",
}
"""Colour of each class of a time budget, in the order of legends and of bars.

Waiting comes last: own time then begins at zero, where it can be compared.
"""

WAITS = ("run_queue_in_wait", "waiting_for_others")
"""Classes that are left over to whoever is not late."""

WIDTH = 720
"""Width of the plot in pixels."""

FONT = "sans-serif"

CONFIG: dict[str, Any] = {
    "font": FONT,
    "view": {"stroke": None},
    "axis": {"labelFontSize": 11, "titleFontSize": 12, "titleFontWeight": "normal"},
    "header": {"labelFontSize": 11, "titleFontSize": 12, "titleFontWeight": "normal"},
    "title": {"anchor": "start", "fontSize": 15, "subtitleFontSize": 12, "offset": 12},
    "legend": {
        "labelFontSize": 11,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "labelLimit": 220,
        "titleLimit": 360,
        "orient": "bottom",
    },
    # vl-convert measures text with fonts of its own: without room, legends are cut.
    "padding": {"left": 8, "top": 8, "right": 24, "bottom": 8},
}

AnyChart = TypeVar("AnyChart", bound=alt.TopLevelMixin)


def themed(chart: AnyChart, *, title: str, subtitle: str = "") -> AnyChart:
    """Return the chart under its reading, in the one look of all charts."""
    heading = alt.Title(title, subtitle=subtitle) if subtitle else alt.Title(title)
    return chart.properties(title=heading).configure(**CONFIG)


def class_colour(present: Iterable[str], *, title: str = "class") -> alt.Color:
    """Return the colour encoding of budget classes, with only those in the legend."""
    here = set(present)
    known = [name for name in CLASS_COLOURS if name in here]
    other = sorted(here - set(known))
    domain = [*known, *other]
    colours = [CLASS_COLOURS.get(name, MUTED) for name in domain]
    return alt.Color(
        "class:N",
        title=title,
        sort=domain,
        scale=alt.Scale(domain=domain, range=colours),
        legend=alt.Legend(columns=4, symbolType="square"),
    )
