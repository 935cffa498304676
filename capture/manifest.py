"""The manifest of a bundle, from the header of a spool and its survey."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from capture import __version__
from capture.chunks import chunk_sizes, kept_columns
from capture.columns import columns_of
from capture.fact_columns import FACTS
from capture.layout import OFF_STATES, OPERATIONS
from capture.pseudonyms import CLASSES, PATTERN
from capture.redaction import NOT_PROMISED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from capture.survey import StreamSurvey, Survey

FORMAT = "coldtrace-bundle"
VERSION = 1
SPOOL_DAMAGED = "spool_damaged"
_AFTER_THE_RING = (SPOOL_DAMAGED, "disk_full")
"""Losses of records that the kernel had kept, so no probe counts them."""

Row = dict[str, Any]
Facts = dict[str, list[Row]]

_TRACEPOINT_STREAMS = {"off_cpu"}


def build_manifest(header: Mapping[str, Any], survey: Survey, facts: Facts) -> Row:
    """Return the manifest of a spool.

    Parameters
    ----------
    header
        ``header.json`` of the spool.
    survey
        First pass over its frames.
    facts
        Facts as they go to the bundle.
    """
    return {
        "format": FORMAT,
        "version": VERSION,
        "capture_id": header["capture_id"],
        "created_by": header.get(
            "created_by", {"name": "coldtrace-capture", "version": __version__}
        ),
        "host": header["host"],
        "capture": _capture(header["capture"], survey, facts),
        "streams": {
            name: _stream(name, stream, facts, missing_columns(header, name))
            for name, stream in survey.streams.items()
        },
        "operations": {
            str(code): name
            for names in OPERATIONS.values()
            for code, name in sorted(names.items())
        },
        "off_states": list(OFF_STATES),
        "syscalls": header.get("syscalls", {}),
        "facts": {name: len(rows) for name, rows in ordered(facts)},
        "planted": None,
        **_redaction(header, facts),
    }


def _redaction(header: Mapping[str, Any], facts: Facts) -> Row:
    """Return what was taken out; counted here, so after a kill too."""
    if "redaction" not in header:
        return {}
    text = json.dumps([header["host"], header["capture"], facts])
    found = {match[0]: match[1] for match in PATTERN.finditer(text)}
    counts = {name: list(found.values()).count(name) for name in CLASSES}
    counts = {name: count for name, count in counts.items() if count}
    about = {**header["redaction"], "counts": counts}
    return {"redaction": {**about, "not_promised": list(NOT_PROMISED)}}


def manifest_bytes(manifest: Row) -> bytes:
    """Return a manifest as it stands in a bundle."""
    text = json.dumps(manifest, indent=1, ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "backslashreplace") + b"\n"


def ordered(facts: Facts) -> list[tuple[str, list[Row]]]:
    """Return the facts that have rows: known kinds in their order, then the others."""
    names = [*FACTS, *sorted(set(facts) - set(FACTS))]
    return [(name, facts[name]) for name in names if facts.get(name)]


def missing_columns(header: Mapping[str, Any], stream: str) -> dict[str, str]:
    """Return the columns that the loader could not give, each with the reason."""
    known = {column.name for column in columns_of(stream)}
    named: Mapping[str, str] = header.get("missing_columns", {}).get(stream, {})
    return {name: reason for name, reason in named.items() if name in known}


def _capture(recorded: Mapping[str, Any], survey: Survey, facts: Facts) -> Row:
    """Return how and when was recorded, and how it ended."""
    damage = survey.damage
    end = survey.end or {}
    is_clean = survey.end is not None
    was_damaged = bool(
        damage.torn_bytes or damage.damaged_frame_count or survey.bad_line_count
    )
    steps = [row["step"] for row in facts.get("budget_step", [])]
    stop_ns = end.get("stop_ns", max(survey.last_seen_ns, recorded["start_ns"]))
    return {
        **recorded,
        "stop_ns": stop_ns,
        "stop_reason": end.get("stop_reason", "killed"),
        "is_recovered": not is_clean or was_damaged,
        "torn_bytes": damage.torn_bytes,
        "damaged_bytes": damage.damaged_bytes,
        "damaged_frame_count": damage.damaged_frame_count,
        "unreadable_line_count": survey.bad_line_count,
        **({"budget_steps": steps} if "budget_ppm" in recorded else {}),
        "return_probe_symbols": sorted(
            {
                row["symbol"]
                for row in facts.get("probe", [])
                if row.get("has_return") and row.get("is_attached")
            }
        ),
        "job_ids": sorted(
            {
                row["job_id"]
                for kind in ("process", "rank")
                for row in facts.get(kind, [])
                if row.get("job_id")
            }
        ),
    }


def _stream(
    name: str, stream: StreamSurvey, facts: Facts, missing: Mapping[str, str]
) -> Row:
    """Return what the manifest says of one stream."""
    probes = [row for row in facts.get("probe", []) if row.get("stream") == name]
    losses = [row for row in facts.get("loss", []) if row.get("stream") == name]
    from_ns, to_ns = stream.span
    firsts = [row.get("lost_first_ns") for row in probes]
    lasts = [row.get("lost_last_ns") for row in probes]
    return {
        "row_count": stream.rows,
        "chunk_rows": chunk_sizes(stream.rows),
        "columns": [column.as_manifest() for column in kept_columns(name, missing)],
        "missing_columns": [
            {"name": column, "reason": reason} for column, reason in missing.items()
        ],
        "kind": "tracepoint" if name in _TRACEPOINT_STREAMS else "uprobe",
        "asked_probe_count": sum(bool(row.get("is_asked")) for row in probes),
        "attached_probe_count": sum(bool(row.get("is_attached")) for row in probes),
        "hit_count": _sum(probes, "hit_count"),
        "lost_count": _lost_count(probes, losses),
        "lost_first_ns": _known(
            min, [*firsts, *(row.get("first_ns") for row in losses)]
        ),
        "lost_last_ns": _known(max, [*lasts, *(row.get("last_ns") for row in losses)]),
        "from_ns": from_ns,
        "to_ns": to_ns,
        "open_count": stream.open_rows,
    }


def _lost_count(probes: list[Row], losses: list[Row]) -> int:
    """Return the records lost; probes and loss rows count the same ones."""
    later = [row for row in losses if row.get("reason") in _AFTER_THE_RING]
    others = [row for row in losses if row.get("reason") not in _AFTER_THE_RING]
    recorded = max(_sum(probes, "lost_count"), _sum(others, "lost_count"))
    return recorded + _sum(later, "lost_count")


def _sum(rows: list[Row], name: str) -> int:
    return sum(row.get(name) or 0 for row in rows)


def _known(choose: Any, values: Iterable[int | None]) -> int | None:  # noqa: ANN401
    """Return the first or last of the values that are known."""
    known = [value for value in values if value is not None]
    return choose(known) if known else None
