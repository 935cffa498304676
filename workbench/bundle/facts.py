"""Small tables of a bundle: which keys a fact has, and its rows read from JSON lines.

A line that breaks the format is left out and named; it never costs its neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.bundle.strict_json import MAX_INTEGER, Fault, Node, parse_object

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, kw_only=True, slots=True)
class Key:
    """One key of a fact: its SQL type, and whether its value may be null."""

    name: str
    type: str
    is_nullable: bool
    is_optional: bool = False
    """Added after the first bundles: may be absent, which says as much as null."""


def _keys(text: str) -> tuple[Key, ...]:
    """Return keys from words like ``pid:i start_ticks:l cgroup:s? cpu:i*``."""
    types = {
        "i": "INTEGER",
        "l": "BIGINT",
        "s": "VARCHAR",
        "b": "BOOLEAN",
        "x": "HEX",
        "S": "VARCHAR[]",
    }
    return tuple(
        Key(
            name=name,
            type=types[code[0]],
            is_nullable=code[-1] in "?*",
            is_optional=code[-1] == "*",
        )
        for name, code in (word.split(":") for word in text.split())
    )


FACTS = {
    "host": _keys(
        "boot_id:s machine_id:s? host_name:s architecture:s kernel_release:s "
        "os_name:s? cpu_count:i page_size_bytes:i ticks_per_second:i"
    ),
    "process": _keys(
        "pid:i start_ticks:l pid_namespace:l? parent_pid:i? process_name:s "
        "target_reason:s first_ns:l exit_ns:l? job_id:s? cgroup:s?"
    ),
    "thread": _keys(
        "pid:i tid:i start_ticks:l thread_name:s first_ns:l state_at_start:s?"
    ),
    "library": _keys(
        "library_ref:i device:l inode:l build_id:s? sha256:s? path:s kind:s"
    ),
    "mapping": _keys(
        "pid:i library_ref:i start_address:x end_address:x file_offset:l seen_ns:l"
    ),
    "rank": _keys(
        "pid:i start_ticks:l rank:i local_rank:i? world_size:i? source:s job_id:s?"
    ),
    "communicator": _keys(
        "communicator_ref:i pid:i kind:s origin:s? generation:i parent_ref:i? "
        "child_index:i? color:l? key:l? size:i? rank:i? how:s is_base_known:b "
        "first_ns:l destroyed_ns:l?"
    ),
    "probe": _keys(
        "probe_id:i stream:s operation:s vendor:s layer:i library_ref:i? symbol:s "
        "file_offset:l? has_return:b is_asked:b is_attached:b refused_reason:s? "
        "hit_count:l lost_count:l lost_first_ns:l? lost_last_ns:l? "
        "unmatched_return_count:l aliases:S"
    ),
    "loss": _keys(
        "stream:s probe_id:i? cpu:i* reason:s lost_count:l first_ns:l? last_ns:l?"
    ),
    "cost": _keys(
        "time_ns:l user_ns:l system_ns:l drain_ns:l? write_ns:l? rss_bytes:l "
        "rss_without_rings_bytes:l spool_bytes:l"
    ),
    "ring": _keys("stream:s size_bytes:l most_used_bytes:l"),
    "program": _keys("program:s window_ns:l run_ns:l? run_count:l? missed_count:l"),
    "config": _keys("scope:s pid:i? key:s value:s source:s"),
    "budget_step": _keys(
        "time_ns:l step:s stream:s? effect:s share_ppm:l budget_ppm:l"
    ),
}
"""Facts of format 1, keys in the order of BUNDLE.md."""

CLOCK_READING = _keys(
    "monotonic_ns:l monotonic_raw_ns:l boottime_ns:l realtime_ns:l tai_ns:l "
    "bracket_ns:l adjtime_frequency_ppb:l adjtime_tick:l adjtime_status:l "
    "adjtime_maxerror_us:l adjtime_esterror_us:l"
)
"""Keys of ``clock.jsonl``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FactRows:
    """Sound rows of one member, its number of lines and the faults of the others."""

    rows: list[dict[str, Any]]
    line_count: int
    faults: tuple[str, ...]


def parse_lines(member: str, data: bytes, keys: tuple[Key, ...]) -> FactRows:
    """Return the rows that a JSON-lines member holds."""
    rows: list[dict[str, Any]] = []
    faults: list[str] = []
    lines = data.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    for number, line in enumerate(lines, start=1):
        document = parse_object(line)
        if document is None:
            faults.append(f"{member} line {number} is not a JSON object")
            continue
        row, found = _row(document, keys)
        faults += [f"{member} line {number}: {fault.message}" for fault in found]
        if not found:
            rows.append(row)
    return FactRows(rows=rows, line_count=len(lines), faults=tuple(faults))


def _row(
    document: dict[str, Any], keys: tuple[Key, ...]
) -> tuple[dict[str, Any], list[Fault]]:
    faults: list[Fault] = []
    node = Node(document, "", faults)
    return {
        key.name: None
        if key.is_optional and key.name not in document
        else _READERS[key.type](node, key)
        for key in keys
    }, faults


def _integer(node: Node, key: Key) -> int | None:
    value = node.optional_integer(key.name, is_nullable=key.is_nullable)
    limit = MAX_INTEGER if key.type == "BIGINT" else 2**31 - 1
    if value is not None and not -limit - 1 <= value <= limit:
        node.impossible(key.name)
    return value


def _text(node: Node, key: Key) -> str | None:
    return node.optional_text(key.name) if key.is_nullable else node.text(key.name)


def _boolean(node: Node, key: Key) -> bool:
    return node.boolean(key.name)


def _texts(node: Node, key: Key) -> list[str]:
    return list(node.texts(key.name))


def _address(node: Node, key: Key) -> int | None:
    """Return a hexadecimal address; user addresses fit into 63 bits."""
    text = node.text(key.name)
    try:
        value = int(text, 16) if text else None
    except ValueError:
        value = -1
    if value is not None and not 0 <= value <= MAX_INTEGER:
        node.impossible(key.name)
        return None
    return value


_READERS: dict[str, Callable[[Node, Key], Any]] = {
    "INTEGER": _integer,
    "BIGINT": _integer,
    "VARCHAR": _text,
    "BOOLEAN": _boolean,
    "HEX": _address,
    "VARCHAR[]": _texts,
}
