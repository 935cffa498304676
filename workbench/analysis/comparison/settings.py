"""What two sides are set up with, and in what they differ.

A setting of a side is the set of values that its hosts have: a run on other hosts with
the same set-up is no difference.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from workbench.analysis.comparison.sides import Run

    Settings = Mapping[tuple[str, str], frozenset[str]]

QUERY = "select host_name, topic, setting, setting_value from host_setting"
OF_ONE_HOST = "pcie."
"""Settings that name a place in one host, which another need not have."""

SCHEMA = {
    "topic": pl.String,
    "setting": pl.String,
    "base": pl.List(pl.String),
    "case": pl.List(pl.String),
}


def settings_of(rows: pl.DataFrame, hosts: Iterable[str]) -> Settings:
    """Return the values of each (topic, setting) over some hosts."""
    found: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    wanted = set(hosts)
    for host, topic, setting, value in rows.iter_rows():
        if host in wanted:
            found[topic, setting].add(value)
    return {key: frozenset(values) for key, values in found.items()}


def drift(base: Iterable[Run], case: Iterable[Run]) -> pl.DataFrame:
    """Return a row for each setting in which two sides differ.

    Values of both sides are lists; an empty one: that side tells nothing of it.
    """
    first, second = _union(base), _union(case)
    rows = [
        (*key, sorted(first.get(key, ())), sorted(second.get(key, ())))
        for key in sorted(first.keys() | second.keys())
        if first.get(key) != second.get(key) and not key[1].startswith(OF_ONE_HOST)
    ]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def _union(runs: Iterable[Run]) -> Settings:
    found: defaultdict[tuple[str, str], frozenset[str]] = defaultdict(frozenset)
    for run in runs:
        for key, values in run.settings.items():
            found[key] |= values
    return found
