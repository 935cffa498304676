"""Spans of one thread as begins and ends on lanes where every span nests.

A thread's calls nest by nature.  Where a record was lost or a clock reading is a few
nanoseconds off they may not, and a viewer that pairs ends with begins would then show
lengths that nobody measured.  Such a span goes to a lane of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from workbench.exporters.spans import Span


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """A begin (with its span), an instant (with its span) or an end (without)."""

    kind: str
    ts_ns: int
    lane: int
    span: Span | None = None


def marks(spans: Iterable[Span]) -> Iterator[Mark]:
    """Yield the marks of one thread's spans, which come by begin, longest first.

    On each lane the marks are in order of time, and an end closes the begin before it
    that is still open.  A span that was open has no end; one whose return nobody
    recorded is an instant.
    """
    stacks: list[list[int | None]] = [[]]
    for span in spans:
        if span.end_ns is None and not span.is_open:
            yield from _ended(stacks[0], 0, until=span.begin_ns)
            yield Mark(kind="instant", ts_ns=span.begin_ns, lane=0, span=span)
            continue
        for lane, stack in enumerate(stacks):
            yield from _ended(stack, lane, until=span.begin_ns)
            if _fits(stack, span.end_ns):
                break
        else:
            lane, stack = len(stacks), []
            stacks.append(stack)
        stack.append(span.end_ns)
        yield Mark(kind="begin", ts_ns=span.begin_ns, lane=lane, span=span)
    for lane, stack in enumerate(stacks):
        yield from _ended(stack, lane, until=None)


def _ended(stack: list[int | None], lane: int, *, until: int | None) -> Iterator[Mark]:
    """Take off what ends by `until` (None: whenever it ends) and yield its ends."""
    while stack:
        end = stack[-1]
        if end is None or (until is not None and end > until):
            return
        stack.pop()
        yield Mark(kind="end", ts_ns=end, lane=lane)


def _fits(stack: list[int | None], end: int | None) -> bool:
    """Return whether a span that ends at `end` ends within the innermost open one."""
    if not stack or stack[-1] is None:
        return True
    return end is not None and end <= stack[-1]
