"""A case that remembers what it was asked, so that a report can cite its queries."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING, Any

from workbench.report.content import Query
from workbench.store.case import Case
from workbench.store.catalogue import literal

if TYPE_CHECKING:
    import polars as pl

_PARAMETER = re.compile(r"\$(\w+)|\?")


class RecordedCase(Case):
    """An open case whose queries are kept, each once, in the order of asking."""

    def __init__(self, case: Case) -> None:
        super().__init__(case.connection, case.path, is_read_only=case.is_read_only)
        self.library = case.library
        self._numbers: dict[str, int] = {}
        self._cited: list[int] = []

    def frame(self, sql: str, params: Any = None) -> pl.DataFrame:  # noqa: ANN401 - as DuckDB takes them
        """Return the rows of a query, and remember it with its values in place."""
        text = bound(sql, params)
        number = self._numbers.setdefault(text, len(self._numbers) + 1)
        self._cited.append(number)
        return super().frame(sql, params)

    def cited(self) -> tuple[int, ...]:
        """Return the numbers of the queries since this was last asked."""
        numbers, self._cited = self._cited, []
        return tuple(dict.fromkeys(numbers))

    def numbers_of(self, *queries: str) -> tuple[int, ...]:
        """Return the numbers of queries without parameters that were asked before."""
        return tuple(self._numbers[bound(sql)] for sql in queries)

    @property
    def queries(self) -> tuple[Query, ...]:
        """Return every query by its number."""
        return tuple(Query(number=at, sql=sql) for sql, at in self._numbers.items())


def bound(sql: str, params: Any = None) -> str:  # noqa: ANN401 - as DuckDB takes them
    """Return a query with its parameters as literals, so that it can be pasted."""
    lines = [line.rstrip() for line in textwrap.dedent(sql).strip().splitlines()]
    text = "\n".join(line for line in lines if line)
    if not params:
        return text
    named = params if isinstance(params, dict) else {}
    in_order = iter(() if named else params)

    def value(found: re.Match[str]) -> str:
        if found[1] is None:
            return _literal(next(in_order))
        return _literal(named[found[1]]) if found[1] in named else found[0]

    return _PARAMETER.sub(value, text)


def _literal(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_literal, value))}]"
    return literal(str(value))
