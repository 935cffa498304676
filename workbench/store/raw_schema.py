"""The raw tables: what a case holds before any view, column for column.

All of them are made with the case, empty: every known stream has its table, so that a
view binds and a stream that nobody recorded is an empty table and not an error.  Event
columns follow ``capture/BUNDLE.md``; a companion ``has_*`` column has become NULL.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.bundle.facts import CLOCK_READING, FACTS, Key
from workbench.store.import_schema import import_columns

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


@dataclass(frozen=True, kw_only=True, slots=True)
class EventColumn:
    """One column of an event table.

    ``dtype`` is what the bundle holds; ``names`` is the manifest's table that turns the
    code into a word.
    """

    name: str
    type: str
    dtype: str
    names: str | None = None


_DTYPES = {
    "BIGINT": "<i8",
    "INTEGER": "<i4",
    "SMALLINT": "<i2",
    "TINYINT": "|i1",
    "BOOLEAN": "|b1",
}
_NAMED = {
    "operation": ("<i2", "operations"),
    "off_state": ("|i1", "off_states"),
    "syscall": ("<i2", "syscalls"),
}


def _columns(**names_of: str) -> tuple[EventColumn, ...]:
    """Return columns from a list of names a type, in the order given."""
    columns: list[EventColumn] = []
    for key, names in names_of.items():
        sql_type = key.rstrip("_").upper()
        for name in names.split():
            dtype, table = _NAMED.get(name, (_DTYPES[sql_type], None))
            shown = sql_type if table is None else "VARCHAR"
            columns.append(EventColumn(name=name, type=shown, dtype=dtype, names=table))
    return tuple(columns)


EVENT_TABLES: dict[str, tuple[EventColumn, ...]] = {
    "collective": _columns(
        bigint="start_ns duration_ns collective_seq element_count stream_handle",
        integer="caller_library_ref",
        bigint_="caller_offset",
        integer_="pid tid communicator_ref child_ref return_code data_type peer_rank "
        "group_seq",
        smallint="operation probe_id group_depth",
        tinyint="depth",
        boolean="is_open is_captured is_base_known",
    ),
    "gpu_call": _columns(
        bigint="start_ns duration_ns size_bytes stream_handle object_handle",
        integer="caller_library_ref",
        bigint_="caller_offset",
        integer_="pid tid return_code",
        smallint="operation probe_id",
        tinyint="depth copy_kind layer",
        boolean="is_open is_captured",
    ),
    "off_cpu": _columns(
        bigint="start_ns duration_ns runq_latency_ns skipped_ns skipped_runnable_ns",
        integer="pid tid next_pid next_tid prev_pid prev_tid waker_pid waker_tid "
        "skipped_count",
        smallint="syscall cpu",
        tinyint="off_state",
        boolean="is_open is_iowait is_preempted is_yielded is_totals_only "
        "is_waker_in_interrupt",
    ),
}
"""Columns of each event table behind ``bundle_id, host_id, thread_id``."""

REQUIRED_COLUMNS = ("start_ns", "pid", "tid")
"""Without one of these a row is about nothing: such a stream is not loaded."""

_IDS = "bundle_id INTEGER, host_id INTEGER"

_CASE_TABLES = {
    "bundle": f"""{_IDS}, path VARCHAR, content_sha256 VARCHAR, format_version INTEGER,
        capture_id VARCHAR, boot_id VARCHAR, machine_id VARCHAR, host_name VARCHAR,
        architecture VARCHAR, kernel_release VARCHAR, cpu_count INTEGER,
        start_ns BIGINT, stop_ns BIGINT, start_utc VARCHAR, loader VARCHAR,
        loader_detail VARCHAR, probe_set VARCHAR, off_cpu_min_ns BIGINT,
        stop_reason VARCHAR, is_recovered BOOLEAN, torn_bytes BIGINT,
        is_directory_missing BOOLEAN, planted VARCHAR""",
    "bundle_stream": f"""{_IDS}, stream VARCHAR, row_count BIGINT,
        loaded_row_count BIGINT, asked_probe_count INTEGER,
        attached_probe_count INTEGER, kind VARCHAR, hit_count BIGINT,
        lost_count BIGINT, lost_first_ns BIGINT, lost_last_ns BIGINT, from_ns BIGINT,
        to_ns BIGINT, open_count BIGINT, missing_columns VARCHAR[],
        is_damaged BOOLEAN, absent_reason VARCHAR""",
    "load_problem": f"""{_IDS}, path VARCHAR, kind VARCHAR, member VARCHAR,
        message VARCHAR""",
}


CHOICE_TABLES = {"step_marker": "operation VARCHAR, communicator_id VARCHAR"}
"""What a user chose for the whole case; it is in no bundle."""


def fact_type(key: Key) -> str:
    """Return the SQL type of a key of a fact; addresses travel as hexadecimal text."""
    return "BIGINT" if key.type == "HEX" else key.type


def table_columns() -> dict[str, str]:
    """Return the column list of every table that bundles fill, by table name."""
    tables = dict(_CASE_TABLES)
    for stream, columns in EVENT_TABLES.items():
        listed = ", ".join(f"{column.name} {column.type}" for column in columns)
        tables[stream] = f"{_IDS}, thread_id INTEGER, {listed}"
    for fact, keys in FACTS.items():
        thread = "thread_id INTEGER, " if fact == "thread" else ""
        tables[f"fact_{fact}"] = f"{_IDS}, {thread}{_key_list(keys)}"
    tables["clock_reading"] = f"{_IDS}, {_key_list(CLOCK_READING)}"
    return tables


def _key_list(keys: tuple[Key, ...]) -> str:
    return ", ".join(f'"{key.name}" {fact_type(key)}' for key in keys)


def create_raw_tables(connection: DuckDBPyConnection) -> None:
    """Make schema ``raw`` with all its tables, those that are there already kept."""
    connection.execute("create schema if not exists raw")
    every = table_columns() | import_columns() | CHOICE_TABLES
    for table, columns in every.items():
        connection.execute(f"create table if not exists raw.{table} ({columns})")
