"""What every view file must hold, whoever wrote it.

Each file keeps the rules of the house, returns its declared schema on an empty case,
and on recorded and made cases its grain is a key, its spans have no negative length,
and those that are said to exclude each other do.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest

import workbench.analysis  # noqa: F401 -- registers the models, which the views read
from tests.builders import case as build_case
from workbench.store import library_page, view_rules
from workbench.store.case import Case
from workbench.store.catalogue import key_of, quote
from workbench.store.load import load_bundles
from workbench.store.sql_tree import parse
from workbench.store.views import Library, View, build_library, library_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = sorted(path for path in (ROOT / "samples").iterdir() if path.is_dir())
MADE = "made"
OTHERS = [path.name for path in SAMPLES if list(path.glob("*.bundle"))]
CASES = [
    MADE,
    *(
        pytest.param(name, marks=[] if name == "late-rank" else pytest.mark.long)
        for name in OTHERS
    ),
]
STEP_NS = 10_000_000


def _view_names() -> list[str]:
    """Return every file as ``layer/name``, and the view that is generated."""
    files = library_folder().glob("*/*.sql")
    names = [f"{path.parent.name}/{path.stem}" for path in files]
    return [*sorted(name for name in names if not name.startswith("macro/")), "finding"]


VIEWS = _view_names()
MACROS = sorted(path.stem for path in (library_folder() / "macro").glob("*.sql"))


@pytest.fixture(scope="module")
def empty() -> Iterator[Library]:
    """Return the library on a case into which nothing was loaded."""
    with Case.create(None) as case:
        yield build_library(case)


@pytest.fixture(scope="module", params=CASES)
def filled(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Library]:
    """Return the library on a made case and on each sample."""
    if request.param == MADE:
        bundles = _made_job(tmp_path_factory.mktemp(MADE))
    else:
        bundles = sorted((ROOT / "samples" / request.param).glob("*.bundle"))
    with Case.create(None) as case:
        load_bundles(case, bundles)
        yield Library(case)


def _made_job(folder: Path) -> list[Path]:
    """Write two hosts of two ranks each: 23 steps, rank 3 late at each seventh."""
    made = build_case()
    for rank in range(4):
        host = made.host("ab"[rank // 2], offset_ns=rank // 2 * 7_000_000)
        thread = host.rank(rank)
        for step in range(23):
            begin = (step + 1) * STEP_NS
            late = 3_000_000 if rank == 3 and step % 7 == 0 else 0
            thread.gpu_call(start_ns=begin + 1_000, duration_ns=2_000)
            thread.off_cpu(start_ns=begin + 10_000, duration_ns=100_000 + late)
            thread.collective(
                start_ns=begin + 200_000 + late + 100 * rank,
                duration_ns=6_000_000 - late,
            )
    return made.write(folder)


def _view(library: Library, name: str) -> View:
    layer, _, stem = name.rpartition("/")
    return library.views[f"model.{stem}" if layer == "model" else stem]


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_keeps_every_rule(empty: Library, name: str) -> None:
    faults = view_rules.faults_of(empty, _view(empty, name))

    assert [str(fault) for fault in faults] == []


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_returns_its_schema_on_an_empty_case(empty: Library, name: str) -> None:
    view = _view(empty, name)

    result = empty.connection.execute(f"from {_relation(view)}")

    assert [column[0] for column in result.description or ()] == [
        column.name for column in view.columns
    ]
    result.fetchall()


@pytest.mark.parametrize("name", VIEWS)
def test_a_grain_is_a_key(filled: Library, name: str) -> None:
    view = _view(filled, name)
    grain = ", ".join(quote(column) for column in view.grain)

    twice = filled.connection.execute(
        f"from {_rows(filled, view)} select {grain}, count(*) "
        f"group by {grain} having count(*) > 1 limit 3"
    ).fetchall()

    assert twice == []


@pytest.mark.parametrize("name", VIEWS)
def test_a_grain_is_null_only_where_its_column_says_so(
    filled: Library, name: str
) -> None:
    view = _view(filled, name)
    meanings = {column.name: column.meaning for column in view.columns}

    for column in view.grain:
        if "NULL" in meanings[column]:
            continue
        missing = filled.connection.execute(
            f"from {_rows(filled, view)} select count(*) where {quote(column)} is null"
        ).fetchall()
        assert missing == [(0,)], column


@pytest.mark.parametrize("name", VIEWS)
def test_a_length_is_never_negative(filled: Library, name: str) -> None:
    view = _view(filled, name)
    lengths = [each.name for each in view.columns if each.name == "duration_ns"]

    for column in lengths:
        negative = filled.connection.execute(
            f"from {_rows(filled, view)} select count(*) where {column} < 0"
        ).fetchall()
        assert negative == [(0,)]


@pytest.mark.parametrize("name", VIEWS)
def test_spans_that_exclude_each_other_do_not_overlap(
    filled: Library, name: str
) -> None:
    view = _view(filled, name)
    if not view.header.exclusive:
        return
    key = ", ".join(quote(each) for each in _key_of_spans(view))
    names = {each.name for each in view.columns}
    end = "start_ns + duration_ns" if "duration_ns" in names else "end_ns"

    overlapping = filled.connection.execute(
        f"from {_rows(filled, view)} select * qualify {end} > "
        f"lead(start_ns) over (partition by {key} order by start_ns) limit 3"
    ).fetchall()

    assert overlapping == []


def _rows(library: Library, view: View) -> str:
    """Return a table with the rows of a view, which is computed once a case."""
    table = quote(f"rows of {key_of(view)}")
    library.connection.execute(
        f"create temp table if not exists {table} as from {_relation(view)}"
    )
    return table


def _key_of_spans(view: View) -> list[str]:
    """Return whose spans exclude each other: the grain without what numbers a span."""
    return [each for each in view.grain if each not in ("start_ns", "step")]


def _relation(view: View) -> str:
    schema = "model." if view.layer == "model" else ""
    return f"{schema}{quote(view.name)}"


@pytest.mark.parametrize("name", MACROS)
def test_a_macro_reads_only_what_it_is_given(empty: Library, name: str) -> None:
    definition = empty.connection.execute(
        "select macro_definition, function_type from duckdb_functions() "
        "where function_name = ?",
        [name],
    ).fetchall()

    assert len(definition) == 1
    body, kind = definition[0]
    sql = body if kind == "table_macro" else f"select {body}"
    tree = parse(duckdb.connect(), sql, view=name)
    assert tree.tables == frozenset()


def test_the_readme_is_what_the_headers_say(empty: Library) -> None:
    assert library_page.is_readme_current(empty, library_folder() / "README.md")


def test_every_view_is_described_in_the_database(empty: Library) -> None:
    comments = dict(
        empty.connection.execute(
            "select view_name, comment from duckdb_views() where not internal"
        ).fetchall()
    )
    described = {
        key_of(view): view.header.purpose
        for view in empty.views.values()
        if view.layer != "model"
    }

    assert comments == described


def test_the_made_job_reaches_the_findings(tmp_path: Path) -> None:
    with Case.create(None) as case:
        load_bundles(case, _made_job(tmp_path))
        subjects = case.connection.execute(
            "select count(distinct subject_id) from finding where subject_kind = 'rank'"
        ).fetchall()

    assert subjects == [(4,)]
