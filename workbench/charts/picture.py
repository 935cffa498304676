"""A chart of a case as PNG: ``python -m workbench.charts.picture CASE CHART PNG``.

It draws the pictures of the README again.
"""

from __future__ import annotations

import sys
from pathlib import Path

from workbench.analysis.opening import open_case
from workbench.charts.png import to_png
from workbench.charts.registry import CHARTS


def main(arguments: list[str]) -> int:
    """Draw the chart named ``CHART`` of ``CASE`` into ``PNG``."""
    case_path, name, picture = arguments
    with open_case(Path(case_path)) as case:
        Path(picture).write_bytes(to_png(CHARTS[name].draw(case)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
