"""TCP packets that two hosts traced place their clocks as exactly as they can.

The public trace is Trace Compass's own example of two hosts during one copy; its line
and the exact band (a linear program) are known.
"""

from __future__ import annotations

import json
from decimal import Decimal, localcontext
from typing import TYPE_CHECKING, Any

import pytest

from tests.public_data import public_data
from workbench.cli import main
from workbench.errors import EvidenceError
from workbench.importers import importer
from workbench.store.case import open_case

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from workbench.store.case import Case

HEADER = "host,t_ns,direction,sk,seq,ack_seq,window,flags"
SLOPE, SHIFT_NS = Decimal("0.99994137837031390"), Decimal("79796507913179.33")
EXACT_US = {"start": 171.5, "middle": 142.9, "end": 147.7}


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
    packets = public_data("clocks/tcp_events.csv")
    target = tmp_path_factory.mktemp("tcp") / "case.duckdb"
    assert main(["import", str(target), "tcp-pairs", str(packets)]) == 0
    with open_case(target) as case:
        yield case


def mapped(case: Case, times: list[int]) -> list[dict[str, Any]]:
    """Return the rows of the model for times of the host that is not the reference."""
    return case.frame(
        """
        select
            t.ns as own_ns, c.error_ns,
            t.ns + c.offset_ns + ((t.ns - c.from_ns) * c.rate)::bigint as ts_ns
        from (select unnest(?::bigint[]) as ns) as t
        asof inner join (
            from model.clock where method <> 'reference'
        ) as c on t.ns >= c.from_ns
        order by 1
        """,
        [times],
    ).rows(named=True)


def test_the_band_of_the_public_trace_is_the_exact_one(
    copied: Case, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(["clocks", str(copied.path), "--format", "json"]) == 0
    rows = {row["method"]: row for row in json.loads(capsys.readouterr().out)}

    found = rows["packets"]
    for place, exact_us in EXACT_US.items():
        assert int(found[f"error_{place}_ns"]) / 1e3 == pytest.approx(exact_us, abs=1)
    assert int(found["constraint_count"]) == 46
    assert copied.frame("from model.clock_contradiction").is_empty()


def test_trace_compass_lies_inside_the_band_and_near_its_middle(copied: Case) -> None:
    reference = copied.frame(
        "select host_name from model.clock_summary where state = 'reference'"
    ).item()
    first, last = copied.frame(
        "select from_ns, to_ns from model.clock_summary where method = 'packets'"
    ).row(0)
    times = [first + (last - first) * part // 40 for part in range(41)]

    for row in mapped(copied, times):
        with localcontext(prec=40):
            own = Decimal(row["own_ns"])
            theirs = (
                own * SLOPE + SHIFT_NS
                if reference == "dest"
                else (own - SHIFT_NS) / SLOPE
            )
            away_ns = abs(float(Decimal(row["ts_ns"]) - theirs))
        assert away_ns < 3_000
        assert away_ns < row["error_ns"]


def test_no_packet_is_received_before_it_was_sent(copied: Case) -> None:
    sides = copied.frame("select * from clock_packet").rows(named=True)
    cluster: dict[tuple[int, int], tuple[int, int]] = {}
    for host, time in {
        (row[f"{side}_host_id"], row[f"{side}_ns"])
        for row in sides
        for side in ("send", "receive")
    }:
        row = copied.frame(
            """
            select
                $time + offset_ns + (($time - from_ns) * rate)::bigint, error_ns
            from model.clock
            where host_id = $host and from_ns <= $time and to_ns > $time
            """,
            {"host": host, "time": time},
        ).row(0)
        cluster[host, time] = row

    late = [
        cluster[row["receive_host_id"], row["receive_ns"]][0]
        - cluster[row["send_host_id"], row["send_ns"]][0]
        for row in sides
    ]
    assert len(late) == 46
    assert min(late) >= 0


def write(folder: Path, *lines: str, header: str = HEADER) -> Path:
    path = folder / "packets.csv"
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


@pytest.mark.parametrize(
    ("lines", "header", "message"),
    [
        (["a,1,out,s,1,2,3,4"], "host,t_ns", "it lacks ack_seq, direction, flags, seq"),
        ([], HEADER, "it holds no packet"),
        (["a,1,up,s,1,2,3,4"], HEADER, "1 rows with a direction other than out and in"),
        (["a,1,in,s,1,2,3,4", "a,x,in,s,1,2,3,4"], HEADER, "the first is row 1"),
        (["a,1.5,in,s,1,2,3,4"], HEADER, "with a time that is no whole number"),
    ],
)
def test_what_is_no_packet_file_is_refused_with_the_reason(
    tmp_path: Path, lines: list[str], header: str, message: str
) -> None:
    if header != HEADER:
        lines = []

    with pytest.raises(EvidenceError, match=message):
        importer("tcp-pairs").read(write(tmp_path, *lines, header=header))


def test_a_packet_that_was_sent_again_pairs_with_nothing(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "a,100,out,s,1,2,3,4",
        "b,300,in,s,1,2,3,4",
        "a,400,out,s,9,2,3,4",
        "a,600,out,s,9,2,3,4",
        "b,700,in,s,9,2,3,4",
        "b,800,out,s,7,2,3,4",
        "a,950,in,s,7,2,3,4",
    )
    target = tmp_path / "case.duckdb"
    assert main(["import", str(target), "tcp-pairs", str(path)]) == 0

    with open_case(target) as case:
        pairs = case.frame("select send_ns, receive_ns from clock_packet order by 1")
        hosts = case.frame("select host_name, bundle_count from host order by 1")
        states = case.frame("select state from model.clock_summary order by state")

    assert pairs.rows() == [(100, 300), (800, 950)]
    assert hosts.rows() == [("a", 0), ("b", 0)]
    assert states["state"].to_list() == ["proved", "reference"]
