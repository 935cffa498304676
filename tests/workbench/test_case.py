"""The claim: a case is whole or absent, and answers only from itself."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import duckdb
import pytest

import workbench
from tests.builders import case
from workbench.errors import CaseError
from workbench.store.case import Case, open_case

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "late.duckdb"


def test_a_new_case_appears_when_it_is_closed(path: Path) -> None:
    made = Case.create(path)

    assert not path.exists()
    made.close()
    assert path.exists()
    assert sorted(each.name for each in path.parent.iterdir()) == ["late.duckdb"]


def test_a_case_that_fails_leaves_nothing(path: Path) -> None:
    with pytest.raises(duckdb.Error), Case.create(path) as made:
        made.connection.execute("insert into raw.no_such_table values (1)")

    assert list(path.parent.iterdir()) == []


def test_a_case_is_not_made_over_another(path: Path) -> None:
    Case.create(path).close()

    with pytest.raises(CaseError, match="exists already") as caught:
        Case.create(path)

    assert caught.value.hint is not None


def test_a_case_needs_its_folder(path: Path) -> None:
    with pytest.raises(CaseError, match="is not a folder"):
        Case.create(path / "deeper" / "x.duckdb")


def test_what_is_no_case_is_not_opened(path: Path) -> None:
    with pytest.raises(CaseError, match="is not a case"):
        open_case(path)
    path.write_text("hello")
    with pytest.raises(CaseError, match="cannot open"):
        open_case(path)


def test_a_foreign_database_is_not_a_case(path: Path) -> None:
    duckdb.connect(str(path)).close()

    with pytest.raises(CaseError, match="a DuckDB file, but not a case"):
        open_case(path)


def test_a_case_that_another_process_writes_is_named(path: Path) -> None:
    Case.create(path).close()
    script = (
        "import sys; from workbench.store.case import open_case;"
        "held = open_case(sys.argv[1], read_only=False);"
        "print('open', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", script, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"

        with pytest.raises(CaseError, match="is open in another process"):
            open_case(path)

        holder.terminate()


def test_an_opened_case_cannot_be_written(path: Path) -> None:
    Case.create(path).close()

    with open_case(path) as made, pytest.raises(duckdb.Error, match="read-only"):
        made.connection.execute("delete from raw.bundle")


def test_a_temporary_view_may_be_made_in_an_opened_case(path: Path) -> None:
    Case.create(path).close()

    with open_case(path) as made:
        made.connection.execute("create temp view seven as select 7 as n")

        assert made.frame("select n from seven").item() == 7


def test_a_variable_does_not_answer_for_a_missing_table(path: Path) -> None:
    rank = workbench  # a name that duckdb would otherwise look up
    assert rank is not None

    with Case.create(None) as made, pytest.raises(duckdb.CatalogException):
        made.frame("select * from rank")
    Case.create(path).close()
    with open_case(path) as made, pytest.raises(duckdb.CatalogException):
        made.frame("select * from rank")


@pytest.mark.parametrize(
    "statement",
    [
        "select * from read_csv('{0}')",
        "select * from read_text('/etc/passwd')",
        "copy (select 1) to '{0}'",
        "attach '{0}.duckdb'",
        "install httpfs",
        "load httpfs",
        "set enable_external_access = true",
    ],
)
def test_a_query_reaches_nothing_outside_the_case(path: Path, statement: str) -> None:
    Case.create(path).close()
    other = path.with_name("other.csv")
    other.write_text("a\n1\n")

    with open_case(path) as made, pytest.raises(duckdb.Error):
        made.connection.execute(statement.format(other)).fetchall()


def test_a_case_too_large_for_memory_spills_beside_itself(path: Path) -> None:
    """The lock on external access must not lock out the spill."""
    with Case.create(path) as made:
        made.connection.execute("set memory_limit = '60MB'")
        made.connection.execute("set threads = 1")

        sorted_rows = made.frame(
            "select count(*) from (select hash(i) as h, i, i + 1, i + 2"
            " from range(3000000) as t(i) order by h limit 2900000)"
        )

        assert sorted_rows.item() == 2_900_000


def test_a_frame_takes_parameters() -> None:
    with Case.create(None) as made:
        assert made.frame("select $a + 1 as b", {"a": 6}).item() == 7
        assert made.frame("select ? + 1 as b", [6]).item() == 7


def test_the_origin_is_the_first_event(tmp_path: Path) -> None:
    builder = case()
    builder.host("a").rank(0).off_cpu(start_ns=900, duration_ns=5)
    builder.host("b").rank(1).gpu_call(start_ns=700)

    built = builder.build(tmp_path, library=False)

    assert built.origin_ns == 700


def test_the_origin_is_in_cluster_time_once_there_is_one(tmp_path: Path) -> None:
    builder = case()
    builder.host("a").rank(0).off_cpu(start_ns=900, duration_ns=5)
    builder.host("b").rank(1).gpu_call(start_ns=700)
    builder.build(tmp_path, library=False).close()

    with open_case(tmp_path / "case.duckdb", read_only=False) as made:
        made.connection.execute(
            "create schema model; create table model.clock as select host_id,"
            " 500::bigint as from_ns, 10000::bigint as to_ns,"
            " if(host_name = 'a', 0, 1000)::bigint as offset_ns,"
            " 0.01::double as rate from raw.bundle"
        )

        assert made.origin_ns == 904


def test_the_origin_of_an_empty_case_is_zero() -> None:
    with Case.create(None) as made:
        assert made.origin_ns == 0


def test_the_public_names_are_few() -> None:
    assert set(workbench.__all__) == {
        "Case",
        "WorkbenchError",
        "__version__",
        "load_case",
        "open_case",
    }
    assert workbench.__version__
