"""What the report of a comparison says: the gate, what differs, where, and of what."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import workbench
from workbench.analysis.comparison.outcome import FAILED, NOT_DECIDABLE
from workbench.analysis.comparison.settings import drift
from workbench.analysis.comparison.sides import read_run
from workbench.analysis.opening import open_case
from workbench.charts.registry import CHARTS
from workbench.commands import case_report_sources as sources
from workbench.commands.compare_text import (
    facts,
    headline,
    p_value,
    part_name,
    percent,
    shortened,
    tables,
    time_of,
)
from workbench.commands.output import plain
from workbench.report.content import (
    Facts,
    Figure,
    Number,
    Numbers,
    Paragraph,
    Report,
    Section,
    Table,
)
from workbench.report.figures import headings
from workbench.report.recorded import RecordedCase

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from workbench.analysis.comparison.outcome import Comparison
    from workbench.analysis.comparison.sides import Run
    from workbench.report.content import Block, Query
    from workbench.store.case import Case

GATES = {FAILED: "fails", NOT_DECIDABLE: "too few steps"}
PARTS = (
    "Mean of a step on both sides, and the change as a part of the base's step. The "
    "p-value is corrected for the number of rows (Holm); it is there to be read, and "
    "decides nothing."
)
BARS = "Mean of a step by what the ranks' threads were doing, one bar a run."
SETTINGS = (
    "Settings and libraries in which the two sides differ. That shows no cause, but "
    "look here first."
)
QUERIES = (
    "What the first run of the case is read by; every other run is read by the same. "
    "The interval and the p-values are computed from these steps."
)


def build(comparison: Comparison) -> Report:
    """Return the report of a comparison, whose runs are opened again for it."""
    queries, asked, picture = _read_again(comparison)
    title = _without_folders(comparison, headline(comparison))
    against = f"{_names(comparison.case)} against {_names(comparison.base)}"
    found = [
        Section(
            name="verdict", title="Verdict", blocks=tuple(_verdict(comparison, asked))
        ),
        Section(
            name="parts",
            title="Where",
            blocks=tuple(_parts(comparison, picture, asked)),
        ),
        Section(name="settings", title="Set up differently", blocks=_drift(comparison)),
        Section(name="bundles", title="Bundles", blocks=tuple(_bundles(comparison))),
    ]
    return Report(
        kind="Coldtrace comparison",
        title=title[:1].upper() + title[1:],
        subtitle=_without_folders(comparison, against),
        made_by=f"Made by coldtrace {workbench.__version__}",
        sections=tuple(found),
        queries=queries,
        queries_note=QUERIES,
    )


def _without_folders(comparison: Comparison, text: str) -> str:
    """Return a text with the cases' names alone, where they tell them apart."""
    names = {run.name: Path(run.name).name for run in comparison.base + comparison.case}
    if len(set(names.values())) == len(names):
        for path, name in names.items():
            text = text.replace(plain(path), plain(name))
    return text


def _names(runs: Sequence[Run]) -> str:
    return ", ".join(
        f"{run.name} ({', '.join(run.hosts)}; {run.step_count} steps)" for run in runs
    )


def _verdict(comparison: Comparison, asked: tuple[int, ...]) -> Iterator[Block]:
    decisive = comparison.decisive
    base, case = decisive.change.base, decisive.change.case
    bounds = decisive.change.ratio_interval()
    what = "own time of a step" if comparison.is_of_groups else "a step"
    yield Numbers(
        numbers=(
            Number(
                value=GATES.get(comparison.gate, "holds"),
                meaning=f"the gate, at {percent(comparison.threshold)}",
            ),
            Number(value=percent(decisive.ratio), meaning=f"change of {what}"),
            Number(
                value="not known"
                if bounds is None
                else " to ".join(map(percent, bounds)),
                meaning="its interval, with 95 % confidence",
            ),
            Number(
                value=f"{time_of(base.mean)} -> {time_of(case.mean)}",
                meaning=f"mean of {what}, base and case",
            ),
        ),
        queries=asked,
    )
    said = tuple((label, (text,)) for label, text in facts(comparison))
    yield Facts(title="Evidence", facts=said, queries=asked)


def _parts(
    comparison: Comparison, picture: Figure | None, asked: tuple[int, ...]
) -> Iterator[Block]:
    yield Paragraph(text=PARTS)
    if picture is not None:
        yield picture
    for title, rows in tables(comparison):
        yield Table(
            title=title[:1].upper() + title[1:],
            columns=("part", "base", "case", "change of a step", "p (Holm)"),
            rows=tuple(
                (
                    part_name(part),
                    time_of(part.change.base.mean),
                    time_of(part.change.case.mean),
                    percent(part.share),
                    p_value(part.corrected_p),
                )
                for part in rows
            ),
            queries=asked,
        )


def _drift(comparison: Comparison) -> tuple[Block, ...]:
    differing = drift(comparison.base, comparison.case)
    if differing.is_empty():
        return (Paragraph(text="Nothing that was recorded of both sides differs."),)
    rows = tuple(
        (
            topic,
            setting,
            *(", ".join(map(shortened, side)) or "not told" for side in sides),
        )
        for topic, setting, *sides in differing.iter_rows()
    )
    columns = ("of", "setting", "base", "case")
    return (Paragraph(text=SETTINGS), Table(columns=columns, rows=rows))


def _read_again(
    comparison: Comparison,
) -> tuple[tuple[Query, ...], tuple[int, ...], Figure | None]:
    """Return all queries, those that read a run, and bars where it is one a side."""
    hosts = comparison.case[0].hosts if comparison.is_of_groups else ()
    with open_case(comparison.case[0].name) as case:
        recorded = RecordedCase(case)
        read_run(recorded, hosts=hosts)
        asked = recorded.cited()
        picture = None
        if not comparison.is_of_groups and len(comparison.base) == 1:
            with open_case(comparison.base[0].name) as base:
                picture = _bars(base, recorded)
        return recorded.queries, asked, picture


def _bars(base: Case, case: RecordedCase) -> Figure:
    """Return both runs as bars."""
    entry = CHARTS["comparison"]
    frame = entry.frame(base, case, names=("base", "case"))
    chart = entry.chart(frame)
    title, subtitle = headings(chart.to_dict())
    return Figure(
        name="comparison",
        title=title,
        subtitle=subtitle,
        how_to_read=BARS,
        chart=chart,
        frame=frame,
        queries=case.cited(),
    )


def _bundles(comparison: Comparison) -> Iterator[Block]:
    yield Paragraph(text=sources.HASH_NOTE)
    sides = (("base", comparison.base), ("case", comparison.case))
    rows: list[tuple[str, ...]] = []
    for side, runs in sides:
        for run in runs:
            with open_case(run.name) as case:
                frame = case.frame(sources.BUNDLES)
            rows += [
                (
                    side,
                    Path(row["path"]).name,
                    str(row["host_name"]),
                    str(row["content_sha256"]),
                )
                for row in frame.iter_rows(named=True)
            ]
    columns = ("side", "file", "host", "hash")
    yield Table(columns=columns, rows=tuple(dict.fromkeys(rows)))
