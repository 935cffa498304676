"""The raw tables of foreign evidence: what other tools recorded, and from which file.

All of them are made with every case, empty, so that each view binds whether or not
anything was imported.  A kind of file is a module of ``workbench.importers``; the
tables that it fills stand here.  Every row carries the ``import_id`` of its file.
"""

from __future__ import annotations

IMPORTED_FILE = "imported_file"
"""The table of provenance: one row a file."""

_FILE_COLUMNS = """import_id INTEGER, kind VARCHAR, name VARCHAR, path VARCHAR,
    content_sha256 VARCHAR, row_count BIGINT, imported_utc VARCHAR"""

IMPORT_TABLES = {
    "imported_operation": {
        "dp_rank": "INTEGER",
        "stage": "INTEGER",
        "rank": "INTEGER",
        "step": "BIGINT",
        "operation": "VARCHAR",
        "seq": "BIGINT",
        "start_s": "DOUBLE",
        "duration_s": "DOUBLE",
    },
    "imported_packet": {
        "host_id": "INTEGER",
        "host_name": "VARCHAR",
        "time_ns": "BIGINT",
        "direction": "VARCHAR",
        "packet_seq": "VARCHAR",
        "packet_ack": "VARCHAR",
        "packet_flags": "VARCHAR",
    },
}
"""Columns of each table behind ``import_id``, as the files have them."""


def import_columns() -> dict[str, str]:
    """Return the column list of every table of foreign evidence by its name."""
    tables = {IMPORTED_FILE: _FILE_COLUMNS}
    for table, columns in IMPORT_TABLES.items():
        listed = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        tables[table] = f"import_id INTEGER, {listed}"
    return tables
