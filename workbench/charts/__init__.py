"""Charts: one module a chart, each with a frame from a case and a chart from a frame.

``<name>_frame(case, ...)`` asks the views; ``<name>_chart(frame)`` draws, reads no case
and says in its title what the frame shows.  ``workbench.charts.registry`` lists them.
"""

from __future__ import annotations
