"""A trace holds what the case holds: counts, times, nesting, flows, and no more.

It is read back with the published schema by a reader that knows nothing of the writer.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("perfetto.protos", reason="the extra perfetto is not installed")

from tests.builders import case as build_case
from tests.workbench.trace_reader import Trace, read_trace
from workbench import cli, open_case

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from workbench.store.case import Case

FROM_S, TO_S = 2.0, 4.0
EVENTS = """
    with event as (
        select 'collective' as category, host_id, start_ns, duration_ns
        from raw.collective
        union all
        select 'off_cpu', host_id, start_ns, duration_ns
        from raw.off_cpu
        where not is_totals_only
    ),
    mapped as (
        select
            e.*,
            start_ns + duration_ns as stop_ns,
            start_ns + offset_ns + ((start_ns - from_ns) * rate)::bigint as begin_ns
        from event as e
        asof join model.clock as c on e.host_id = c.host_id and e.start_ns >= c.from_ns
    )
    select
        category,
        duration_ns,
        begin_ns,
        stop_ns + offset_ns + ((stop_ns - from_ns) * rate)::bigint as end_ns
    from mapped as m
    asof left join model.clock as c on m.host_id = c.host_id and m.stop_ns >= c.from_ns
"""


@pytest.fixture(scope="module")
def sample(sample_case: Callable[[str], Path]) -> Path:
    """Return the sample with a late rank as a case."""
    return sample_case("late-rank")


@pytest.fixture(scope="module")
def window(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """Return two seconds of it as a trace."""
    out = tmp_path_factory.mktemp("trace") / "window.pftrace"
    words = ["--from", str(FROM_S), "--to", str(TO_S)]
    assert cli.main(["export", str(sample), "perfetto", "-o", str(out), *words]) == 0
    return read_trace(out)


def expected(case: Case) -> list[tuple[str, int, int | None, int | None]]:
    """Return category, begin, end, host's length of what touches the window."""
    origin, rows = case.origin_ns, case.frame(EVENTS).rows(named=True)
    low, high = origin + FROM_S * 1e9, origin + TO_S * 1e9
    return sorted(
        (
            (
                row["category"],
                row["begin_ns"] - origin,
                None if row["end_ns"] is None else row["end_ns"] - origin,
                row["duration_ns"],
            )
            for row in rows
            if row["begin_ns"] < high and (row["end_ns"] is None or row["end_ns"] > low)
        ),
        key=repr,
    )


def test_a_window_holds_each_event_once_with_its_time_and_length(
    sample: Path, window: Trace
) -> None:
    spans = window.of("collective") + window.of("off_cpu")
    held = []
    for each in spans:
        drawn_ns = None if each.end_ns is None else each.end_ns - each.begin_ns
        host_ns = each.details.get("duration_ns", drawn_ns)
        held.append((each.category, each.begin_ns, each.end_ns, host_ns))

    with open_case(sample) as case:
        assert sorted(held, key=repr) == expected(case)


def test_the_spans_of_a_track_nest_and_calls_hold_their_waits(window: Trace) -> None:
    inside = [each for each in window.of("off_cpu") if each.parent is not None]

    assert {each.parent.category for each in inside if each.parent} == {"collective"}
    assert len(inside) > 100
    for each in inside:
        assert each.parent is not None
        assert each.parent.begin_ns <= each.begin_ns
        assert each.parent.end_ns is not None
        assert each.end_ns is not None
        assert each.end_ns <= each.parent.end_ns
    assert not [path for path in window.paths.values() if "does not nest" in path[-1]]


def test_the_flows_are_the_collectives_with_all_their_members(
    sample: Path, window: Trace
) -> None:
    flows: dict[int, list[int]] = {}
    for each in window.of("collective"):
        for flow in each.flow_ids:
            flows.setdefault(flow, []).append(each.begin_ns)
    with open_case(sample) as case:
        origin = case.origin_ns
        low, high = origin + FROM_S * 1e9, origin + TO_S * 1e9
        rows = case.frame(
            "select communicator_id, collective_seq, operation, ts_ns, wait_ns"
            " from collective_arrival"
        ).iter_rows()
        met: dict[tuple[Any, ...], list[int]] = {}
        for *key, ts_ns, wait_ns in rows:
            if ts_ns < high and ts_ns + wait_ns > low:
                met.setdefault(tuple(key), []).append(ts_ns - origin)

    members = sorted(sorted(each) for each in flows.values())
    assert members == sorted(sorted(each) for each in met.values())
    assert max(len(each) for each in members) == 8
    hosts = {each.path[0] for each in window.of("collective") if each.flow_ids}
    assert len(hosts) == 2


def test_tracks_are_host_then_rank_then_thread_and_say_the_clock_error(
    window: Trace,
) -> None:
    (path,) = {
        each.path
        for each in window.of("collective")
        if each.path[1].startswith("rank 5")
    }
    about = window.of("about")[0].details

    assert path[0].startswith("hostb (clock proved, +-")
    assert path[1].startswith("rank 5, mpi_job (pid ")
    assert path[2].startswith("mpi_job (tid ")
    assert "clock error" in about["read_this"]
    assert about["clock of hosta, part 0"] == "reference: cluster time is its own"


def test_steps_and_counters_are_there(sample: Path, window: Trace) -> None:
    steps = [each for each in window.of("step") if each.path[1].startswith("rank 0")]
    (errors,) = [
        values
        for path, values in window.counters.items()
        if path[-1] == "clock error" and path[0].startswith("hostb")
    ]
    with open_case(sample) as case:
        worst = case.frame("select max(error_ns) from model.clock").item()

    assert [each.name for each in steps] == [
        f"step {int(steps[0].name.split()[1]) + at}" for at in range(len(steps))
    ]
    assert all(0 < error <= worst for _, error in errors)
    assert errors[0][0] == FROM_S * 1e9
    assert any(path[-1].startswith("arrival after") for path in window.counters)


EVIL = "</script>\x1b[31m"


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a case with what a trace may get wrong."""
    made = build_case()
    a = made.host("a", offset_ns=5_000)
    thread = a.rank(0, pid=7)
    thread.collective(start_ns=1_000, duration_ns=10_000_000)
    # two within the call, one exactly as long as it, then one without an end
    thread.gpu_call(start_ns=2_000, duration_ns=500)
    thread.off_cpu(start_ns=1_000, duration_ns=10_000_000, syscall="poll")
    thread.gpu_call(start_ns=5_000)
    thread.collective(start_ns=20_000_000)
    thread.off_cpu(start_ns=21_000_000, duration_ns=3_000_000)
    a.thread(3, name=EVIL).off_cpu(start_ns=1, duration_ns=7)
    # another host, the same pid; a wait that ends after the call it began in
    b = made.host("b").rank(1, pid=7)
    b.collective(start_ns=1_100, duration_ns=9_999_000)
    b.off_cpu(start_ns=9_000_000, duration_ns=5_000_000)
    folder = tmp_path_factory.mktemp("odd")
    made.build(folder).close()
    return folder / "case.duckdb"


def _export(path: Path, *words: str) -> Trace:
    out = path.with_suffix(".pftrace")
    words = ("-o", str(out), "--force", *words)
    assert cli.main(["export", str(path), "perfetto", *words]) == 0
    return read_trace(out)


def test_open_calls_have_no_end_and_entries_alone_are_instants(odd: Path) -> None:
    trace = _export(odd)

    (still,) = [each for each in trace.of("collective") if each.end_ns is None]
    (entry,) = [each for each in trace.of("gpu_call") if each.is_instant]
    (late,) = [each for each in trace.of("off_cpu") if each.begin_ns > still.begin_ns]
    assert still.details["is_open"] is True
    assert entry.details["is_return_recorded"] is False
    assert late.parent is still


def test_what_does_not_nest_gets_a_lane_of_its_own(odd: Path) -> None:
    trace = _export(odd, "--host", "b")

    (away,) = trace.of("off_cpu")
    assert away.path[-1].endswith("does not nest")
    assert away.parent is None
    assert away.end_ns is not None
    drawn_ns = away.end_ns - away.begin_ns
    assert away.details.get("duration_ns", drawn_ns) == 5_000_000


def test_a_rank_alone_is_exported_alone(odd: Path) -> None:
    trace = _export(odd, "--rank", "1")

    assert {each.path[0].split()[0] for each in trace.of("collective")} == {"b"}


def test_hosts_with_one_pid_stay_apart_and_names_are_kept_as_they_are(
    odd: Path,
) -> None:
    trace = _export(odd)

    processes = Counter(path[1] for path in trace.paths.values() if len(path) == 2)
    assert sum("(pid 7)" in name for name in processes) == 2
    assert any(EVIL in path[-1] for path in trace.paths.values())
