"""Says which probes tell nothing: refused, or attached and never heard of.

A program uses a few of the calls that a library has, so single probes are silent in
every recording.  A library without any hit is another matter: the calls may go to a
copy of it that is linked statically, or the program did nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

Row = dict[str, Any]

_MOST_NAMES = 3


def silence(probes: Iterable[Row], libraries: Iterable[Row]) -> str | None:
    """Return one sentence about probes without a hit, None if every one had some.

    Parameters
    ----------
    probes, libraries
        Rows of facts/probe and facts/library.
    """
    attached = [row for row in probes if row["is_attached"]]
    called = [row for row in attached if row["library_ref"] is not None]
    silent = [row for row in called if not row["hit_count"]]
    paths = {row["library_ref"]: row["path"] for row in libraries}
    heard = {row["library_ref"] for row in called if row["hit_count"]}
    unheard = sorted({row["library_ref"] for row in silent} - heard)
    parts: list[str] = []
    if silent:
        text = f"{len(silent)} of {len(called)} library probes"
        names = [str(paths.get(ref, f"library {ref}")) for ref in unheard]
        if len(names) > _MOST_NAMES:
            rest = len(names) - _MOST_NAMES
            names = [*names[:_MOST_NAMES], f"{rest} other libraries"]
        whole = f", among them all those of {' and '.join(names)}" if names else ""
        parts.append(text + whole)
    # What is counted for the scheduler stands at the first of its tracepoints.
    switches = [row for row in attached if row["stream"] == "off_cpu"]
    if switches and not any(row["hit_count"] for row in switches):
        parts.append("those of off_cpu")
    return f"never hit: {'; '.join(parts)}" if parts else None


def refused(probes: Iterable[Row]) -> str | None:
    """Return one sentence about probes that the kernel refused, None without any."""
    rows = list(probes)
    found = [row for row in rows if not row["is_attached"]]
    if not found:
        return None
    reasons = "; ".join(sorted({str(row["refused_reason"]) for row in found}))
    return f"{len(found)} of {len(rows)} probes were refused: {reasons}"
