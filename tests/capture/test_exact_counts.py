"""Claim: whatever a table row names is counted exactly, under every name and nested.

Stand-in libraries and the calls are made from the probe tables, so a new row is tested
as soon as it stands there.  The recorder is the real one, by both loaders.  In the set
``full`` every call is a record; ``standard`` leaves out what another layer tells, by
the rules of capture/README.md, which stand here once more in a few lines.
"""

from __future__ import annotations

import shutil
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from capture.probes import LAUNCHES, Meaning, Probe
from tests.capture import table_program
from tests.capture.live import Bundle, recording
from tests.capture.processes import running

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.bpf,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("gcc") is None, reason="no compiler here"),
]

Records = Counter[tuple[str, int]]
"""Calls by first name and depth."""


@pytest.fixture(scope="module")
def caller(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return table_program.build(tmp_path_factory.mktemp("table"))


def is_probed(row: Probe, probe_set: str) -> bool:
    """Tell whether calls of a row are looked at: launches of the driver serve both."""
    if probe_set == "full":
        return True
    is_runtime_launch = row.layer == 1 and row.operation in LAUNCHES
    return not row.is_full and not is_runtime_launch


def has_return(row: Probe, probe_set: str) -> bool:
    is_launch = row.operation in LAUNCHES
    return row.has_return or (probe_set == "full" and is_launch)


def is_recorded(row: Probe, probe_set: str) -> bool:
    silent = (Meaning.LOOK, Meaning.GROUP_START)
    return is_probed(row, probe_set) and row.meaning not in silent


def is_told_twice(outer: Probe, inner: Probe, probe_set: str) -> bool:
    """Tell whether the driver's part of a runtime call is left out."""
    return (
        probe_set == "standard"
        and (outer.stream, outer.layer) == ("gpu_call", 1)
        and (inner.stream, inner.layer) == ("gpu_call", 0)
        and is_probed(outer, probe_set)
        and has_return(outer, probe_set)
        and has_return(inner, probe_set)
    )


def expected(probe_set: str) -> tuple[Records, Counter[str]]:
    """Return the records by name and depth, and the hits by name."""
    records: Records = Counter()
    hits: Counter[str] = Counter()
    counts = table_program.call_counts()

    def add(one: table_program.Function, depth: int, count: int = 1) -> None:
        if is_probed(one.row, probe_set):
            hits[one.names[0]] += count
        if is_recorded(one.row, probe_set):
            records[one.names[0], depth] += count

    for one in table_program.functions():
        add(one, 0, sum(counts[name] for name in one.names))
    for outer, inner in table_program.nested_pairs():
        add(outer, 0)
        is_inside = is_probed(outer.row, probe_set) and has_return(outer.row, probe_set)
        add(inner, int(is_inside))
        if is_told_twice(outer.row, inner.row, probe_set):
            records[inner.names[0], 1] -= 1
    return +records, +hits


@pytest.mark.parametrize(
    ("loader", "probe_set"),
    [
        ("core", "standard"),
        ("core", "full"),
        # Removing each of its probes takes the kernel 0.1 s.
        pytest.param("bcc", "full", marks=pytest.mark.long),
    ],
)
def test_every_call_of_every_row_is_counted_exactly(
    tmp_path: Path, caller: Path, loader: str, probe_set: str
) -> None:
    streams = ("--streams", "collective,gpu_call")
    words = ("--loader", loader, "--set", probe_set, *streams)
    with running(caller) as child:
        with recording(tmp_path, "--pid", child.pid, *words) as recorder:
            assert child.tell("go") == "done"
            status = recorder.stop()
        child.end()

    with closing(Bundle(tmp_path)) as bundle:
        probes = bundle.facts["probe"]
        first = {row["probe_id"]: row["symbol"] for row in probes}
        found = Counter(
            (first[probe_id], depth)
            for stream in ("collective", "gpu_call")
            for probe_id, depth in zip(
                bundle.column(stream, "probe_id").tolist(),
                bundle.column(stream, "depth").tolist(),
                strict=True,
            )
        )
        lost = sum(s["lost_count"] for s in bundle.manifest["streams"].values())
        open_count = sum(s["open_count"] for s in bundle.manifest["streams"].values())
    hits = Counter({r["symbol"]: r["hit_count"] for r in probes if r["hit_count"] > 0})
    names = {
        (row["symbol"], *row["aliases"])
        for row in probes
        if row["library_ref"] is not None
    }
    records, expected_hits = expected(probe_set)
    assert (status, lost, open_count) == (0, 0, 0)
    assert found == records
    assert hits == expected_hits
    assert names == {
        one.names
        for one in table_program.functions()
        if probe_set == "full" or not one.row.is_full
    }
    assert {row["unmatched_return_count"] for row in probes} == {0}


def test_the_tables_are_called_by_primes_and_nested_in_every_way() -> None:
    counts = table_program.call_counts()
    pairs = table_program.nested_pairs()
    kinds = {(outer.row.library_kind, inner.row.library_kind) for outer, inner in pairs}

    assert set(counts) >= {name for row in table_program.ROWS for name in row.symbols}
    assert len(set(counts.values())) == len(counts)
    assert all(n > 1 and all(n % d for d in range(2, n)) for n in counts.values())
    assert ("cudart", "cuda") in kinds or ("cuda", "cudart") in kinds
    assert any(is_told_twice(o.row, i.row, "standard") for o, i in pairs)
