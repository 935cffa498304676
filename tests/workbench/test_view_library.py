"""Views are made in an order that works, kept rows only when stale, and never shadowed.

The libraries here are folders of a few files on a database of a few rows.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import duckdb
import pytest

import workbench
from tests.workbench.small_library import (
    RAW,
    connection,
    library,
    view_text,
    write,
    write_chain,
    write_judged,
)
from workbench.errors import CaseError, ViewError
from workbench.store import catalogue, library_page, materialize, view_rules
from workbench.store.models import ModelSpec
from workbench.store.own_views import own_folder
from workbench.store.sql_tree import parse
from workbench.store.views import library_folder

if TYPE_CHECKING:
    from workbench.store.case import Case


def _filled() -> duckdb.DuckDBPyConnection:
    opened = connection()
    opened.execute("insert into raw.bundle values ('one')")
    opened.execute("insert into raw.off_cpu values (1, 5), (1, 6), (2, 13)")
    return opened


def _as_case(opened: duckdb.DuckDBPyConnection) -> Case:
    return cast("Case", SimpleNamespace(connection=opened))


def _built(
    opened: duckdb.DuckDBPyConnection, folder: Path, *specs: ModelSpec
) -> list[str]:
    """Build a library and return what had to be made."""
    made: list[str] = []
    materialize.build(
        library(opened, folder, *specs), _as_case(opened), progress=made.append
    )
    return made


def _doubled(case: Case) -> None:
    case.connection.execute(
        "insert into model.doubled select host_id, 2 * wait_ns from host_wait"
    )


DOUBLED = ModelSpec(
    name="doubled", reads=("host_wait",), writes=("doubled",), run=_doubled
)


def _write_model(folder: Path) -> None:
    write(
        folder,
        "model",
        "doubled",
        view_text(
            "",
            "host_id INTEGER; wait_ns BIGINT ns",
            purpose="Twice the wait.",
            reads="host_wait",
        ),
    )
    write(
        folder,
        "measure",
        "a_reader",
        view_text(
            "select host_id, wait_ns from model.doubled",
            "host_id INTEGER; wait_ns BIGINT ns",
            reads="model.doubled",
        ),
    )


# What a select reads

RECURSIVE = """
with recursive r(n) using key (n) as (from z union from recurring.r)
from r
"""


@pytest.mark.parametrize(
    ("sql", "reads"),
    [
        ("with a as (from raw.t) from a inner join b using (x)", {"raw.t", "b"}),
        ("select (select max(x) from c) from d where x in (from e)", set("cde")),
        ("from 'no_table' as a, lateral (select * from f)", {"no_table", "f"}),
        (RECURSIVE, {"z"}),
        ("from spans('p', 'q', 10), range(3), others('z')", {"p", "q"}),
        ("select 'from x' as t from y where t like 'p'", {"y"}),
    ],
)
def test_what_a_select_reads_comes_from_the_parse_tree(
    sql: str, reads: set[str]
) -> None:
    tree = parse(duckdb.connect(), sql, view="v")

    assert tree.reads({"spans"}, {"p", "q", "z"}) == reads


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("create table t (a integer)", "not a select"),
        ("select 1; select 2", "one select is wanted, not 2"),
        ("select\n1,\nfrom\nwhere", "syntax error"),
    ],
)
def test_a_file_that_is_not_one_select_is_refused(sql: str, message: str) -> None:
    with pytest.raises(ViewError, match=message) as caught:
        parse(duckdb.connect(), sql, view="v", first_line=10)

    assert (caught.value.line or 0) >= 10


# Order and staleness


def test_views_are_made_before_those_that_read_them(tmp_path: Path) -> None:
    write_chain(tmp_path)
    opened = _filled()

    made = _built(opened, tmp_path)

    assert made.index("stg_off_cpu") < made.index("host_wait")
    assert made.index("host_wait") < made.index("longest_wait")
    assert opened.execute("from longest_wait").fetchall() == [(13,)]
    assert opened.execute("from mat.host_wait order by all").fetchall() == [
        (1, 11),
        (2, 13),
    ]


def test_nothing_is_made_twice(tmp_path: Path) -> None:
    write_chain(tmp_path)
    opened = _filled()
    _built(opened, tmp_path)

    assert _built(opened, tmp_path) == []


def test_only_what_stands_on_a_changed_file_is_made_again(tmp_path: Path) -> None:
    write_chain(tmp_path)
    opened = _filled()
    _built(opened, tmp_path)
    path = tmp_path / "measure" / "host_wait.sql"
    path.write_text(path.read_text().replace("sum(", "min("))

    made = _built(opened, tmp_path)

    assert made == ["host_wait", "longest_wait"]
    assert opened.execute("from longest_wait").fetchall() == [(13,)]
    assert opened.execute("from host_wait where host_id = 1").fetchall() == [(1, 5)]


def test_another_bundle_makes_kept_rows_stale(tmp_path: Path) -> None:
    write_chain(tmp_path)
    opened = _filled()
    _built(opened, tmp_path)
    opened.execute("insert into raw.off_cpu values (3, 101)")
    opened.execute("insert into raw.bundle values ('two')")

    made = _built(opened, tmp_path)

    assert set(made) == {"stg_off_cpu", "host_wait", "longest_wait"}
    assert opened.execute("from longest_wait").fetchall() == [(101,)]


def test_a_view_that_the_library_lost_is_dropped(tmp_path: Path) -> None:
    write_chain(tmp_path)
    opened = _filled()
    _built(opened, tmp_path)
    (tmp_path / "measure" / "longest_wait.sql").unlink()

    _built(opened, tmp_path)

    with pytest.raises(duckdb.CatalogException):
        opened.execute("from longest_wait")


def test_a_circle_of_views_is_named(tmp_path: Path) -> None:
    write(tmp_path, "measure", "a", view_text("select x from b", "x BIGINT", reads="b"))
    write(tmp_path, "measure", "b", view_text("select x from a", "x BIGINT", reads="a"))

    with pytest.raises(ViewError, match=r"in a circle: (a -> b|b -> a)"):
        library(connection(), tmp_path)


def test_a_select_that_does_not_bind_is_named_with_its_line(tmp_path: Path) -> None:
    text = view_text("select\n    missing\nfrom raw.off_cpu", "missing BIGINT")
    write(tmp_path, "staging", "stg_off_cpu", text)
    line = text.splitlines().index("    missing") + 1

    with pytest.raises(ViewError, match="missing") as caught:
        _built(connection(), tmp_path)

    assert (caught.value.view, caught.value.line) == ("stg_off_cpu", line)


# Models


def test_a_model_runs_between_the_views_it_reads_and_those_that_read_it(
    tmp_path: Path,
) -> None:
    write_chain(tmp_path)
    _write_model(tmp_path)
    opened = _filled()

    made = _built(opened, tmp_path, DOUBLED)

    assert made.index("host_wait") < made.index("doubled") < made.index("a_reader")
    rows = opened.execute("from a_reader order by all").fetchall()
    assert rows == [(1, 22), (2, 26)]
    assert library(opened, tmp_path, DOUBLED).streams("a_reader") == {"off_cpu"}


def test_a_model_runs_again_only_when_it_is_stale(tmp_path: Path) -> None:
    write_chain(tmp_path)
    _write_model(tmp_path)
    opened = _filled()
    _built(opened, tmp_path, DOUBLED)

    assert _built(opened, tmp_path, DOUBLED) == []

    opened.execute("insert into raw.bundle values ('two')")
    opened.execute("insert into raw.off_cpu values (3, 101)")
    assert "doubled" in _built(opened, tmp_path, DOUBLED)
    rows = opened.execute("from a_reader order by all").fetchall()
    assert rows == [(1, 22), (2, 26), (3, 202)]


def test_a_model_that_is_not_registered_keeps_its_rows(tmp_path: Path) -> None:
    write_chain(tmp_path)
    _write_model(tmp_path)
    opened = _filled()
    _built(opened, tmp_path, DOUBLED)

    assert _built(opened, tmp_path) == []
    assert _built(opened, tmp_path, DOUBLED) == []
    assert len(opened.execute("from a_reader").fetchall()) == 2


def test_a_table_without_its_model_is_there_and_empty(tmp_path: Path) -> None:
    write_chain(tmp_path)
    _write_model(tmp_path)
    opened = _filled()

    _built(opened, tmp_path)

    assert opened.execute("from a_reader").fetchall() == []


# A case that is open read-only


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """Return a case file with the chain and the model built."""
    folder = tmp_path / "sql"
    write_chain(folder)
    _write_model(folder)
    path = tmp_path / "case.duckdb"
    with duckdb.connect(path) as opened:
        opened.execute(RAW)
        opened.execute("insert into raw.off_cpu values (1, 5), (2, 13)")
        _built(opened, folder, DOUBLED)
    return path


def _read_only(path: Path) -> duckdb.DuckDBPyConnection:
    return duckdb.connect(path, read_only=True)


def test_a_current_case_needs_no_temporary_view(saved: Path) -> None:
    with _read_only(saved) as opened:
        known = library(opened, saved.parent / "sql", DOUBLED)

        assert materialize.overlay(known) == []


def test_a_stale_view_becomes_a_temporary_one_with_all_above_it(saved: Path) -> None:
    path = saved.parent / "sql" / "measure" / "longest_wait.sql"
    path.write_text(path.read_text().replace("max(", "min("))

    with _read_only(saved) as opened:
        made = materialize.overlay(library(opened, saved.parent / "sql", DOUBLED))

        assert made == ["longest_wait"]
        assert opened.execute("from longest_wait").fetchall() == [(5,)]
    with _read_only(saved) as opened:
        assert opened.execute("from longest_wait").fetchall() == [(13,)]


def test_stale_kept_rows_are_held_when_they_are_asked_for(saved: Path) -> None:
    shutil.rmtree(saved.parent / "sql" / "model")
    (saved.parent / "sql" / "measure" / "a_reader.sql").unlink()
    path = saved.parent / "sql" / "measure" / "host_wait.sql"
    path.write_text(path.read_text().replace("sum(", "3 * sum("))

    with _read_only(saved) as opened:
        known = library(opened, saved.parent / "sql")
        materialize.overlay(known)

        assert materialize.keep(known, ["stg_off_cpu"]) == []
        assert materialize.keep(known, ["longest_wait"]) == ["host_wait"]
        assert materialize.keep(known, ["longest_wait"]) == []
        assert opened.execute("from longest_wait").fetchall() == [(39,)]


def test_stale_rows_of_a_model_are_an_error_and_not_an_answer(saved: Path) -> None:
    path = saved.parent / "sql" / "measure" / "host_wait.sql"
    path.write_text(path.read_text().replace("sum(", "min("))

    with (
        _read_only(saved) as opened,
        pytest.raises(CaseError, match="models: doubled") as caught,
    ):
        materialize.overlay(library(opened, saved.parent / "sql", DOUBLED))

    assert "coldtrace load" in (caught.value.hint or "")


def test_a_view_of_the_users_own_is_temporary(saved: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    write(
        own,
        "measure",
        "my_wait",
        view_text("select wait_ns from longest_wait", "wait_ns BIGINT ns"),
    )

    with _read_only(saved) as opened:
        known = library(opened, saved.parent / "sql", DOUBLED, own=own)

        assert materialize.overlay(known) == ["my_wait"]
        assert opened.execute("from my_wait").fetchall() == [(13,)]


def test_a_finding_of_the_users_own_joins_the_verdicts(tmp_path: Path) -> None:
    folder, own = tmp_path / "sql", tmp_path / "own"
    write_judged(folder)
    (own / "finding").mkdir(parents=True)
    finding = folder / "finding" / "finding_late.sql"
    shutil.copy(finding, own / "finding" / "finding_mine.sql")
    opened = connection()
    opened.execute("insert into raw.subject values ('0', 1, 0)")
    _built(opened, folder)

    materialize.overlay(library(opened, folder, own=own))

    ask = "select finding from {} order by all"
    rows = opened.execute(ask.format("finding")).fetchall()
    assert rows == [("finding_late",), ("finding_mine",)]
    kept = opened.execute(ask.format("memory.main.finding")).fetchall()
    assert kept == [("finding_late",)]


def test_a_view_of_the_users_own_never_shadows_the_library(tmp_path: Path) -> None:
    folder, own = tmp_path / "sql", tmp_path / "own"
    write_chain(folder)
    shutil.copytree(folder / "measure", own / "measure")

    with pytest.raises(ViewError, match="a second file"):
        library(connection(), folder, own=own)


# Rules


BREACHES = [
    (
        "staging/off_cpu",
        "select host_id from raw.off_cpu",
        "raw.off_cpu",
        "begins with stg_",
    ),
    (
        "measure/stg_x",
        "select host_id from stg_off_cpu",
        "stg_off_cpu",
        "only a view of the layer staging begins with stg_",
    ),
    (
        "measure/x",
        "select host_id from stg_off_cpu",
        "host_wait",
        "reads stg_off_cpu without saying so, and says it reads host_wait",
    ),
    (
        "measure/x",
        "select host_id from raw.off_cpu",
        "raw.off_cpu",
        "only staging reads raw tables",
    ),
    (
        "entity/x",
        "select host_id from host_wait",
        "host_wait",
        "reads host_wait of a layer above its own",
    ),
    (
        "staging/stg_x",
        "select host_id from stg_off_cpu",
        "stg_off_cpu",
        "one raw table and nothing else",
    ),
    (
        "measure/x",
        "with host_wait as (from stg_off_cpu)\nselect host_id from host_wait",
        "stg_off_cpu",
        "host_wait hides a view",
    ),
    (
        "measure/x",
        "select host_id::bigint as host_id from stg_off_cpu",
        "stg_off_cpu",
        "declares host_id INTEGER where its select gives host_id BIGINT",
    ),
    (
        "measure/x",
        "select host_id, 1 as y from stg_off_cpu",
        "stg_off_cpu",
        "declares 1 columns, and its select gives 2",
    ),
]


@pytest.mark.parametrize(("file", "sql", "reads", "message"), BREACHES)
def test_a_breach_of_a_rule_is_named(
    tmp_path: Path, file: str, sql: str, reads: str, message: str
) -> None:
    layer, name = file.split("/")
    write_chain(tmp_path)
    write(tmp_path, layer, name, view_text(sql, "host_id INTEGER", reads=reads))
    opened = connection()
    known = library(opened, tmp_path)
    materialize.build(known, None)

    faults = [str(fault) for fault in view_rules.faults(known)]

    assert any(message in fault for fault in faults), faults
    assert all(fault.startswith(f"{name}, line ") for fault in faults)


@pytest.mark.parametrize(
    ("find", "put", "message"),
    [
        ("uses: gpu_call", "uses: gpu_kernel", "lead to the streams"),
        ("subject: rank\n", "caveat: none\n", "must name its subject"),
        ("requires: collective, off_cpu", "requires: gpu_call", "both requires"),
    ],
)
def test_a_finding_keeps_its_own_rules(
    tmp_path: Path, find: str, put: str, message: str
) -> None:
    write_judged(tmp_path)
    path = tmp_path / "finding" / "finding_late.sql"
    path.write_text(path.read_text().replace(find, put))
    known = library(connection(), tmp_path)
    materialize.build(known, None)

    faults = [str(fault) for fault in view_rules.faults(known)]

    assert any(message in fault for fault in faults), faults


def test_a_gap_without_the_columns_of_one_is_refused(tmp_path: Path) -> None:
    write_judged(tmp_path)
    path = tmp_path / "finding" / "finding_late.sql"
    path.write_text(path.read_text().replace("gap: unseen", "gap: coverage"))

    with pytest.raises(ViewError, match="its gap must be a view with"):
        library(connection(), tmp_path)


def test_the_chain_keeps_every_rule(tmp_path: Path) -> None:
    write_chain(tmp_path)
    _write_model(tmp_path)
    opened = connection()
    known = library(opened, tmp_path, DOUBLED)
    materialize.build(known, _as_case(opened))

    assert [str(fault) for fault in view_rules.faults(known)] == []


# Folders and the catalogue


def test_the_library_is_found_in_a_checkout_and_in_a_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = Path(workbench.__file__).parent
    assert library_folder() == package.parent / "sql"

    wheel = tmp_path / "workbench"
    (wheel / "sql").mkdir(parents=True)
    (wheel / "store").mkdir()
    monkeypatch.setattr(
        "workbench.store.views.__file__", str(wheel / "store" / "views.py")
    )
    assert library_folder() == wheel / "sql"


def test_the_users_folder_is_named_by_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLDTRACE_VIEWS", str(tmp_path / "here"))
    assert own_folder() == tmp_path / "here"

    monkeypatch.delenv("COLDTRACE_VIEWS")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert own_folder() == tmp_path / "coldtrace" / "views"


def test_headers_become_comments_of_the_database(tmp_path: Path) -> None:
    write_chain(tmp_path)
    opened = _filled()
    _built(opened, tmp_path)

    comment = opened.execute(
        "select comment from duckdb_columns() "
        "where table_name = 'host_wait' and schema_name = 'main' "
        "and column_name = 'wait_ns'"
    ).fetchall()

    assert comment == [("something [ns]",)]


def test_the_readme_says_who_reads_whom(tmp_path: Path) -> None:
    write_chain(tmp_path)
    known = library(connection(), tmp_path)

    text = library_page.readme(known)

    part = text.split("### host_wait\n")[1].split("###")[0]
    assert "- reads: [stg_off_cpu](#stg_off_cpu)\n" in part
    assert "- read by: [longest_wait](#longest_wait)\n" in part
    assert "- kept: its rows are stored in the case\n" in part
    assert "| `wait_ns` | BIGINT | ns | something |\n" in part
    assert "| [host_wait](#host_wait) | One row. |\n" in text


def test_a_page_of_an_unknown_view_names_those_that_are_near(tmp_path: Path) -> None:
    write_chain(tmp_path)

    with pytest.raises(ViewError) as caught:
        catalogue.page(library(connection(), tmp_path), "wait")

    assert caught.value.hint == "did you mean host_wait, longest_wait"
