"""Missing evidence never becomes an all-clear, whatever the files and manifests say.

Every combination of coverage (two captures of a host, two required streams, one that
is only used), of the rows of the finding file and of its gap is a host of its own here;
the generated view is compared with rules written a second time in Python.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.workbench.small_library import (
    connection,
    library,
    view_text,
    write,
    write_judged,
)
from workbench.errors import ViewHeaderError
from workbench.store import materialize
from workbench.store.finding_schema import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import duckdb

STATES = ("absent", "silent", "partial", "observed")
PAIRS = (
    (),
    *((state,) for state in STATES),
    *itertools.combinations_with_replacement(STATES, 2),
)
USED = ((), ("absent",), ("observed",))
SAID = (
    (),
    ("found",),
    ("found", "found"),
    ("not_decidable",),
    ("not_decidable", "not_decidable"),
    ("found", "not_decidable"),
    ("clear",),
    ("not_observed",),
    (None,),
    ("clear", "found"),
)
GAPS = (False, True)
COMBINATIONS = list(itertools.product(PAIRS, PAIRS, USED, SAID, GAPS))


def _fill(
    opened: duckdb.DuckDBPyConnection, table: str, rows: Iterable[tuple[object, ...]]
) -> None:
    arrays = {
        f"column_{at}": np.array(
            column, dtype=int if type(column[0]) is int else object
        )
        for at, column in enumerate(zip(*rows, strict=True))
    }
    opened.register("filling", arrays)
    opened.execute(f"insert into raw.{table} from filling")
    opened.unregister("filling")


def _summary(states: tuple[str, ...]) -> str:
    if all(state in ("absent", "silent") for state in states):
        return "missing"
    return "observed" if set(states) == {"observed"} else "partial"


def _expected(
    required: list[str], said: tuple[str | None, ...], *, is_gap: bool
) -> list[str]:
    if "missing" in required:
        return ["not_observed"]
    if "found" in said:
        return ["found"] * said.count("found")
    if is_gap:
        return ["not_observed"]
    if said or "partial" in required:
        return ["not_decidable"]
    return ["clear"]


Row = tuple[str, str | None, list[str], int | None]
"""verdict, confidence, not_checked, magnitude_ns"""


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> list[list[Row]]:
    """Return the rows of ``finding`` for every combination."""
    folder = tmp_path_factory.mktemp("sql")
    write_judged(folder)
    opened = connection()
    coverage, subjects, said_rows, gaps = [], [], [], []
    for host, (one, two, used, said, is_gap) in enumerate(COMBINATIONS):
        for stream, states in zip(
            ("collective", "off_cpu", "gpu_call"), (one, two, used), strict=True
        ):
            coverage += [(host, stream, state, f"{stream} {state}") for state in states]
        subjects.append((host, host, host))
        said_rows += [(host, host, word, at) for at, word in enumerate(said)]
        gaps += [(host, host, "hidden")] if is_gap else []
    _fill(opened, "coverage", coverage)
    _fill(opened, "subject", subjects)
    _fill(opened, "said", said_rows)
    _fill(opened, "gap", gaps)
    materialize.build(library(opened, folder), None)
    rows = opened.execute(
        "select host_id, verdict, confidence, not_checked, magnitude_ns from finding"
    ).fetchall()
    by_host: list[list[Row]] = [[] for _ in COMBINATIONS]
    for row in rows:
        by_host[row[0]].append(row[1:])
    return by_host


def test_every_combination_gets_the_verdict_of_the_rules(
    judged: list[list[Row]],
) -> None:
    for (one, two, _, said, is_gap), rows in zip(COMBINATIONS, judged, strict=True):
        required = [_summary(one), _summary(two)]

        verdicts = [row[0] for row in rows]

        assert verdicts == _expected(required, said, is_gap=is_gap), (one, two, said)


def test_no_combination_clears_a_subject_whose_required_stream_is_not_observed(
    judged: list[list[Row]],
) -> None:
    cleared = [
        (one, two)
        for (one, two, *_), rows in zip(COMBINATIONS, judged, strict=True)
        if any(row[0] == "clear" for row in rows)
    ]

    assert cleared
    assert all(set(one) == set(two) == {"observed"} for one, two in cleared)


def test_a_found_row_on_partial_coverage_loses_confidence_and_says_why(
    judged: list[list[Row]],
) -> None:
    for (one, two, _, _, _), rows in zip(COMBINATIONS, judged, strict=True):
        partial = "partial" in (_summary(one), _summary(two))
        for verdict, confidence, not_checked, magnitude_ns in rows:
            if verdict != "found":
                assert confidence is None
                continue
            assert confidence == ("medium" if partial else "high")
            assert magnitude_ns == 1000
            assert "the disk" in not_checked
            named = any(
                word in reason
                for reason in not_checked
                for word in ("collective", "off_cpu")
            )
            assert named == partial


def test_a_used_stream_that_is_not_observed_is_named_and_changes_no_verdict(
    judged: list[list[Row]],
) -> None:
    verdicts: dict[tuple[object, ...], set[str]] = {}
    for (one, two, used, said, is_gap), rows in zip(COMBINATIONS, judged, strict=True):
        key = (one, two, said, is_gap)
        verdicts.setdefault(key, set()).add(str([row[0] for row in rows]))
        for row in rows:
            named = any("gpu_call" in reason for reason in row[2])
            assert named == (used != ("observed",))

    assert all(len(words) == 1 for words in verdicts.values())


def test_a_gap_gives_its_reason(judged: list[list[Row]]) -> None:
    seen = ("observed",)
    at = COMBINATIONS.index((seen, seen, seen, ("not_decidable",), True))

    assert judged[at] == [
        ("not_observed", None, ["gpu_kernel: hidden", "the disk"], None)
    ]


def test_a_row_about_an_unlisted_subject_is_not_lost(tmp_path: Path) -> None:
    write_judged(tmp_path)
    opened = connection()
    opened.execute(
        "insert into raw.said values ('9', 4, 'found', 0), ('8', 5, 'found', 0)"
    )
    opened.execute(
        "insert into raw.coverage values "
        "(4, 'collective', 'observed', null), (4, 'off_cpu', 'observed', null)"
    )

    materialize.build(library(opened, tmp_path), None)

    rows = opened.execute("select subject_id, verdict from finding order by all")
    assert rows.fetchall() == [("8", "not_observed"), ("9", "found")]


def test_a_subject_without_a_host_is_judged_by_all_hosts(tmp_path: Path) -> None:
    write_judged(tmp_path)
    opened = connection()
    opened.execute("insert into raw.subject values ('job', null, null)")
    opened.execute(
        "insert into raw.coverage select host, stream, "
        "if(host = 2 and stream = 'off_cpu', 'absent', 'observed'), null "
        "from range(1, 4) as h(host), (values ('off_cpu'), ('collective')) as s(stream)"
    )

    assert _verdict_now(opened, tmp_path) == [("not_decidable",)]

    opened.execute("update raw.coverage set state = 'observed'")
    assert _verdict_now(opened, tmp_path) == [("clear",)]

    opened.execute("update raw.coverage set state = 'silent' where stream = 'off_cpu'")
    assert _verdict_now(opened, tmp_path) == [("not_observed",)]


def _verdict_now(
    opened: duckdb.DuckDBPyConnection, folder: Path
) -> list[tuple[str, ...]]:
    """Return the verdicts after another bundle, which makes all of them stale."""
    opened.execute("insert into raw.bundle values (uuid()::varchar)")
    materialize.build(library(opened, folder), None)
    return opened.execute("select verdict from finding").fetchall()


def test_the_view_has_the_one_schema_with_and_without_findings(tmp_path: Path) -> None:
    full, empty = tmp_path / "full", tmp_path / "empty"
    write_judged(full)
    empty.mkdir()

    for folder in (full, empty):
        opened = connection()
        materialize.build(library(opened, folder), None)
        described = opened.execute("describe finding").fetchall()
        assert [row[:2] for row in described] == [(c.name, c.type) for c in COLUMNS]


def test_a_finding_that_requires_nothing_is_refused(tmp_path: Path) -> None:
    write_judged(tmp_path)
    text = (tmp_path / "finding" / "finding_late.sql").read_text()
    careless = text.replace("-- requires: collective, off_cpu\n", "")
    write(tmp_path, "finding", "finding_late", careless)

    with pytest.raises(ViewHeaderError, match="which streams it requires"):
        library(connection(), tmp_path)


def test_a_subject_view_of_its_own_is_read_as_it_is(tmp_path: Path) -> None:
    write_judged(tmp_path)
    write(
        tmp_path,
        "entity",
        "machine",
        view_text(
            "select 'host' as subject_kind, 'h' || host_id as subject_id, host_id,\n"
            "null::integer as rank from stg_subject",
            "subject_kind VARCHAR; subject_id VARCHAR; host_id INTEGER; rank INTEGER",
            reads="stg_subject",
        ),
    )
    text = (tmp_path / "finding" / "finding_late.sql").read_text()
    write(
        tmp_path,
        "finding",
        "finding_late",
        text.replace("subject: rank", "subject: machine"),
    )
    opened = connection()
    opened.execute("insert into raw.subject values ('0', 3, 0)")

    materialize.build(library(opened, tmp_path), None)

    rows = opened.execute("select subject_kind, subject_id, verdict from finding")
    assert rows.fetchall() == [("host", "h3", "not_observed")]
