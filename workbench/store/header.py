"""The comment at the head of a view file, read into data.

A header is the only documentation a view has, and it is checked: the catalogue, the
comments in the database, ``coldtrace views`` and ``sql/README.md`` are all made from
it, and a header that does not tell the truth about its select is an error.  A side-car
file was rejected, because such files drift.

Grammar, in the order of a file::

    -- One sentence that says what a row is.
    --
    -- Any further prose, up to the first field.
    --
    -- field:  value, which may go on
    --         on a line that is indented deeper
    --
    -- columns:
    --   name      TYPE     unit  meaning, which may go on
    --                            on a line that is indented deeper

A unit is one word of `UNITS` with two spaces after it, so that a meaning may begin with
the same word.  In a file of a finding the columns may be the single word ``finding``:
every finding has the same ones, and then the same grain.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.errors import ViewHeaderError

if TYPE_CHECKING:
    from collections.abc import Iterator

FIELDS = (
    "grain",
    "reads",
    "requires",
    "uses",
    "subject",
    "gap",
    "materialize",
    "exclusive",
    "caveat",
    "source",
    "since",
    "columns",
)

SCALAR_TYPES = (
    "BIGINT",
    "INTEGER",
    "SMALLINT",
    "UTINYINT",
    "DOUBLE",
    "VARCHAR",
    "BOOLEAN",
)
"""Types that JSON and a chart can hold; each may be made a list."""

UNITS = ("ns", "us", "s", "bytes", "ratio", "count", "gbs", "ppb", "ppm")

UNIT_OF_SUFFIX = {"_ns": "ns", "_bytes": "bytes", "_ppb": "ppb", "_gbs": "gbs"}
"""Units that a column's own name promises."""

PURPOSE_LENGTH = 80
FIELD_LINE = re.compile(r"^([a-z_]+):(?:\s+(.*\S))?\s*$")
COLUMN_NAME = re.compile("[a-z_][a-z0-9_]*")
COLUMN_LINE = re.compile(
    r"^(?P<name>[a-z_][a-z0-9_]*)\s+(?P<type>[A-Z]+(?:\[\])*)"
    rf"(?:\s+(?P<unit>{'|'.join(UNITS)}))?(?:\s\s+|\s+)(?P<meaning>\S.*)$"
)
UNIT_THEN_ONE_SPACE = re.compile(rf"^\S+\s+\S+\s+(?:{'|'.join(UNITS)}) \S")


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """One declared column."""

    name: str
    type: str
    unit: str | None
    meaning: str

    @property
    def comment(self) -> str:
        """Return the meaning with its unit, as the database keeps it."""
        return f"{self.meaning} [{self.unit}]" if self.unit else self.meaning


@dataclass(frozen=True, kw_only=True, slots=True)
class ViewHeader:
    """What a view file says about itself."""

    purpose: str
    notes: str
    grain: tuple[str, ...]
    reads: tuple[str, ...]
    requires: tuple[str, ...]
    uses: tuple[str, ...]
    materialize: bool
    exclusive: bool
    subject: str | None
    gap: str | None
    caveat: str | None
    source: str | None
    since: str | None
    columns: tuple[Column, ...]
    has_shared_columns: bool
    declared: frozenset[str]
    """Names of the fields that the file gives."""


@dataclass(kw_only=True, slots=True)
class _Field:
    """A field while it is collected, with the line where it begins."""

    name: str
    line: int
    text: str
    rows: list[tuple[int, str]]


def split_file(text: str) -> tuple[list[str], str]:
    """Return the header's lines without their dashes, and the select below it."""
    lines = text.splitlines()
    count = next(
        (at for at, line in enumerate(lines) if not line.startswith("--")), len(lines)
    )
    header = [line[2:].rstrip() for line in lines[:count]]
    return header, "\n".join(lines[count:]).strip()


def parse_header(text: str, *, view: str) -> ViewHeader:
    """Return the header of a view file.

    Raises
    ------
    ViewHeaderError
        If a line does not follow the grammar, or a field is missing or wrong.
    """
    lines, _ = split_file(text)
    purpose = _purpose(lines, view=view)
    notes, at = _notes(lines)
    fields = {field.name: field for field in _fields(lines, at, view=view)}
    columns, is_shared = _columns(fields, view=view)
    return ViewHeader(
        purpose=purpose,
        notes=notes,
        grain=_list_of(fields, "grain"),
        reads=_list_of(fields, "reads"),
        requires=_list_of(fields, "requires"),
        uses=_list_of(fields, "uses"),
        materialize=_flag_of(fields, "materialize", view=view),
        exclusive=_flag_of(fields, "exclusive", view=view),
        subject=_text_of(fields, "subject"),
        gap=_text_of(fields, "gap"),
        caveat=_text_of(fields, "caveat"),
        source=_text_of(fields, "source"),
        since=_text_of(fields, "since"),
        columns=columns,
        has_shared_columns=is_shared,
        declared=frozenset(fields),
    )


def _purpose(lines: list[str], *, view: str) -> str:
    purpose = lines[0].strip() if lines else ""
    if not purpose or FIELD_LINE.match(purpose):
        raise ViewHeaderError(
            "the first line must say in one sentence what a row is", view=view, line=1
        )
    if not purpose.endswith("."):
        raise ViewHeaderError(
            "the first line must be one sentence that ends in a full stop",
            view=view,
            line=1,
        )
    return purpose


def _notes(lines: list[str]) -> tuple[str, int]:
    """Return the prose before the first field, and the index of that field."""
    for at, line in enumerate(lines[1:], start=1):
        found = FIELD_LINE.match(line.removeprefix(" "))
        if found and found[1] in FIELDS:
            return " ".join(part.strip() for part in lines[1:at]).strip(), at
    return " ".join(part.strip() for part in lines[1:]).strip(), len(lines)


def _fields(lines: list[str], at: int, *, view: str) -> Iterator[_Field]:
    current: _Field | None = None
    seen: set[str] = set()
    for number, line in enumerate(lines[at:], start=at + 1):
        if not line.strip():
            continue
        found = FIELD_LINE.match(line.removeprefix(" "))
        if found:
            if current:
                yield current
            current = _begin(found, number, seen, view=view)
        elif current is None or not line.startswith("  "):
            raise ViewHeaderError(
                f"neither a field nor its continuation: {line.strip()!r}",
                view=view,
                line=number,
            )
        else:
            current.rows.append((number, line))
            current.text = f"{current.text} {line.strip()}".strip()
    if current:
        yield current


def _begin(found: re.Match[str], number: int, seen: set[str], *, view: str) -> _Field:
    name = found[1]
    if name not in FIELDS:
        raise ViewHeaderError(
            f"unknown field {name!r}",
            view=view,
            line=number,
            hint=f"the fields are {', '.join(FIELDS)}",
        )
    if name in seen:
        raise ViewHeaderError(f"field {name!r} twice", view=view, line=number)
    seen.add(name)
    return _Field(name=name, line=number, text=found[2] or "", rows=[])


def _list_of(fields: dict[str, _Field], name: str) -> tuple[str, ...]:
    text = fields[name].text if name in fields else ""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _flag_of(fields: dict[str, _Field], name: str, *, view: str) -> bool:
    if name not in fields:
        return False
    if fields[name].text not in ("yes", "no"):
        raise ViewHeaderError(
            f"{name} is yes or no, not {fields[name].text!r}",
            view=view,
            line=fields[name].line,
        )
    return fields[name].text == "yes"


def _text_of(fields: dict[str, _Field], name: str) -> str | None:
    return (fields[name].text or None) if name in fields else None


def _columns(
    fields: dict[str, _Field], *, view: str
) -> tuple[tuple[Column, ...], bool]:
    """Return the declared columns, and whether they are those of every finding."""
    if "columns" not in fields:
        raise ViewHeaderError("no field 'columns'", view=view, line=1)
    field = fields["columns"]
    if field.text == "finding":
        return (), True
    columns = tuple(
        _column(text, number, view=view) for number, text in _column_rows(field.rows)
    )
    if not columns:
        raise ViewHeaderError("no column declared", view=view, line=field.line)
    names = [column.name for column in columns]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ViewHeaderError(
            f"columns declared twice: {', '.join(sorted(twice))}",
            view=view,
            line=field.line,
        )
    return columns, False


def _column_rows(rows: list[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Join each column with the deeper lines that continue its meaning."""
    depth = len(rows[0][1]) - len(rows[0][1].lstrip()) if rows else 0
    joined: list[tuple[int, str]] = []
    for number, line in rows:
        if len(line) - len(line.lstrip()) > depth and joined:
            joined[-1] = (joined[-1][0], f"{joined[-1][1]} {line.strip()}")
        else:
            joined.append((number, line.strip()))
    yield from joined


def _column(text: str, number: int, *, view: str) -> Column:
    found = COLUMN_LINE.match(text)
    if not found:
        raise ViewHeaderError(
            f"not a column: {text!r}",
            view=view,
            line=number,
            hint="write: name  TYPE  unit  meaning",
        )
    unit, meaning = found["unit"], found["meaning"]
    promised = promised_unit(found["name"])
    if unit and unit != promised and UNIT_THEN_ONE_SPACE.match(text):
        unit, meaning = None, f"{unit} {meaning}"
    column = Column(name=found["name"], type=found["type"], unit=unit, meaning=meaning)
    _check_column(column, promised, number, view=view)
    return column


def promised_unit(name: str) -> str | None:
    """Return the unit that the end of a column's name promises, if it does."""
    return next(
        (unit for suffix, unit in UNIT_OF_SUFFIX.items() if name.endswith(suffix)), None
    )


def _check_column(
    column: Column, promised: str | None, number: int, *, view: str
) -> None:
    if column.type.replace("[]", "") not in SCALAR_TYPES:
        raise ViewHeaderError(
            f"column {column.name} has type {column.type}, which neither JSON nor a "
            "chart can hold",
            view=view,
            line=number,
            hint=f"cast to one of {', '.join(SCALAR_TYPES)}",
        )
    if promised and column.unit != promised:
        raise ViewHeaderError(
            f"column {column.name} must have the unit {promised}, not "
            f"{column.unit or 'none'}",
            view=view,
            line=number,
        )
