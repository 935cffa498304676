"""What a select reads, from DuckDB's own parse tree.

The tree is that of ``json_serialize_sql``: no regular expression can tell a table from
a word in a string.  Three things are not plain table nodes: a common table expression
bears its own name; a recursive one with ``using key`` appears once more under the
schema ``recurring``; and a relation that a macro is given is a string argument of a
table function.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.errors import ViewError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    import duckdb

RECURRING = "recurring"


@dataclass(frozen=True, kw_only=True, slots=True)
class SqlTree:
    """The relations a select names."""

    tables: frozenset[str]
    """Tables and views, with their schema where one is written."""

    arguments: frozenset[tuple[str, str]]
    """(table function, string argument): relations, where the function is a macro."""

    functions: frozenset[str]
    ctes: frozenset[str]

    def reads(self, macros: Collection[str], known: Collection[str]) -> frozenset[str]:
        """Return what is read, counting the relations that are handed to macros."""
        handed = {
            argument
            for function, argument in self.arguments
            if function in macros and (argument in known or "." in argument)
        }
        return self.tables | handed


def parse(
    connection: duckdb.DuckDBPyConnection,
    sql: str,
    *,
    view: str,
    first_line: int = 1,
) -> SqlTree:
    """Return what one select names; `first_line` is its line in its file.

    Raises
    ------
    ViewError
        If the text is not exactly one select.
    """
    row = connection.execute("select json_serialize_sql(?)", [sql]).fetchall()[0]
    tree = json.loads(row[0])
    if tree["error"]:
        raise ViewError(
            f"not a select: {tree['error_message']}",
            view=view,
            line=first_line + _lines_before(sql, tree.get("position")),
        )
    if len(tree["statements"]) != 1:
        raise ViewError(
            f"one select is wanted, not {len(tree['statements'])}",
            view=view,
            line=first_line,
        )
    return _names(tree)


def _lines_before(sql: str, position: str | None) -> int:
    return sql.count("\n", 0, int(position)) if position else 0


def _names(tree: dict[str, Any]) -> SqlTree:
    tables: set[str] = set()
    ctes: set[str] = set()
    functions: set[str] = set()
    arguments: set[tuple[str, str]] = set()
    for node in _nodes(tree):
        ctes |= {entry["key"] for entry in node.get("cte_map", {}).get("map", [])}
        if node.get("type") == "BASE_TABLE" and node["schema_name"] != RECURRING:
            schema = f"{node['schema_name']}." if node["schema_name"] else ""
            tables.add(f"{schema}{node['table_name']}")
        elif node.get("type") == "TABLE_FUNCTION":
            name = node["function"]["function_name"]
            arguments |= {(name, text) for text in _strings(node["function"])}
        if node.get("class") == "FUNCTION":
            functions.add(node["function_name"])
    return SqlTree(
        tables=frozenset(tables - ctes),
        arguments=frozenset(arguments),
        functions=frozenset(functions),
        ctes=frozenset(ctes),
    )


def _nodes(tree: object) -> Iterator[dict[str, Any]]:
    stack: list[object] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            yield node
            stack += node.values()
        elif isinstance(node, list):
            stack += node


def _strings(function: dict[str, Any]) -> Iterator[str]:
    for node in _nodes(function["arguments"]):
        literal = node.get("literal")
        if isinstance(literal, dict) and literal.get("kind") == "STRING":
            yield literal["text"]
