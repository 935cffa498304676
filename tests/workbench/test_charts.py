"""Each chart says what its frame holds, and its frame what the case holds.

Claims: frames have the declared columns of types that JSON has, and no more rows than
a chart can hold; titles state what was planted; lanes keep every long span and all time
at every zoom; an empty case draws too; a PNG is small and has the same pixels.
"""

from __future__ import annotations

import json
import struct
import zlib
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest

from tests.builders import case as new_case
from tests.workbench.made_jobs import MILLISECOND, job_of, loaded_job, work_of
from workbench.charts import png
from workbench.charts.arrival_fan import arrival_fan_frame
from workbench.charts.frame import MOST_ROWS, ChartError, drawable
from workbench.charts.heat_map import MEASURES, heat_map_frame
from workbench.charts.heat_rows import MOST_HOSTS, heat_rows
from workbench.charts.lanes import lanes_chart, lanes_frame, late_window
from workbench.charts.latency import SOURCES, latency_frame, latency_map_frame
from workbench.charts.lateness import LATENESS_SCHEMA, lateness_chart, lateness_frame
from workbench.charts.reading import figure
from workbench.charts.registry import CHARTS, ChartEntry
from workbench.charts.time_budget import time_budget_frame
from workbench.store.case import Case, open_case
from workbench.store.own_views import open_library

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import altair as alt


SEVEN_HOSTS = {f"h{at}": list(range(10 * at, 10 * at + 10)) for at in range(7)}


@pytest.fixture(scope="module")
def late_rank(sample_case: Callable[[str], Path]) -> Iterator[Case]:
    """Return the sample in which rank 5 reads 290 ms longer at each 14th step."""
    with open_case(sample_case("late-rank")) as case:
        open_library(case)
        yield case


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
    """Return a case of one host that recorded nothing."""
    builder = new_case().host("a")
    with builder.build(tmp_path_factory.mktemp("empty")) as case:
        open_library(case)
        yield case


def title_of(chart: alt.TopLevelMixin) -> str:
    return chart.to_dict()["title"]["text"]


def frame_of(entry: ChartEntry, case: Case) -> pl.DataFrame:
    return entry.frame(*[case] * entry.case_count)


@pytest.mark.parametrize("entry", CHARTS.values(), ids=lambda entry: entry.name)
def test_a_frame_has_its_declared_columns_and_draws(
    entry: ChartEntry, late_rank: Case
) -> None:
    frame = frame_of(entry, late_rank)
    chart = entry.chart(frame)

    assert dict(frame.schema) == entry.schema
    assert 0 < frame.height <= MOST_ROWS
    json.dumps(chart.to_dict(), allow_nan=False)
    assert png.to_png(chart).startswith(png.SIGNATURE)


@pytest.mark.parametrize("entry", CHARTS.values(), ids=lambda entry: entry.name)
def test_a_case_without_events_draws_and_says_so(
    entry: ChartEntry, empty: Case
) -> None:
    frame = frame_of(entry, empty)
    chart = entry.chart(frame)

    assert dict(frame.schema) == entry.schema
    assert any(word in title_of(chart) for word in ("No", "One clock", "no two"))
    assert png.to_png(chart).startswith(png.SIGNATURE)


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("lateness", "Rank 5 is late at each 14th step"),
        ("arrival_fan", "Rank 5 came last"),
        ("latency", "Rank 5 has the longest times off the CPU"),
    ],
)
def test_a_title_states_what_was_planted(
    name: str, title: str, late_rank: Case
) -> None:
    assert title_of(CHARTS[name].draw(late_rank)) == title


def test_the_budget_names_the_class_that_was_planted(late_rank: Case) -> None:
    title = title_of(CHARTS["time_budget"].draw(late_rank))

    assert title.startswith("Rank 5 spends +29")
    assert "ms a step in read" in title


def test_the_lateness_map_has_every_step_of_every_rank(late_rank: Case) -> None:
    rows = lateness_frame(late_rank).select("row", "step", "excess_ms").rows()

    assert (
        rows
        == late_rank.frame("""
        select rank::varchar, step, 1e-6 * excess_ns from step_excess
        order by rank, step
    """).rows()
    )


def test_the_lateness_map_has_ranks_down_steps_across_and_excess_as_colour() -> None:
    values = [
        ("2", 2, 3, 290.0, 1, None, 1, "rank"),
        ("0", 0, 3, 0.5, 0, None, 1, "rank"),
    ]
    frame = pl.DataFrame(values, schema=LATENESS_SCHEMA, orient="row")

    encoding = lateness_chart(frame).to_dict()["encoding"]

    assert encoding["y"]["sort"] == ["0", "2"]
    assert encoding["x"]["field"] == "step"
    assert encoding["color"]["field"] == "excess_ms"
    assert encoding["color"]["title"].endswith("(ms)")
    assert title_of(lateness_chart(frame)) == "Rank 2 is late in 1 steps"


def test_lateness_of_many_ranks_and_steps_keeps_the_worst(tmp_path: Path) -> None:
    work = work_of(70, 80)
    work[57, 42] += 900 * MILLISECOND
    with loaded_job(tmp_path, work, hosts=SEVEN_HOSTS) as case:
        open_library(case)
        frame = lateness_frame(case)
        heat = heat_map_frame(case)

    assert frame.height <= MOST_ROWS
    assert frame["row"].n_unique() == len(SEVEN_HOSTS)
    worst = frame.sort("excess_ms").row(-1, named=True)
    assert worst["row"] == "h4"
    assert worst["excess_ms"] == pytest.approx(900, abs=2)
    assert heat.sort("value").row(-1, named=True)["row"] == "h4"


def test_rows_are_groups_of_hosts_where_there_are_many() -> None:
    with Case.create(None) as case:
        case.connection.execute(
            "create temp table host as select range::integer as host_id,"
            " format('n{:03}', range) as host_name from range(90)"
        )
        sql, row_is = heat_rows(case, None)
        rows = case.frame(sql)

    assert row_is == "host"
    assert rows["host_id"].n_unique() == 90
    assert rows["label"].n_unique() == MOST_HOSTS
    assert rows.sort("place")["label"][0] == "n000 to n001"


@pytest.mark.parametrize("measure", MEASURES)
def test_every_measure_has_a_heat_map(measure: str, late_rank: Case) -> None:
    frame = heat_map_frame(late_rank, measure=measure)

    assert frame.is_empty() == (measure == "gpu_calls")


@pytest.mark.parametrize("source", SOURCES)
def test_every_kind_of_length_has_both_charts(source: str, late_rank: Case) -> None:
    tail = latency_frame(late_rank, source=source)
    spread = latency_map_frame(late_rank, source=source)

    assert tail.is_empty() == spread.is_empty() == (source == "gpu_call")
    if tail.height:
        first = tail.group_by("rank").agg(pl.col("share").max())["share"]
        assert set(first) == {1.0}


def test_the_fan_holds_the_planted_order_within_its_band(tmp_path: Path) -> None:
    work = work_of(4, 40)
    work[20, 3] += 50 * MILLISECOND
    clocks = {"b": {"offset_ns": 10**9, "rate": 1e-5}}
    with loaded_job(
        tmp_path, work, hosts={"a": [0, 1], "b": [2, 3]}, clocks=clocks
    ) as case:
        open_library(case)
        frame = arrival_fan_frame(case)

    truth = 1e-6 * (work[20] - work[20].min())
    late = dict(zip(frame["rank"], frame["is_surely_last"], strict=True))
    assert late == {0: False, 1: False, 2: False, 3: True}
    # Exits of a step differ by tens of microseconds, and so do the entries of the next.
    for row in frame.iter_rows(named=True):
        assert row["low_ms"] - 0.2 <= truth[row["rank"]] <= row["high_ms"] + 0.2


def test_a_budget_adds_up_to_the_step(late_rank: Case) -> None:
    frame = time_budget_frame(late_rank)
    steps = late_rank.frame("""
        select 'rank ' || w.rank as who, 1e-6 * avg(w.step_ns) as step_ms
        from step_work as w
        where w.step in (
            select unnest(affected_steps) from straggler_score
            where is_accused and window_kind = 'run'
        )
        group by w.rank
    """)

    both = frame.group_by("who").agg(pl.col("mean_ms").sum()).join(steps, on="who")

    assert both.height == 8
    for _, total, step in both.iter_rows():
        assert total == pytest.approx(step, rel=1e-6)


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
    """Return a job whose rank 1 is away 4,000 times briefly and once for long."""
    work = np.full((30, 2), 100 * MILLISECOND)
    work[11, 1] += 400 * MILLISECOND
    made = job_of(work, hosts={"a": [0, 1]})
    thread = made.host("a").rank(1)
    for each in range(4_000):
        thread.off_cpu(start_ns=10**9 + each * 250_000, duration_ns=101_000)
    thread.off_cpu(start_ns=2_100_000_000, duration_ns=400_000_000, syscall="read")
    with made.build(tmp_path_factory.mktemp("busy")) as case:
        open_library(case)
        yield case


@pytest.mark.parametrize("window", [None, (0.0, 1.0), (0.2, 0.25), (0.2, 0.2005)])
def test_lanes_keep_all_time_and_every_long_span_at_any_zoom(
    window: tuple[float, float] | None, busy: Case
) -> None:
    frame = lanes_frame(busy, window_s=window).filter(
        (pl.col("lane") == "rank 1") & (pl.col("kind") == "off CPU")
    )

    drawn = (frame["to_s"] - frame["from_s"]).sum()
    low, high = window or (0.1, 99.0)  # steps begin with the completion of the first
    first = busy.origin_ns
    true = busy.frame(
        "select sum(greatest(least(end_ns, $high) - greatest(start_ns, $low), 0))"
        "::bigint"
        " from wait_span where rank = 1",
        {"low": first + int(1e9 * low), "high": first + int(1e9 * high)},
    ).item()
    assert frame.height <= MOST_ROWS
    assert drawn == pytest.approx(1e-9 * true, rel=0.01)
    if window is None:
        assert frame["longest_ms"].max() == pytest.approx(400)
        assert (frame["span_count"] > 1).any()


def test_the_late_window_shows_the_late_read(late_rank: Case) -> None:
    window = late_window(late_rank)
    assert window is not None

    frame = lanes_frame(late_rank, window_s=window)

    read = frame.filter(pl.col("class") == "read").sort("longest_ms")
    assert read["lane"][-1] == "rank 5"
    assert read["longest_ms"][-1] == pytest.approx(292, abs=5)
    assert read["from_s"][-1] >= window[0]
    assert read["to_s"][-1] <= window[1] + 1e-9


def test_a_hostile_thread_name_is_text_in_the_chart(tmp_path: Path) -> None:
    name = "</script><b>\x1b[31m\u202e"
    made = job_of(work_of(2, 20), hosts={"a": [0, 1]})
    first = made.host("a").rank(1)
    other = made.host("a").thread(first.tid + 1, pid=first.pid, name=name)
    other.off_cpu(start_ns=10**9 + 5 * MILLISECOND, duration_ns=20 * MILLISECOND)
    with made.build(tmp_path) as case:
        open_library(case)
        frame = lanes_frame(case, with_threads=True)

    chart = lanes_chart(frame)

    assert png.to_png(chart).startswith(png.SIGNATURE)
    shown = f"rank 1 </script><b>\\x1b[31m\\u202e {other.tid}"
    assert shown in chart.to_dict()["encoding"]["y"]["sort"]


def test_a_type_that_json_has_not_is_refused() -> None:
    frame = pl.DataFrame({"total": pl.Series([1], dtype=pl.Decimal(38, 0))})

    with pytest.raises(ChartError, match="column total is Decimal"):
        drawable(frame)


def test_too_many_rows_are_refused() -> None:
    with pytest.raises(ChartError, match="5001 rows"):
        drawable(pl.DataFrame({"x": range(MOST_ROWS + 1)}))


def test_nan_and_infinity_become_null() -> None:
    frame = drawable(pl.DataFrame({"x": [1.0, float("nan"), float("-inf"), None]}))

    assert frame["x"].to_list() == [1.0, None, None, None]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0, "0.00"),
        (6276.4, "6,276"),
        (0.09734, "0.0973"),
        (290.2, "290"),
        (2.161, "2.16"),
    ],
)
def test_numbers_in_titles_have_three_digits(value: float, words: str) -> None:
    assert figure(value) == words


def _image(data: bytes) -> tuple[bytes, bytes]:
    """Return the header chunk and the unpacked pixels of a PNG."""
    chunks = list(png._chunks(data))
    for kind, body in chunks:
        stored = struct.pack(">I", zlib.crc32(kind + body))
        assert kind + body + stored in data
    pixels = b"".join(body for kind, body in chunks if kind == b"IDAT")
    return dict(chunks)[b"IHDR"], zlib.decompress(pixels)


def test_squeezing_keeps_every_pixel_and_saves_bytes(
    late_rank: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[bytes] = []
    squeeze = png.squeeze
    monkeypatch.setattr(
        png, "squeeze", lambda data: drawn.append(data) or squeeze(data)
    )

    small = png.to_png(CHARTS["lateness"].draw(late_rank))

    assert _image(small) == _image(drawn[0])
    assert len(small) < len(drawn[0]) / 2
