"""A cell of SQL asks the open case and gives back a frame, in a real IPython shell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from tests.builders import case
from workbench import open_case
from workbench.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytest.importorskip("IPython")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a case with two ranks of one host."""
    folder = tmp_path_factory.mktemp("magic")
    rank = case().host("a").rank(0).collective(start_ns=1_000, duration_ns=500)
    rank.rank(1).collective(start_ns=1_200, duration_ns=300).build(folder).close()
    return folder / "case.duckdb"


@pytest.fixture
def shell(
    built: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Any]:
    """Return an IPython shell with the magic and the case open."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setenv("COLDTRACE_VIEWS", str(tmp_path / "own"))
    from IPython.core.interactiveshell import InteractiveShell  # noqa: PLC0415
    from traitlets.config import Config  # noqa: PLC0415

    opened = open_case(built)
    # History would begin a thread with a database of its own.
    shell = InteractiveShell(config=Config({"HistoryAccessor": {"enabled": False}}))
    shell.run_line_magic("load_ext", "workbench.ui.magic")
    shell.user_ns["case"] = opened
    yield shell
    opened.close()


def run(shell: Any, line: str, sql: str) -> Any:  # noqa: ANN401 - an IPython shell
    return shell.run_cell_magic("case", line, sql)


def test_a_cell_of_sql_gives_a_polars_frame(shell: Any) -> None:  # noqa: ANN401
    frame = run(shell, "", "select rank from rank order by rank\n")

    assert isinstance(frame, pl.DataFrame)
    assert frame["rank"].to_list() == [0, 1]


def test_the_word_names_the_variable_that_holds_the_case(
    shell: Any,  # noqa: ANN401
) -> None:
    shell.user_ns["base"] = shell.user_ns.pop("case")

    assert run(shell, "base", "select count(*) as n from rank").item() == 2
    with pytest.raises(QueryError, match="no open case is called case") as caught:
        run(shell, "", "select 1")
    assert caught.value.hint == 'case = open_case("CASE.duckdb")'


def test_the_rows_can_be_kept_under_a_name(shell: Any) -> None:  # noqa: ANN401
    shown = run(shell, "case --to ranks", "from rank")

    assert shell.user_ns["ranks"] is shown
    assert shown.height == 2


def test_a_parameter_is_a_value_and_never_sql(shell: Any) -> None:  # noqa: ANN401
    shell.user_ns["wanted"] = "0 or true"
    rows = run(shell, "", "select rank from rank where rank::varchar = $wanted")
    assert rows.height == 0

    shell.user_ns["wanted"] = 1
    rows = run(shell, "", "select rank from rank where rank = $wanted")
    assert rows["rank"].to_list() == [1]

    with pytest.raises(QueryError, match=r"asks for \$unsaid"):
        run(shell, "", "select $unsaid")


def test_what_duckdb_refuses_is_an_error_with_its_words(
    shell: Any,  # noqa: ANN401
) -> None:
    with pytest.raises(QueryError, match="Table with name rnak does not exist"):
        run(shell, "", "from rnak")
    with pytest.raises(QueryError, match="read-only"):
        run(shell, "", "delete from raw.collective")
