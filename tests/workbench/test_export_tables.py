"""Parquet, CSV and Arrow files hold the same rows as the case, and say what they mean.

CSV is the hard one: every type, NULL beside an empty text, lists, and texts that a
spreadsheet or a terminal would run come back as they were.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from workbench import cli, open_case
from workbench.exporters.tables import FORMATS, INDEX, read_csv

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HARD = """\
-- One row a hard value.
--
-- grain:  number
-- reads:  stg_host
--
-- columns:
--   number   BIGINT         number of the row
--   whole    INTEGER        a whole number
--   small    SMALLINT       a small one
--   byte     UTINYINT       a byte
--   real_s   DOUBLE     s   a number
--   word     VARCHAR        a text
--   is_so    BOOLEAN        a truth
--   numbers  BIGINT[]       whole numbers
--   words    VARCHAR[]      texts

with made as (
    select *
    from (
        values
        (1, 7, 8, 9, 0.1, 'plain', true, [1, 9223372036854775807], ['a', null]),
        (2, null, null, null, null, null, null, null, null),
        (3, -7, -8, 0, 'nan'::double, '', false, []::bigint[], []::varchar[]),
        (4, 1, 1, 1, 'inf'::double, '=1+1', true, [null], ['', '=x', '"']),
        (5, 1, 1, 1, -1e-300, '''quoted', true, [1], ['\\']),
        (6, 1, 1, 1, 1e22, 'a,"b"' || chr(10) || chr(27), true, [1], [chr(7)]),
        (7, 1, 1, 1, 2.5, '\\x1b' || chr(8238), true, [1], ['é']),
        (8, 1, 1, 1, 2.5, '-7', true, [1], ['@']),
        (9, 1, 1, 1, 2.5, ' padded ', true, [1], [' '])
    ) as v (number, whole, small, byte, real_s, word, is_so, numbers, words)
    cross join (select count(*) as hosts from stg_host)
)

select
    number::bigint as number,
    whole::integer as whole,
    small::smallint as small,
    byte::utinyint as byte,
    real_s::double as real_s,
    word,
    is_so,
    numbers::bigint[] as numbers,
    words
from made
"""


@pytest.fixture(scope="module")
def path(sample_case: Callable[[str], Path]) -> Path:
    """Return a case of hosta and hostb, which made no call of a GPU."""
    return sample_case("late-rank")


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the view of hard values into the user's own folder."""
    folder = tmp_path / "own" / "measure"
    folder.mkdir(parents=True)
    (folder / "hard.sql").write_text(HARD)
    monkeypatch.setenv("COLDTRACE_VIEWS", str(folder.parent))


def _export(path: Path, fmt: str, out: Path, *words: str) -> dict[str, Any]:
    assert cli.main(["export", str(path), fmt, "-o", str(out), *words]) == 0
    return json.loads((out / INDEX).read_text())


def _read(folder: Path, fmt: str, table: dict[str, Any]) -> pl.DataFrame:
    file = folder / table["file"]
    if fmt == "csv":
        return read_csv(file, table["columns"])
    return pl.read_parquet(file) if fmt == "parquet" else pl.read_ipc(file)


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.usefixtures("own")
def test_every_type_comes_back_as_it_was(path: Path, fmt: str, tmp_path: Path) -> None:
    index = _export(path, fmt, tmp_path / "out", "--table", "hard")

    with open_case(path) as case:
        rows = case.frame("from hard order by number")
    (table,) = index["tables"]
    back = _read(tmp_path / "out", fmt, table)
    assert rows.height == 9
    assert rows["words"].to_list()[3] == ["", "=x", '"']
    assert_frame_equal(back, rows, check_exact=True)
    assert table["row_count"] == 9


@pytest.mark.usefixtures("own")
def test_no_cell_of_csv_acts_on_a_spreadsheet_or_a_terminal(
    path: Path, tmp_path: Path
) -> None:
    _export(path, "csv", tmp_path / "out", "--table", "hard")

    text = (tmp_path / "out" / "hard.csv").read_text()
    assert text.isprintable() or set(text) <= set(map(chr, range(32, 127))) | {
        "\n",
        "é",
    }
    assert text.count("\n") == 10
    words = pl.read_csv(tmp_path / "out" / "hard.csv", infer_schema=False)["word"]
    assert [each for each in words if each and each[0] in "=+-@"] == []
    assert words[3] == "'=1+1"


@pytest.mark.parametrize("fmt", ["parquet", "csv"])
def test_the_views_of_a_sample_come_back_as_they_were(
    path: Path, fmt: str, tmp_path: Path
) -> None:
    names = ["finding", "stg_off_cpu", "step_excess", "collective_arrival", "host"]
    words = [word for name in names for word in ("--table", name)]
    index = _export(path, fmt, tmp_path / "out", *words)

    with open_case(path) as case:
        for table in index["tables"]:
            grain = ", ".join(table["grain"])
            rows = case.frame(f"from {table['view']} order by {grain}")
            back = _read(tmp_path / "out", fmt, table)
            assert_frame_equal(back, rows, check_exact=True)
    assert [table["view"] for table in index["tables"]] == names


def test_a_parquet_file_carries_units_and_meaning_itself(
    path: Path, tmp_path: Path
) -> None:
    _export(path, "parquet", tmp_path / "out", "--table", "collective_span")

    (file,) = (tmp_path / "out").glob("*.parquet")
    told = json.loads(pl.read_parquet_metadata(file)["coldtrace"])
    units = {column["name"]: column["unit"] for column in told["columns"]}
    assert told["view"] == "collective_span"
    assert told["purpose"].startswith("One outermost call")
    assert units["start_ns"] == "ns"
    assert units["rank"] is None
    assert told["origin_ns"].isdecimal()


def test_a_window_and_a_host_narrow_what_has_them_and_say_so(
    path: Path, tmp_path: Path
) -> None:
    words = ["--from", "4", "--to", "6", "--host", "hostb"]
    tables = ["stg_off_cpu", "stg_gpu_call", "cause"]
    words += [word for name in tables for word in ("--table", name)]
    index = _export(path, "arrow", tmp_path / "out", *words)

    by_view = {table["view"]: table for table in index["tables"]}
    away = _read(tmp_path / "out", "arrow", by_view["stg_off_cpu"])
    with open_case(path) as case:
        hosts = dict(case.frame("select host_name, host_id from host").rows())
        whole = case.frame("from stg_off_cpu").filter(host_id=hosts["hostb"])
    assert away["host_id"].unique().to_list() == [hosts["hostb"]]
    assert 0 < away.height < whole.height / 2
    assert by_view["stg_off_cpu"]["narrowed_by"] == ["host", "window"]
    assert by_view["stg_gpu_call"]["row_count"] == 0
    assert by_view["cause"]["narrowed_by"] == []
    assert by_view["cause"]["row_count"] > 0
    assert index["window"] == {"from_s": 4.0, "to_s": 6.0}
