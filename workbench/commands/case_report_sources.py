"""What a case stands on: its clocks, what was seen and what not, its bundles."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.charts.registry import CHARTS
from workbench.commands.clocks import drift, length
from workbench.commands.diagnose import QUERIES
from workbench.commands.verdict_context import missing
from workbench.commands.verdict_layout import many
from workbench.report.content import Facts, Figure, Paragraph, Section, Table
from workbench.report.figures import headings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workbench.commands.verdict_frames import Verdict
    from workbench.report.content import Block
    from workbench.report.recorded import RecordedCase

SPAN = """
select
    count(distinct host_id) as hosts,
    min(start_utc) as start_utc,
    1e-9 * max(stop_ns - start_ns) as longest_s,
    bool_or(planted is not null) as is_planted
from stg_bundle
"""
COVERAGE = """
select
    h.host_name, c.stream, c.state, c.lost_ratio, c.reason,
    1e-9 * (c.to_ns - c.from_ns) as seconds
from coverage as c
inner join host as h on c.host_id = h.host_id
order by h.host_name, c.host_id, c.stream
"""
PROBLEMS = """
select host_name, path, kind, member, message from load_problem order by problem_number
"""
BUNDLES = """
select
    path, host_name, content_sha256, format_version, capture_id, start_utc,
    1e-9 * (stop_ns - start_ns) as seconds, loader, loader_detail, stop_reason,
    is_recovered, torn_bytes, is_directory_missing, planted
from raw.bundle
order by host_name, path
"""
IMPORTED = """
select path, content_sha256, kind, row_count, imported_utc from raw.imported_file
order by imported_utc, path
"""
CLOCK_NOTE = (
    "Hosts have clocks of their own. Coldtrace relates them only by what collectives "
    "prove: nobody leaves one before the last has entered. What is proved is a band, "
    "and no order of events on two hosts is claimed inside it."
)
BAND = (
    "How far each host's clock may be off its line over time. The reference host is "
    "not drawn: common time is its own."
)
SEEN_NOTE = (
    "What the verdict stands on. A stream that was not observed is never taken for "
    "one in which nothing happened."
)
HASH_NOTE = (
    "The hash of a bundle is the SHA-256 of its list SHA256SUMS, which names every "
    "part: coldtrace verify checks a bundle against it. Who carried a bundle is not "
    "recorded in it; what its recorder says of its own end is below."
)


def subject(case: RecordedCase, verdict: Verdict) -> str:
    """Return what was recorded, in a line."""
    row = case.frame(SPAN).row(0, named=True)
    case.cited()
    steps = max(verdict.ranks["step_count"].to_list(), default=0)
    parts = [
        many(verdict.hosts.height, "host"),
        many(verdict.ranks.height, "rank"),
        many(steps, "step"),
    ]
    if row["longest_s"] is not None:
        parts.append(f"recorded for {row['longest_s']:.1f} s")
    if row["start_utc"]:
        parts.append(f"from {row['start_utc']} by the wall clock of its first host")
    said = ", ".join(parts)
    planted = " Clocks were altered by a test tool." if row["is_planted"] else ""
    return f"{said}.{planted}"


def clocks(case: RecordedCase, verdict: Verdict) -> Section:
    """Return how the hosts' clocks are related, and how surely."""
    case.cited()
    entry = CHARTS["clock_band"]
    frame = entry.frame(case)
    queries = case.cited()
    blocks: list[Block] = [Paragraph(text=CLOCK_NOTE)]
    rows = tuple(tuple(_clock(row)) for row in verdict.clocks.iter_rows(named=True))
    if rows:
        columns = ("host", "state", "offset", "band", "drift", "rendezvous")
        blocks.append(
            Table(
                title="Clock of each host, in the middle of the recording",
                columns=columns,
                rows=rows,
                queries=case.numbers_of(QUERIES["clocks"]),
            )
        )
    if not frame.is_empty() and verdict.clocks.height > 1:
        chart = entry.chart(frame)
        title, subtitle = headings(chart.to_dict())
        blocks.append(
            Figure(
                name="clock_band",
                title=title,
                subtitle=subtitle,
                how_to_read=BAND,
                chart=chart,
                frame=frame,
                queries=queries,
            )
        )
    return Section(name="clocks", title="Clocks", blocks=tuple(blocks))


def _clock(row: dict[str, Any]) -> Iterator[str]:
    part = f", part {row['segment']}" if row["segment"] else ""
    yield f"{row['host_name'] or row['host_id']}{part}"
    state, reason = row["state"], row["reason"]
    yield f"{state}: {reason}" if reason else state
    if state == "reference":
        yield from ("0", "0", "0")
    elif state in ("alone", "contradicted"):
        yield from ("not known", "not known", "not known")
    else:
        yield length(row["offset_middle_ns"], sign=True)
        yield f"+-{length(row['error_middle_ns'])}"
        yield drift(row)
    yield f"{row['constraint_count']:,}"


def coverage(case: RecordedCase, verdict: Verdict) -> Section:
    """Return what was recorded of what, what was lost, and what was not seen."""
    frame = case.frame(COVERAGE)
    blocks: list[Block] = [
        Paragraph(text=SEEN_NOTE),
        Table(
            title="What each host recorded",
            columns=("host", "stream", "state", "lost", "recorded for"),
            rows=tuple(tuple(_seen(row)) for row in frame.iter_rows(named=True)),
            queries=case.cited(),
        ),
    ]
    gaps = tuple(missing(verdict))
    if gaps:
        asked = case.numbers_of(QUERIES["coverage"], QUERIES["presence"])
        blocks.append(
            Facts(title="Not in this case", facts=(("because", gaps),), queries=asked)
        )
    blocks.append(_checked(verdict, case.numbers_of(QUERIES["findings"])))
    problems = case.frame(PROBLEMS)
    asked_problems = case.cited()
    if not problems.is_empty():
        blocks.append(
            Table(
                title="Problems of the load",
                columns=("host", "file", "kind", "part", "what"),
                rows=tuple(
                    tuple("" if value is None else str(value) for value in row)
                    for row in problems.iter_rows()
                ),
                queries=asked_problems,
            )
        )
    return Section(
        name="seen", title="What was seen, and what not", blocks=tuple(blocks)
    )


def _seen(row: dict[str, Any]) -> Iterator[str]:
    yield row["host_name"] or "not named"
    yield row["stream"]
    reason = (row["reason"] or "").removeprefix(f"{row['stream']}: ")
    yield f"{row['state']}: {reason}" if reason else row["state"]
    lost_ratio = row["lost_ratio"] if row["state"] in ("observed", "partial") else None
    yield "" if lost_ratio is None else f"{100 * lost_ratio:.2f} %"
    yield "" if row["seconds"] is None else f"{row['seconds']:.1f} s"


def _checked(verdict: Verdict, asked: tuple[int, ...]) -> Table:
    """Return how many subjects got which answer, finding by finding."""
    words = ("found", "clear", "not_decidable", "not_observed")
    rows: list[tuple[str, ...]] = []
    for (name,), group in verdict.findings.group_by("finding", maintain_order=True):
        counts = dict(group.group_by("verdict").len().iter_rows())
        question = str(name).removeprefix("finding_").replace("_", " ")
        rows.append((question, *(str(counts.get(word, 0)) for word in words)))
    return Table(
        title="What was asked, and of how many the answer is what",
        columns=("question", *(word.replace("_", " ") for word in words)),
        rows=tuple(rows),
        queries=asked,
    )


def bundles(case: RecordedCase) -> Section:
    """Return the evidence itself: every file with its hash."""
    case.cited()
    frame = case.frame(BUNDLES)
    asked = case.cited()
    blocks: list[Block] = [Paragraph(text=HASH_NOTE)]
    blocks += [
        Facts(
            title=Path(row["path"]).name,
            facts=tuple((label, (said,)) for label, said in _bundle(row)),
            queries=asked,
        )
        for row in frame.iter_rows(named=True)
    ]
    imported = case.frame(IMPORTED)
    asked = case.cited()
    if not imported.is_empty():
        blocks.append(
            Table(
                title="Files of other tools",
                columns=("file", "SHA-256", "kind", "rows", "imported"),
                rows=tuple(
                    (Path(path).name, *map(str, rest))
                    for path, *rest in imported.iter_rows()
                ),
                queries=asked,
            )
        )
    return Section(name="bundles", title="Bundles", blocks=tuple(blocks))


def _bundle(row: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "host", str(row["host_name"])
    yield "hash", str(row["content_sha256"])
    yield "capture", f"{row['capture_id']}, format {row['format_version']}"
    yield "recorded", f"{row['seconds']:.1f} s from {row['start_utc']}"
    detail = f" ({row['loader_detail']})" if row["loader_detail"] else ""
    yield "recorder", f"loader {row['loader']}{detail}; stopped by {row['stop_reason']}"
    flaws = {
        "sealed after the recorder was killed": row["is_recovered"],
        f"{row['torn_bytes']} bytes torn off": row["torn_bytes"],
        "its directory is missing": row["is_directory_missing"],
    }
    told = [flaw for flaw, is_so in flaws.items() if is_so]
    yield "state", "; ".join(told) or "whole, as its recorder sealed it"
    if row["planted"]:
        yield "altered", f"a test tool put a clock in: {_words_of(row['planted'])}"


def _words_of(text: str) -> str:
    """Return the values of a JSON object as words; text that is none as it is."""
    try:
        told = json.loads(text)
    except ValueError:
        return text
    if not isinstance(told, dict):
        return text
    return ", ".join(f"{name} {value}" for name, value in told.items())
