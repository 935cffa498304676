"""A header is read whole or refused with the view and the line.

The grammar is that of workbench/store/header.py; what it accepts is data, and nothing
that it does not understand is passed over.
"""

from __future__ import annotations

import pytest

from workbench.errors import ViewHeaderError
from workbench.store.header import Column, parse_header, split_file

GOOD = """\
-- Time each thread waited for a CPU, before each run.
--
-- Wake-ups and preemptions are both here; note: they are told apart by kind.
--
-- grain:  host_id, thread_id,
--         start_ns
-- reads:  stg_off_cpu
-- caveat: a wake-up lost by the recorder
--         shows as no row.
-- exclusive: yes
--
-- columns:
--   host_id     INTEGER       host the thread ran on
--   start_ns    BIGINT   ns   start of the wait,
--                             host MONOTONIC
--   row_count   BIGINT        count of rows
--   lost_count  BIGINT count  records that were lost
--   names       VARCHAR[]     all of them

select 1
"""


def test_every_field_of_a_header_is_read() -> None:
    header = parse_header(GOOD, view="wait")

    assert header.purpose == "Time each thread waited for a CPU, before each run."
    assert header.notes.startswith("Wake-ups and preemptions")
    assert header.grain == ("host_id", "thread_id", "start_ns")
    assert header.reads == ("stg_off_cpu",)
    assert header.caveat == "a wake-up lost by the recorder shows as no row."
    assert header.exclusive
    assert not header.materialize
    assert header.subject is None
    assert header.declared == {"grain", "reads", "caveat", "exclusive", "columns"}


def test_a_column_has_its_unit_and_a_meaning_that_may_go_on() -> None:
    columns = parse_header(GOOD, view="wait").columns

    assert columns == (
        Column(
            name="host_id", type="INTEGER", unit=None, meaning="host the thread ran on"
        ),
        Column(
            name="start_ns",
            type="BIGINT",
            unit="ns",
            meaning="start of the wait, host MONOTONIC",
        ),
        Column(name="row_count", type="BIGINT", unit=None, meaning="count of rows"),
        Column(
            name="lost_count",
            type="BIGINT",
            unit="count",
            meaning="records that were lost",
        ),
        Column(name="names", type="VARCHAR[]", unit=None, meaning="all of them"),
    )
    assert columns[1].comment == "start of the wait, host MONOTONIC [ns]"


def test_the_select_begins_where_the_comment_ends() -> None:
    header, body = split_file(GOOD)

    assert len(header) == 18
    assert body == "select 1"


@pytest.mark.parametrize(
    ("find", "put", "line", "message"),
    [
        ("-- Time each", "-- grain: x\n-- Time", 1, "in one sentence"),
        ("each run.", "each run", 1, "full stop"),
        ("-- caveat:", "-- caveats:", 8, "unknown field 'caveats'"),
        ("-- exclusive: yes", "-- exclusive: maybe", 10, "yes or no, not 'maybe'"),
        ("-- exclusive: yes", "-- reads: x", 10, "field 'reads' twice"),
        ("BIGINT   ns ", "BIGINT      ", 14, "must have the unit ns, not none"),
        ("BIGINT   ns ", "HUGEINT  ns ", 14, "type HUGEINT"),
        ("names       VARCHAR[] ", "names ", 18, "not a column"),
        ("lost_count", "row_count ", 12, "declared twice: row_count"),
        ("--         shows", "-- shows", 9, "neither a field nor its continuation"),
    ],
)
def test_a_fault_is_named_with_its_line(
    find: str, put: str, line: int, message: str
) -> None:
    with pytest.raises(ViewHeaderError) as caught:
        parse_header(GOOD.replace(find, put, 1), view="wait")

    assert message in caught.value.message
    assert (caught.value.view, caught.value.line) == ("wait", line)


def test_a_header_without_columns_is_refused() -> None:
    text = "-- One row.\n--\n-- grain: a\n\nselect 1 as a\n"

    with pytest.raises(ViewHeaderError, match="no field 'columns'"):
        parse_header(text, view="wait")


def test_a_finding_may_name_the_shared_columns_by_one_word() -> None:
    text = "-- One row.\n--\n-- grain: a\n-- columns: finding\n\nselect 1\n"

    header = parse_header(text, view="finding_x")

    assert header.has_shared_columns
    assert header.columns == ()
