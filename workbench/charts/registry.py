"""Every chart there is, by name: how its frame is made, how it is drawn, what for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.charts import (
    arrival_fan,
    clock_band,
    comparison,
    heat_map,
    lanes,
    latency,
    lateness,
    time_budget,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    import polars as pl

    from workbench.store.case import Case


@dataclass(frozen=True, kw_only=True, slots=True)
class ChartEntry:
    """One chart: ``chart(frame(case, **options))`` draws it."""

    name: str
    purpose: str
    schema: dict[str, type[pl.DataType]]
    frame: Callable[..., pl.DataFrame]
    chart: Callable[[pl.DataFrame], Any]
    case_count: int = 1
    """Cases that the frame function takes first."""

    def draw(self, *cases: Case, **options: Any) -> Any:  # noqa: ANN401 - the frame function's own
        """Return the chart of a case, with the options of its frame function."""
        return self.chart(self.frame(*cases, **options))


CHARTS = {
    entry.name: entry
    for entry in (
        ChartEntry(
            name="lateness",
            purpose="which rank is late, in which steps",
            schema=lateness.LATENESS_SCHEMA,
            frame=lateness.lateness_frame,
            chart=lateness.lateness_chart,
        ),
        ChartEntry(
            name="heat_map",
            purpose="one measure of every rank or host over time",
            schema=heat_map.HEAT_MAP_SCHEMA,
            frame=heat_map.heat_map_frame,
            chart=heat_map.heat_map_chart,
        ),
        ChartEntry(
            name="arrival_fan",
            purpose="who came when to one collective, and what the clocks prove",
            schema=arrival_fan.ARRIVAL_FAN_SCHEMA,
            frame=arrival_fan.arrival_fan_frame,
            chart=arrival_fan.arrival_fan_chart,
        ),
        ChartEntry(
            name="time_budget",
            purpose="what a rank did with its time, against its peers",
            schema=time_budget.TIME_BUDGET_SCHEMA,
            frame=time_budget.time_budget_frame,
            chart=time_budget.time_budget_chart,
        ),
        ChartEntry(
            name="lanes",
            purpose="what the ranks were doing over time",
            schema=lanes.LANES_SCHEMA,
            frame=lanes.lanes_frame,
            chart=lanes.lanes_chart,
        ),
        ChartEntry(
            name="latency",
            purpose="how long waits and calls take, by rank",
            schema=latency.LATENCY_SCHEMA,
            frame=latency.latency_frame,
            chart=latency.latency_chart,
        ),
        ChartEntry(
            name="latency_map",
            purpose="how long waits and calls take, over time",
            schema=latency.LATENCY_MAP_SCHEMA,
            frame=latency.latency_map_frame,
            chart=latency.latency_map_chart,
        ),
        ChartEntry(
            name="clock_band",
            purpose="how well each host's clock is known",
            schema=clock_band.CLOCK_BAND_SCHEMA,
            frame=clock_band.clock_band_frame,
            chart=clock_band.clock_band_chart,
        ),
        ChartEntry(
            name="comparison",
            purpose="how a step's time was spent in two cases",
            schema=comparison.COMPARISON_SCHEMA,
            frame=comparison.comparison_frame,
            chart=comparison.comparison_chart,
            case_count=2,
        ),
    )
}
