"""Rows leave in four formats, and no word of a bundle acts on whoever reads them.

One SQL row that holds every hard type has a golden file for each format; they are read
in review, like any output that others rely on.
"""

from __future__ import annotations

import io
import json
from pathlib import Path

import duckdb
import polars as pl
import pytest

from workbench.commands.output import FORMATS, emit, plain, progress, strict_json
from workbench.store.ask import frame_of

GOLDEN = Path(__file__).with_name("golden")
HARD_ROW = """
select
    7::integer as small,
    9223372036854775807::bigint as large,
    1000000000000000000000000000000::hugeint as huge,
    340282366920938463463374607431768211455::uhugeint as largest,
    1.5::double as ratio,
    'nan'::double as not_a_number,
    'infinity'::double as endless,
    12.30::decimal(10, 2) as money,
    true as is_late,
    null::bigint as missing,
    '' as empty,
    'rank "5", <b>late</b> & more' as marked,
    chr(27) || '[31mred' || chr(10) || chr(8238) || 'txt' as hostile,
    '=1+1' as formula,
    'Grüße' as greeting,
    ['a', null, 'c,d'] as words,
    []::varchar[] as none,
    {'rank': 5, 'delay_ns': 290000000} as pair,
    '\\x00\\xFF'::blob as bytes,
    timestamp '2026-11-30 20:00:00' as instant,
    interval 1500 millisecond as pause
"""


@pytest.fixture
def hard() -> pl.DataFrame:
    return frame_of(duckdb.connect().sql(HARD_ROW))


def _emitted(frame: pl.DataFrame, fmt: str, **options: object) -> str:
    out = io.StringIO()
    emit(frame, fmt, out, **options)  # pyright: ignore[reportArgumentType]
    return out.getvalue()


@pytest.mark.parametrize(
    ("fmt", "name"),
    [
        ("table", "hard_row.txt"),
        ("json", "hard_row.json"),
        ("jsonl", "hard_row.jsonl"),
        ("csv", "hard_row.csv"),
    ],
)
def test_a_row_of_every_hard_type_is_written_as_agreed(
    hard: pl.DataFrame, fmt: str, name: str
) -> None:
    expected = (GOLDEN / name).read_bytes().decode("utf-8")

    assert _emitted(hard, fmt) == expected


@pytest.mark.parametrize("fmt", FORMATS)
def test_no_control_character_leaves(hard: pl.DataFrame, fmt: str) -> None:
    text = _emitted(hard, fmt)

    acting = {each for each in text if each != "\n" and (each < " " or each > "\u2000")}
    assert acting == set()


def test_a_table_sets_numbers_to_the_right_and_words_to_the_left() -> None:
    frame = pl.DataFrame({"host": ["a", "long name"], "rank": [5, 1_000]})

    lines = _emitted(frame, "table").splitlines()

    assert lines == [
        "host       rank",
        "---------  ----",
        "a             5",
        "long name  1000",
    ]


def test_a_table_that_is_too_wide_becomes_records_and_loses_nothing() -> None:
    word = "x" * 100
    frame = pl.DataFrame({"finding": ["straggler"], "words": [word]})

    text = _emitted(frame, "table")

    assert text == f"row 1\n  finding  straggler\n  words    {word}\n"


def test_a_frame_without_rows_keeps_its_header_and_is_an_empty_list() -> None:
    frame = pl.DataFrame(schema={"a": pl.Int64, "b": pl.String})

    assert _emitted(frame, "csv") == "a,b\n"
    assert _emitted(frame, "json") == "[]\n"
    assert _emitted(frame, "jsonl") == ""
    assert _emitted(frame, "table") == "a  b\n-  -\n"


def test_instants_count_from_the_origin_which_json_says_once() -> None:
    frame = pl.DataFrame({"ts_ns": [1_000_000_000_000_000_123], "rank": [5]})
    options = {"origin_ns": 1_000_000_000_000_000_000, "instants": ("ts_ns",)}

    document = json.loads(_emitted(frame, "json", **options))
    lines = _emitted(frame, "jsonl", **options).splitlines()

    assert document == {
        "origin_ns": "1000000000000000000",
        "rows": [{"ts_ns": 123, "rank": 5}],
    }
    assert [json.loads(line) for line in lines] == [
        {"origin_ns": "1000000000000000000"},
        {"ts_ns": 123, "rank": 5},
    ]
    assert _emitted(frame, "csv", **options) == "ts_ns,rank\n123,5\n"


def test_json_is_strict(hard: pl.DataFrame) -> None:
    def refuse(word: str) -> None:
        raise AssertionError(word)

    (row,) = json.loads(_emitted(hard, "json"), parse_constant=refuse)

    assert row["not_a_number"] is None
    assert row["endless"] is None
    assert row["large"] == "9223372036854775807"
    assert row["hostile"] == "\x1b[31mred\n\u202etxt"


def test_a_number_that_a_double_holds_stays_a_number() -> None:
    assert strict_json([2**53, -(2**53), 2**53 + 1]) == (
        '[9007199254740992, -9007199254740992, "9007199254740993"]'
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain Grüße", "plain Grüße"),
        ("\x1b]0;owned\x07", "\\x1b]0;owned\\x07"),
        ("a\nb\tc\x00", "a\\x0ab\\x09c\\x00"),
        ("abc\u202edef", "abc\\u202edef"),
        ("\x9b31m", "\\x9b31m"),
    ],
)
def test_what_would_act_on_a_terminal_is_shown(text: str, shown: str) -> None:
    assert plain(text) == shown


def test_progress_counts_and_draws_nothing_where_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert list(progress([3, 5, 7], "load")) == [3, 5, 7]
    with progress(10, "load") as bar:
        bar.update(10)

    assert capsys.readouterr() == ("", "")
