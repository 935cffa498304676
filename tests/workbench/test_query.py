"""``coldtrace query`` answers from a case that it cannot change, in four formats."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

import duckdb
import pytest

from tests.builders import case as build_case
from workbench import cli
from workbench.store.ask import frame_of

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a case of one host and three calls."""
    folder = tmp_path_factory.mktemp("query")
    rank = build_case().host("a").rank(0)
    for step in range(3):
        rank.collective(start_ns=1_000 * (step + 1), duration_ns=7)
    rank.build(folder).connection.close()
    return folder / "case.duckdb"


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of the user's own views, not there yet."""
    folder = tmp_path / "own"
    monkeypatch.setenv("COLDTRACE_VIEWS", str(folder))
    return folder


COUNT = "select count(*) as calls, sum(duration_ns) as total_ns from stg_collective"


def test_rows_are_printed_as_a_table(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["query", str(path), COUNT]) == 0
    assert capsys.readouterr() == (
        "calls  total_ns\n-----  --------\n    3        21\n",
        "",
    )


def test_a_query_comes_from_a_file_or_from_standard_input(
    path: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / "count.sql"
    file.write_text(COUNT + ";\n")
    monkeypatch.setattr("sys.stdin", io.StringIO(COUNT))

    for words in (["-f", str(file)], ["-"]):
        assert cli.main(["query", str(path), *words, "--format", "json"]) == 0
        rows = json.loads(capsys.readouterr().out)
        assert rows == [{"calls": 3, "total_ns": 21}]


def test_a_query_on_a_view_of_ones_own_finds_it(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli.main(["views", "new", "my_ranks"])
    capsys.readouterr()

    words = ["query", str(path), "select rank from my_ranks", "--format", "csv"]
    assert cli.main(words) == 0
    assert capsys.readouterr().out == "rank\n0\n"


DRAFT = """\
-- One row.
--
-- requires: collective
-- columns: finding

from nowhere
"""


@pytest.mark.parametrize("text", ["a draft", DRAFT])
def test_a_fault_in_a_view_of_ones_own_is_said_and_stops_nothing(
    path: Path,
    own: Path,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
    text: str,
) -> None:
    draft = own / "finding" / "finding_draft.sql"
    draft.parent.mkdir(parents=True)
    draft.write_text(text)

    words = ["select distinct finding from finding where finding like '%draft'"]
    assert cli.main(["query", str(path), *words, "--format", "json"]) == 0
    assert capsys.readouterr().out == "[]\n"
    assert f"left out: {draft}" in caplog.text


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("selct 1", "Parser Error"),
        ("from nowhere", "Table with name nowhere does not exist"),
        ("delete from raw.collective", "read-only"),
        ("create table raw.mine (a integer)", "read-only"),
        ("from read_csv('/etc/hostname')", "disabled"),
        ("copy (select 1) to 'stolen.csv'", "disabled"),
        ("attach 'other.duckdb'", "disabled"),
        ("set enable_external_access = true", "external access"),
    ],
)
def test_a_query_cannot_change_the_case_or_reach_beyond_it(
    path: Path, sql: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["query", str(path), sql]) == 2

    err = capsys.readouterr().err
    assert err.startswith("coldtrace: error: ")
    assert message in err


def test_a_case_that_is_not_there_is_unreadable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["query", str(tmp_path / "none.duckdb"), "select 1"]) == 3
    assert capsys.readouterr().err.startswith("coldtrace: error: ")


@pytest.mark.parametrize(
    ("sql", "columns", "row"),
    [
        ("select 1 as a, 2 as a, 3 as a_1", ["a", "a_1", "a_1_1"], (1, 2, 3)),
        ("select interval 3 day as pause", ["pause"], ("3 days",)),
        (
            "select 340282366920938463463374607431768211455::uhugeint as x",
            ["x"],
            ("340282366920938463463374607431768211455",),
        ),
        ('select 1 as "a ""b"""', ['a "b"'], (1,)),
    ],
)
def test_types_and_names_that_a_frame_cannot_hold_come_through(
    sql: str, columns: list[str], row: tuple[object, ...]
) -> None:
    frame = frame_of(duckdb.connect().sql(sql))

    assert frame.columns == columns
    assert frame.row(0) == row


def test_describe_and_show_are_answered_too(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["query", str(path), "describe coverage", "--format", "jsonl"]
    assert cli.main(words) == 0

    first = json.loads(capsys.readouterr().out.splitlines()[0])
    assert first["column_name"] == "host_id"
