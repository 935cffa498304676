"""The report as Markdown: for a ticket, a chat, a diff."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from workbench.report.content import (
    Command,
    Facts,
    Figure,
    Numbers,
    Paragraph,
    Section,
    Table,
)
from workbench.store.plain_text import plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workbench.report.content import Block, Report

_ACTS = re.compile(r"[\\`*\[\]|]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_ACTS_FIRST = re.compile(r"^(?=[#>=~+-])")
_NUMBERED = re.compile(r"^(\d+)(?=[.)])")
_MARKUP = {"<": "&lt;", ">": "&gt;", "&": "&amp;"}


def render(report: Report) -> str:
    """Return the report as Markdown."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: Report) -> Iterator[str]:
    yield f"# {text(report.title)}"
    yield ""
    yield f"{text(report.kind)}. {text(report.subtitle)}"
    for section in report.sections:
        yield from _section(section)
    yield ""
    yield "## Queries"
    yield ""
    yield _paragraph(report.queries_note)
    for query in report.queries:
        yield ""
        yield f"Q{query.number}"
        yield ""
        yield from _code(query.sql, "sql")
    yield ""
    yield text(report.made_by)


def text(words: str) -> str:
    """Return words in which nothing is markup."""
    safe = re.sub("[<>&]", lambda found: _MARKUP[found[0]], plain(words))
    return _ACTS.sub(lambda found: f"\\{found[0]}", safe)


def _paragraph(words: str) -> str:
    """Return words of which none opens a list, a heading or a rule."""
    return _NUMBERED.sub(r"\1\\", _ACTS_FIRST.sub(r"\\", text(words)))


def _section(section: Section) -> Iterator[str]:
    yield ""
    yield f"## {text(section.title)}"
    for block in section.blocks:
        yield ""
        yield from _block(block)


def _block(block: Block) -> Iterator[str]:
    if isinstance(block, Paragraph):
        yield _paragraph(block.text) + _cited(block.queries)
    elif isinstance(block, Numbers):
        for number in block.numbers:
            yield f"- **{text(number.value)}** {text(number.meaning)}"
    elif isinstance(block, Facts):
        yield from _heading(block)
        for label, lines in block.facts:
            yield f"- **{text(label)}**: {text(lines[0])}"
            yield from (f"  - {text(line)}" for line in lines[1:])
    elif isinstance(block, Command):
        yield f"{text(block.meaning)}:"
        yield ""
        yield from _code(block.text, "sh")
    elif isinstance(block, Table):
        yield from _heading(block)
        yield from _table(block)
    else:
        yield from _figure(block)


def _heading(block: Facts | Table) -> Iterator[str]:
    if block.title:
        yield f"### {text(block.title)}{_cited(block.queries)}"
        yield ""


def _table(block: Table) -> Iterator[str]:
    for row in (block.columns, ("---",) * len(block.columns), *block.rows):
        is_rule = row and row[0] == "---"
        cells = row if is_rule else [text(cell) for cell in row]
        yield f"| {' | '.join(cells)} |"


def _figure(block: Figure) -> Iterator[str]:
    yield f"### {text(block.title)}"
    yield ""
    if block.subtitle:
        yield f"{_paragraph(block.subtitle)}. Drawn in the page."
        yield ""
    yield f"{_paragraph(block.how_to_read)}{_cited(block.queries)}"


def _cited(queries: tuple[int, ...]) -> str:
    return f" ({', '.join(f'Q{number}' for number in queries)})" if queries else ""


def _code(code: str, language: str) -> Iterator[str]:
    """Return a fenced block with a fence that nothing in it can end."""
    ticks = max((len(run) for run in re.findall("`+", code)), default=0)
    fence = "`" * max(3, ticks + 1)
    yield f"{fence}{language}"
    yield from (plain(line) for line in code.split("\n"))
    yield fence
