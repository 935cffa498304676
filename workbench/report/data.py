"""The report as data for JSON: the same words, and the rows behind each figure."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from workbench.report.content import Figure

if TYPE_CHECKING:
    from workbench.report.content import Block, Report


def render(report: Report) -> dict[str, Any]:
    """Return the report as values that JSON has."""
    return {
        "kind": report.kind,
        "title": report.title,
        "subtitle": report.subtitle,
        "made_by": report.made_by,
        "sections": [
            {
                "name": section.name,
                "title": section.title,
                "blocks": [_block(block) for block in section.blocks],
            }
            for section in report.sections
        ],
        "queries_note": report.queries_note,
        "queries": [
            {"number": query.number, "sql": query.sql} for query in report.queries
        ],
    }


def _block(block: Block) -> dict[str, Any]:
    told: dict[str, Any] = {"block": type(block).__name__.lower()}
    if isinstance(block, Figure):
        told |= {
            name: getattr(block, name)
            for name in ("name", "title", "subtitle", "how_to_read", "queries")
        }
        return told | {"rows": block.frame.to_dicts()}
    for each in fields(block):
        value = getattr(block, each.name)
        if each.name == "facts":
            value = [{"label": label, "lines": lines} for label, lines in value]
        elif each.name == "numbers":
            value = [{"value": one.value, "meaning": one.meaning} for one in value]
        told[each.name] = value
    return told
