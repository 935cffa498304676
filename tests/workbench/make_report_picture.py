"""Take the README's picture of a report: part of ``make picture``.

``python -m tests.workbench.make_report_picture REPORT.html PICTURE.png``
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.workbench.browser import chromium, opened
from workbench.charts.png import squeeze

WIDTH, HEIGHT = 960, 1024


def main(arguments: list[str]) -> None:
    """Take the top of the page."""
    page, picture = (Path(argument).resolve() for argument in arguments)
    with chromium() as browser, opened(browser, page) as seen:
        seen.page.set_viewport_size({"width": WIDTH, "height": 900})
        seen.page.screenshot(
            path=picture,
            full_page=True,
            clip={"x": 0, "y": 0, "width": WIDTH, "height": HEIGHT},
        )
    picture.write_bytes(squeeze(picture.read_bytes()))


if __name__ == "__main__":
    main(sys.argv[1:])
