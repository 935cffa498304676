"""The one schema of all findings: what a file gives, and what ``finding`` returns."""

from __future__ import annotations

from workbench.store.header import Column


def _column(name: str, kind: str, meaning: str, unit: str | None = None) -> Column:
    return Column(name=name, type=kind, unit=unit, meaning=meaning)


FILE_COLUMNS = (
    _column("verdict", "VARCHAR", "found or not_decidable"),
    _column("subject_kind", "VARCHAR", "what the verdict is about: rank, host, job"),
    _column("subject_id", "VARCHAR", "which one"),
    _column("host_id", "INTEGER", "host of the subject; NULL: no single one"),
    _column("rank", "INTEGER", "rank of the subject; NULL: it is no rank"),
    _column(
        "window_from_ns",
        "BIGINT",
        "begin of the window, cluster time; NULL: none",
        "ns",
    ),
    _column("window_to_ns", "BIGINT", "end of the window, cluster time", "ns"),
    _column("cause", "VARCHAR", "code of the view cause; NULL where none is shown"),
    _column("magnitude_ns", "BIGINT", "how much it costs where it happens", "ns"),
    _column(
        "clock_error_ns", "BIGINT", "half-width of the clock band it stands on", "ns"
    ),
    _column("slowdown_ratio", "DOUBLE", "job as recorded over the ideal job, >= 1"),
    _column("share_ratio", "DOUBLE", "part of the job's excess that is this subject's"),
    _column("step_count", "BIGINT", "steps looked at"),
    _column("affected_step_count", "BIGINT", "steps in which it happens"),
    _column("period_steps", "BIGINT", "steps from one time to the next; NULL: none"),
    _column("confidence", "VARCHAR", "high, medium or low"),
    _column("evidence_view", "VARCHAR", "view whose rows show it"),
    _column("evidence_keys", "VARCHAR[]", "columns and values that pick those rows"),
    _column("evidence_for", "VARCHAR[]", "what supports it"),
    _column("evidence_against", "VARCHAR[]", "what speaks against it"),
    _column("not_checked", "VARCHAR[]", "what was not looked at, with the reason"),
    _column("next_step", "VARCHAR", "what to do next"),
)
"""Columns that every finding file gives, in this order."""

FILE_GRAIN = ("subject_kind", "subject_id", "window_from_ns")
"""What tells the rows of a finding file apart."""

COLUMNS = (
    _column("finding", "VARCHAR", "finding file that asked"),
    _column("verdict", "VARCHAR", "found, clear, not_decidable or not_observed"),
    *FILE_COLUMNS[1:],
)
"""Columns of the view ``finding``."""

LISTS = ("evidence_keys", "evidence_for", "evidence_against", "not_checked")
SUBJECT_COLUMNS = ("subject_kind", "subject_id", "host_id", "rank")

GAP_COLUMNS = (*SUBJECT_COLUMNS, "stream", "reason")
"""Columns of a view that a finding names as its gap."""
