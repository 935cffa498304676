"""JSON as the format allows it, and typed access that names the place of a fault.

Python's reader takes NaN, Infinity and integers of any length, and answers deep nesting
with ``RecursionError``.  A bundle may be hostile, so here all of that is "no JSON".
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, cast

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_INTEGER = 2**63 - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """One value that breaks the format: its path, and the sentence of BUNDLE.md."""

    where: str
    message: str


def parse_object(data: bytes) -> dict[str, Any] | None:
    """Return the JSON object that `data` holds, None for anything else."""
    try:
        value: object = json.loads(data.decode("utf-8"), parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _refuse(word: str) -> NoReturn:
    raise ValueError(word)


def type_name(value: object) -> str:
    """Return the JSON word for the type of a value."""
    if value is None:
        return "null"
    words: dict[type, str] = {
        bool: "boolean",
        int: "integer",
        float: "number",
        str: "string",
        list: "array",
        dict: "object",
    }
    return words[type(value)]


def clean_text(value: str) -> str:
    """Return text that UTF-8 can hold: a lone surrogate becomes U+FFFD."""
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class Node:
    """One object of a JSON document; getters note faults and return harmless values."""

    def __init__(self, value: dict[str, Any], path: str, faults: list[Fault]) -> None:
        self.value = value
        self.path = path
        self.faults = faults

    def where(self, key: str) -> str:
        """Return the path of a key of this object."""
        return f"{self.path}.{key}" if self.path else key

    def fault(self, where: str, message: str) -> None:
        """Note a fault."""
        self.faults.append(Fault(where=where, message=message))

    def impossible(self, key: str) -> None:
        """Note that the value of a key cannot be."""
        where = self.where(key)
        value = json.dumps(self.value.get(key))
        self.fault(where, f"'{where}' has the impossible value {value}")

    def get(self, key: str, expected: str, *, is_nullable: bool = False) -> Any:  # noqa: ANN401 - the type is what `expected` names
        """Return the value of a key if its type is `expected`, else note why not."""
        where = self.where(key)
        if key not in self.value:
            self.fault(where, f"missing required value in '{where}'")
            return None
        return self._typed(self.value[key], where, expected, is_nullable=is_nullable)

    def _typed(
        self, value: object, where: str, expected: str, *, is_nullable: bool = False
    ) -> object | None:
        found = type_name(value)
        if found == expected or (value is None and is_nullable):
            return value
        self.fault(where, f"'{where}' is {found}, not {expected}")
        return None

    def integer(self, key: str, *, minimum: int | None = None) -> int:
        """Return a required integer of 64 bits."""
        value = self.optional_integer(key, minimum=minimum, is_nullable=False)
        return 0 if value is None else value

    def optional_integer(
        self, key: str, *, minimum: int | None = None, is_nullable: bool = True
    ) -> int | None:
        """Return an integer or null."""
        value = self.get(key, "integer", is_nullable=is_nullable)
        if value is None:
            return None
        low = -MAX_INTEGER - 1 if minimum is None else minimum
        if not low <= value <= MAX_INTEGER:
            self.impossible(key)
            return None
        return int(value)

    def absent_or_integer(self, key: str, *, minimum: int = 0) -> int:
        """Return an integer that may be left out, 0 then."""
        return self.integer(key, minimum=minimum) if key in self.value else 0

    def text(self, key: str) -> str:
        """Return a required string."""
        value = self.get(key, "string")
        return "" if value is None else clean_text(value)

    def optional_text(self, key: str) -> str | None:
        """Return a string or null."""
        value = self.get(key, "string", is_nullable=True)
        return None if value is None else clean_text(value)

    def boolean(self, key: str) -> bool:
        """Return a required boolean."""
        return bool(self.get(key, "boolean"))

    def child(self, key: str) -> Node:
        """Return a required object; its own faults are silent if it is none."""
        value = self.get(key, "object")
        if value is None:
            return Node({}, self.where(key), [])
        return Node(value, self.where(key), self.faults)

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a required array of strings."""
        items = self.items(key, "string")
        return tuple(clean_text(item) for item in items if item is not None)

    def integers(self, key: str) -> tuple[int, ...]:
        """Return a required array of integers."""
        return tuple(item for item in self.items(key, "integer") if item is not None)

    def children(self, key: str) -> tuple[Node, ...]:
        """Return a required array of objects."""
        return tuple(
            Node(item, f"{self.where(key)}[{index}]", self.faults)
            for index, item in enumerate(self.items(key, "object"))
            if item is not None
        )

    def items(self, key: str, expected: str) -> list[Any]:
        """Return a required array, None in place of each item of another type."""
        values = cast("list[object]", self.get(key, "array") or [])
        where = self.where(key)
        return [
            self._typed(item, f"{where}[{index}]", expected)
            for index, item in enumerate(values)
        ]

    def mapping(self, key: str, read: Callable[[Node, str], Any]) -> dict[str, Any]:
        """Return a required object with each of its values read by `read`."""
        node = self.child(key)
        return {clean_text(name): read(node, name) for name in node.value}
