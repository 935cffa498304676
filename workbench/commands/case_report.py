"""What the report of a case says: the verdict in full, and what it stands on.

Built from the same frames and in the same words as the text of ``coldtrace diagnose``.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import workbench
from workbench.charts.lanes import late_window
from workbench.charts.registry import CHARTS
from workbench.commands import case_report_sources as sources
from workbench.commands.diagnose import QUERIES, gather
from workbench.commands.output import plain
from workbench.commands.verdict_context import EVEN_WORK, job_facts
from workbench.commands.verdict_frames import STRAGGLER, Verdict
from workbench.commands.verdict_layout import many, short
from workbench.commands.verdict_text import (
    cause,
    evidence_query,
    headline,
    named_victims,
    often,
    other_sentence,
    quoted,
    sentence,
    victims,
)
from workbench.exporters.selection import clock_join, cluster_time
from workbench.report.content import (
    Command,
    Facts,
    Figure,
    Number,
    Numbers,
    Paragraph,
    Report,
    Section,
)
from workbench.report.figures import headings
from workbench.report.recorded import RecordedCase

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from workbench.report.content import Block
    from workbench.store.case import Case

VERDICT_QUERIES = ("findings", "victims", "causes", "shares")
"""What the numbers of a finding come from, by name."""

TOP = 5
"""Findings that are shown whole."""

SAMPLE_QUERY = "from finding where verdict = 'found'"
WORDS = (
    ("rank", "one process of the job, by its number"),
    ("step", "one round of the job's work, as its own collectives mark it"),
    ("collective", "a call in which ranks meet: the first to come waits for the last"),
    ("own time", "a rank's time of a step outside waiting for others"),
    ("role", "ranks that make the same calls; they do the same work, so are peers"),
    (
        "late",
        (
            "own time beyond the median of the role; by that a rank is accused, and "
            "never by who arrived last"
        ),
    ),
    (
        "band",
        (
            "how far a host's clock may be off, proved by collectives; inside it "
            "nobody knows who came first, and no order is claimed"
        ),
    ),
)

LATENESS = (
    "One row a rank, one column a step; the darker, the longer the rank's own time was "
    "beyond its peers."
)
BUDGET = (
    "Mean length of a step by what the rank's own thread was doing. Grey is waiting "
    "for others: the others wait where one is late."
)
FAN = (
    "When each rank came to one collective, in common time. The bar at a point is its "
    "band; only who lies beyond all other bands came surely last."
)
LANES = (
    "What the ranks did in one late step: calls in the upper half of a lane, times off "
    "the CPU in the lower."
)
LANES_MIDDLE = (
    "What the ranks did in a step in the middle of the run: calls in the upper half of "
    "a lane, times off the CPU in the lower."
)
MIDDLE_STEP = f"""
    with middle as (
        select job_id, quantile_disc(step, 0.5) as step from model.step
        group by job_id order by count(*) desc, job_id limit 1
    )
    select
        1e-9 * (min({cluster_time("t.start_ns", "c")}) - $origin_ns) as from_s,
        1e-9 * (max({cluster_time("t.end_ns", "d")}) - $origin_ns) as to_s
    from (select s.* from model.step as s semi join middle as m
        on s.job_id = m.job_id and s.step = m.step) as t
    {clock_join("t.start_ns", "c")}
    {clock_join("t.end_ns", "d")}
"""
LATENCY = (
    "Share of a rank's times off the CPU that were at least so long. A line that runs "
    "apart to the right is a rank that was away longer."
)


def build(case: Case) -> Report:
    """Return the report of an open case."""
    recorded = RecordedCase(case)
    verdict = gather(recorded)
    recorded.cited()
    sections = (
        Section(
            name="verdict", title="Verdict", blocks=tuple(_verdict(recorded, verdict))
        ),
        Section(name="pictures", title="Pictures", blocks=tuple(_pictures(recorded))),
        sources.clocks(recorded, verdict),
        sources.coverage(recorded, verdict),
        Section(name="next", title="What to do next", blocks=tuple(_next(verdict))),
        Section(
            name="words",
            title="Words",
            blocks=(Facts(facts=tuple((name, (said,)) for name, said in WORDS)),),
        ),
        sources.bundles(recorded),
    )
    title = plain(headline(verdict))
    return Report(
        kind="Coldtrace report",
        title=title[:1].upper() + title[1:],
        subtitle=sources.subject(recorded, verdict),
        made_by=f"Made by coldtrace {workbench.__version__} from {_case_name(case)}",
        sections=sections,
        queries=recorded.queries,
        queries_note=(
            "Every number and every figure above comes from one of these. Each can be "
            f"asked again: {_query_command(case, 'SQL')}"
        ),
    )


def _case_name(case: Case) -> str:
    return "a case in memory" if case.path is None else Path(case.path).name


def _query_command(case: Case, sql: str) -> str:
    name = "CASE" if case.path is None else Path(case.path).name
    quoted = shlex.quote(sql) if sql != "SQL" else '"SQL"'
    return f"coldtrace query {shlex.quote(name)} {quoted}"


def _verdict(case: RecordedCase, verdict: Verdict) -> Iterator[Block]:
    asked = case.numbers_of(*(QUERIES[name] for name in VERDICT_QUERIES))
    rows = verdict.of(STRAGGLER, "found")
    if not rows:
        yield from _without_straggler(verdict, asked)
    for row in rows[:TOP]:
        yield Numbers(numbers=tuple(_numbers(verdict, row)), queries=asked)
        title = sentence(verdict, row) if len(rows) > 1 else "Evidence"
        yield _finding(verdict, row, title, asked)
        yield _rows_command(verdict, row)
    others = [row for row in verdict.found if row["finding"] != STRAGGLER]
    for row in others[:TOP]:
        yield _finding(verdict, row, other_sentence(verdict, row), asked)
        yield _rows_command(verdict, row)
    even = tuple(job_facts(verdict))
    if even:
        asked = case.numbers_of(QUERIES["jobs"], QUERIES["variances"])
        title = EVEN_WORK[:1].upper() + EVEN_WORK[1:]
        yield Facts(title=title, facts=even, queries=asked)
    left = max(len(rows) - TOP, 0) + max(len(others) - TOP, 0)
    if left:
        yield Paragraph(text=f"{left} more found: coldtrace diagnose --top lists them.")


def _numbers(verdict: Verdict, row: dict[str, Any]) -> Iterator[Number]:
    who = victims(verdict, row)
    yield Number(
        value=short(row["magnitude_ns"]),
        meaning=f"late, {often(row)}" + (f"; {who} waited" if who else ""),
    )
    yield Number(
        value=f"{row['affected_step_count']} of {row['step_count']}",
        meaning="steps in which it is late",
    )
    if row["slowdown_ratio"]:
        yield Number(
            value=f"{row['slowdown_ratio']:.2f} times",
            meaning="as long as the job would take if no rank were late",
        )
    yield Number(value=str(row["confidence"]), meaning="confidence in this finding")


def _finding(
    verdict: Verdict, row: dict[str, Any], title: str, asked: tuple[int, ...]
) -> Facts:
    waiting = named_victims(verdict, row) if row["finding"] == STRAGGLER else ""
    facts = {
        "victims": [waiting] if waiting else [],
        "cause": [cause(verdict, row)],
        "confidence": [row["confidence"]],
        "for": row["evidence_for"],
        "against": row["evidence_against"] or ["nothing"],
        "not checked": row["not_checked"],
        "next": [row["next_step"]] if row["next_step"] else [],
    }
    return Facts(
        title=title[:1].upper() + title[1:],
        facts=tuple((label, tuple(lines)) for label, lines in facts.items() if lines),
        queries=asked,
    )


def _rows_command(verdict: Verdict, row: dict[str, Any]) -> Command:
    name = Path(verdict.case_path).name
    sql = evidence_query(row)
    return Command(
        meaning="Its rows",
        text=f"coldtrace query {shlex.quote(plain(name))} {quoted(plain(sql))}",
    )


def _without_straggler(verdict: Verdict, asked: tuple[int, ...]) -> Iterator[Block]:
    """Return what was asked, of how many ranks, and what the answers were."""
    steps = verdict.ranks["step_count"].max() or 0
    yield Paragraph(
        text=f"{many(verdict.ranks.height, 'rank')} on "
        f"{many(verdict.hosts.height, 'host')} were looked at, over {steps} steps.",
        queries=asked,
    )
    facts = []
    for word in ("not_decidable", "not_observed"):
        rows = verdict.of(STRAGGLER, word)
        reasons = [
            line
            for row in rows
            for line in row["evidence_against"] or row["not_checked"]
        ]
        if reasons:
            facts.append((word.replace("_", " "), tuple(dict.fromkeys(reasons))))
    if facts:
        yield Facts(title="Why", facts=tuple(facts), queries=asked)


def _pictures(case: RecordedCase) -> Iterator[Block]:
    late = late_window(case)
    lanes = {"window_s": late or _middle_step(case)}
    case.cited()
    wanted: tuple[tuple[str, dict[str, Any], str], ...] = (
        ("lateness", {}, LATENESS),
        ("time_budget", {}, BUDGET),
        ("arrival_fan", {}, FAN),
        ("lanes", lanes, LANES if late else LANES_MIDDLE),
        ("latency", {}, LATENCY),
    )
    drawn = 0
    for name, options, how_to_read in wanted:
        made = figure(case, name, how_to_read, options)
        if made is not None:
            drawn += 1
            yield made
    if not drawn:
        yield Paragraph(text="This case holds no step of a rank, so nothing is drawn.")


def _middle_step(case: RecordedCase) -> tuple[float, float] | None:
    """Return the window of a step in the middle of the largest job, in seconds."""
    window = case.frame(MIDDLE_STEP, {"origin_ns": case.origin_ns}).row(0)
    return None if None in window else window


def figure(
    case: RecordedCase,
    name: str,
    how_to_read: str,
    options: dict[str, Any] | None = None,
) -> Figure | None:
    """Return a chart of the registry as a figure; None where it has no rows."""
    entry = CHARTS[name]
    frame = entry.frame(case, **(options or {}))
    queries = case.cited()
    if frame.is_empty():
        return None
    chart = entry.chart(frame)
    title, subtitle = headings(chart.to_dict())
    return Figure(
        name=name,
        title=title,
        subtitle=subtitle,
        how_to_read=how_to_read,
        chart=chart,
        frame=frame,
        queries=queries,
    )


def _next(verdict: Verdict) -> Iterator[Block]:
    steps = [
        (_who(verdict, row), row["next_step"])
        for row in _in_order(verdict)
        if row["next_step"]
    ]
    grouped: dict[str, list[str]] = {}
    for who, step in steps:
        grouped.setdefault(step, []).append(who)
    if grouped:
        yield Facts(
            facts=tuple(
                (step, (", ".join(dict.fromkeys(who)),))
                for step, who in grouped.items()
            )
        )
    else:
        yield Paragraph(text="Nothing was found that asks for a next step.")
    yield Command(
        meaning="To ask the case yourself",
        text=f"coldtrace query {shlex.quote(plain(Path(verdict.case_path).name))} "
        f'"{SAMPLE_QUERY}"',
    )


def _in_order(verdict: Verdict) -> Iterable[dict[str, Any]]:
    """Return what was found first, then what could not be decided or seen."""
    yield from verdict.found
    for word in ("not_decidable", "not_observed"):
        yield from verdict.findings.filter(verdict=word).iter_rows(named=True)


def _who(verdict: Verdict, row: dict[str, Any]) -> str:
    asked = row["finding"].removeprefix("finding_").replace("_", " ")
    host = "" if row["host_id"] is None else f" on {verdict.host_name(row['host_id'])}"
    return f"for {row['subject_kind']} {row['subject_id']}{host} ({asked})"
