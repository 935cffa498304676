"""The picture of the README: ``python -m workbench.charts.picture CASE PNG``.

It is the lateness map of a case, titled with what it shows.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.charts.lateness import lateness_map
from workbench.charts.png import to_png
from workbench.store.case import open_case
from workbench.store.views import open_library

if TYPE_CHECKING:
    from workbench.store.case import Case

LATENESS = """
    select rank, step, 1e-6 * excess_ns as excess_ms from step_excess
    order by rank, step
"""
READING = """
    select rank, magnitude_ns, affected_step_count, step_count from finding
    where finding = 'finding_straggler' and verdict = 'found'
    order by magnitude_ns desc
"""


def draw(case: Case) -> bytes:
    """Return the lateness map of a case as PNG, titled with what it shows."""
    open_library(case)
    title, subtitle = "No rank holds the job up", "own time of each step beyond peers"
    for rank, late_ns, late, steps in case.frame(READING).head(1).iter_rows():
        title = f"Rank {rank} holds the job up"
        late_ms = round(1e-6 * late_ns)
        subtitle = f"{late_ms} ms beyond its peers in {late} of {steps} steps"
    return to_png(lateness_map(case.frame(LATENESS), title=title, subtitle=subtitle))


def main(arguments: list[str]) -> int:
    """Draw ``CASE`` into ``PNG``."""
    case_path, picture = (Path(argument) for argument in arguments)
    with open_case(case_path) as case:
        picture.write_bytes(draw(case))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
