"""Paragraphs of a verdict: 80 columns wide, a label before what it says.

Names and words that come from bundles are hostile text: each goes through
:func:`~workbench.commands.output.plain`.
"""

from __future__ import annotations

import textwrap

from workbench.commands.output import PAGE_WIDTH, plain

LABEL = 12
MILLION = 1e6
SECOND = 1e9
ORDINALS = {1: "st", 2: "nd", 3: "rd"}


def field(label: str, text: str) -> list[str]:
    """Return a labelled paragraph; long labels stand on the first line as they are."""
    head = plain(label)
    space = max(LABEL, len(head))
    return textwrap.wrap(
        plain(text),
        PAGE_WIDTH,
        initial_indent=f"  {head:<{space}}  ",
        subsequent_indent=" " * (LABEL + 4),
        break_on_hyphens=False,
        break_long_words=False,
    )


def wrap(text: str, *, indent: str) -> list[str]:
    """Return a paragraph without a label."""
    return textwrap.wrap(
        plain(text),
        PAGE_WIDTH,
        initial_indent=indent,
        subsequent_indent=indent,
        break_on_hyphens=False,
    )


def short(nanoseconds: int) -> str:
    """Return a length of time in words that can be said."""
    if nanoseconds >= SECOND:
        return f"{nanoseconds / SECOND:.2f} s"
    if nanoseconds >= 10 * MILLION:
        return f"{nanoseconds / MILLION:.0f} ms"
    return f"{nanoseconds / MILLION:.2f} ms"


def many(count: int, noun: str) -> str:
    """Return a count with its noun."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def ordinal(number: int) -> str:
    """Return 1st, 2nd, 3rd and so on."""
    is_teen = number // 10 % 10 == 1
    return f"{number}{'th' if is_teen else ORDINALS.get(number % 10, 'th')}"
