"""What a report says, without a form: sections of blocks, each with its queries."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import altair as alt
    import polars as pl


@dataclass(frozen=True, kw_only=True, slots=True)
class Query:
    """A query that made a number or a figure, as it can be asked again."""

    number: int
    sql: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Paragraph:
    """Prose."""

    text: str
    queries: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Number:
    """A figure that stands out, with its unit and a few words."""

    value: str
    meaning: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Numbers:
    """The few figures that somebody takes away."""

    numbers: tuple[Number, ...]
    queries: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """Labels, and what is said under each: one or several sentences."""

    facts: tuple[tuple[str, tuple[str, ...]], ...]
    title: str | None = None
    queries: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """A command to paste."""

    text: str
    meaning: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """Rows under names; numbers come as text with their units."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str | None = None
    queries: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """A chart with what it shows in words."""

    name: str
    title: str
    subtitle: str
    how_to_read: str
    chart: alt.TopLevelMixin
    frame: pl.DataFrame
    queries: tuple[int, ...] = ()


Block = Paragraph | Numbers | Facts | Command | Table | Figure


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """A part of the report with a heading."""

    name: str
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """All of it."""

    kind: str
    """What it is a report of: the small line above the title."""
    title: str
    subtitle: str
    made_by: str
    sections: tuple[Section, ...]
    queries: tuple[Query, ...] = field(default=())
    queries_note: str = ""

    @property
    def figures(self) -> tuple[Figure, ...]:
        """Return the figures in the order of the page."""
        return tuple(
            block
            for section in self.sections
            for block in section.blocks
            if isinstance(block, Figure)
        )
