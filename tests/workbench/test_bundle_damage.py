"""The claim: a bundle cut at any byte, or with any byte flipped, loads what is sound.

And names what is not: either nothing is said and everything is there, or something is
said.  A row that was never recorded is never loaded.
"""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.builders import case
from workbench.bundle.container import Member, refusal
from workbench.bundle.facts import FACTS
from workbench.bundle.reader import BundleReader
from workbench.bundle.verify import refusals
from workbench.errors import BundleError
from workbench.store.case import Case
from workbench.store.load import load_bundles

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Rows = dict[str, list[Any]]
UNUSED = [
    "stream_handle",
    "caller_library_ref",
    "caller_offset",
    "child_ref",
    "return_code",
    "data_type",
    "peer_rank",
    "group_seq",
    "group_depth",
    "element_count",
    "collective_seq",
    "communicator_ref",
]
STRIDE = 11
"""Prime, so that repeated structure does not hide from it."""


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a small bundle: two chunks of two rows, a dozen columns, five facts."""
    host = case().host(
        "a",
        streams=["collective"],
        chunk_rows=2,
        without_columns={"collective": UNUSED},
    )
    rank = host.rank(0)
    for number in range(4):
        rank.collective(start_ns=1_000 * number, duration_ns=7, communicator=None)
    return host.write(tmp_path_factory.mktemp("sound"))


def contents(path: Path) -> tuple[Rows, list[str]]:
    """Return every sound row of a bundle by table, and what is said to be wrong."""
    try:
        reader = BundleReader.open(path)
    except (BundleError, ExceptionGroup) as error:
        return {}, [each.message for each in refusals(error)]
    with reader:
        said = list(reader.damage)
        rows: Rows = {}
        tables = {fact: reader.fact(fact) for fact in FACTS}
        for name, table in {"clock": reader.clock_readings(), **tables}.items():
            rows[name] = [tuple(row.values()) for row in table.rows]
            said += table.damage
        for index in range(len(reader.manifest.streams["collective"].chunk_rows)):
            chunk = reader.chunk("collective", index)
            said += chunk.damage
            if chunk.columns is not None:
                columns = [array.tolist() for array in chunk.columns.values()]
                rows[f"chunk {index}"] = list(zip(*columns, strict=True))
        said += reader.check_rest()
    return rows, [each.message for each in said]


def check(path: Path, sound_rows: Rows) -> tuple[Rows, list[str]]:
    """Check what holds for every damage, and return what the bundle gives."""
    rows, said = contents(path)
    for table, values in rows.items():
        assert [value for value in values if value not in sound_rows[table]] == []
    assert said or rows == sound_rows
    return rows, said


def member_ends(path: Path) -> dict[str, tuple[int, int]]:
    """Return where the data of each member lies, by zipfile and not by our reader."""
    with zipfile.ZipFile(path) as file:
        spans = {}
        for info in file.infolist():
            start = info.header_offset + 30 + len(info.filename)
            spans[info.filename] = (start, start + info.compress_size)
        return spans


def whole_tables(
    ends: dict[str, tuple[int, int]], is_whole: Callable[..., bool]
) -> set:
    """Return the tables all of whose members are whole."""
    tables: dict[str, bool] = {}
    for name, span in ends.items():
        kind, *rest = name.split("/")
        if kind == "events":
            table = f"chunk {int(rest[1])}"
        else:
            table = name.removeprefix("facts/").removesuffix(".jsonl")
        tables[table] = tables.get(table, True) and is_whole(span)
    return {table for table, whole in tables.items() if whole}


def test_the_sound_bundle_is_sound(sound: Path) -> None:
    rows, said = contents(sound)

    assert said == []
    assert {"chunk 0", "chunk 1", "clock", "thread", "probe"} <= set(rows)
    assert len(rows["chunk 0"]) == 2


def test_cut_anywhere_it_gives_what_lies_before_the_cut(
    sound: Path, tmp_path: Path
) -> None:
    data = sound.read_bytes()
    sound_rows, _ = contents(sound)
    ends = member_ends(sound)
    torn = tmp_path / "torn.bundle"

    for length in {*range(0, len(data), STRIDE), len(data) - 1, len(data) - 21}:
        torn.write_bytes(data[:length])
        rows, said = check(torn, sound_rows)

        assert said, f"cut at {length} and nothing said"
        if ends["manifest.json"][1] <= length:
            whole = whole_tables(ends, lambda span, cut=length: span[1] <= cut)
            expected = {t for t in whole if t in sound_rows}
            assert {t for t, values in rows.items() if values} == {
                t for t in expected if sound_rows[t]
            }, f"cut at {length}"
        else:
            assert rows == {}


def test_a_flip_anywhere_is_named_or_harmless(sound: Path, tmp_path: Path) -> None:
    data = sound.read_bytes()
    sound_rows, _ = contents(sound)
    ends = member_ends(sound)
    flipped = tmp_path / "flipped.bundle"

    for place in range(0, len(data), STRIDE):
        changed = bytearray(data)
        changed[place] ^= 0xFF
        flipped.write_bytes(changed)
        rows, said = check(flipped, sound_rows)

        hit = [n for n, (start, end) in ends.items() if start <= place < end]
        if hit and hit[0] != "manifest.json":
            lost = whole_tables(
                ends, lambda span, at=place: not span[0] <= at < span[1]
            )
            kept = {t for t in lost if sound_rows.get(t)}
            assert {t for t, values in rows.items() if values} == kept
            assert any(hit[0] in message for message in said), (place, said)
        elif hit:
            assert rows == {}
            assert "manifest.json" in said[0]


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.data())
def test_random_damage_never_invents_a_row(
    sound: Path, tmp_path: Path, data: st.DataObject
) -> None:
    """Several bytes at once, put in, taken out or changed."""
    content = bytearray(sound.read_bytes())
    edit = st.tuples(
        st.integers(0, len(content) - 1),
        st.sampled_from(["flip", "drop", "insert"]),
        st.binary(min_size=1, max_size=9),
    )
    for place, what, piece in data.draw(st.lists(edit, min_size=1, max_size=4)):
        stop = place + (0 if what == "insert" else len(piece))
        content[place:stop] = b"" if what == "drop" else piece
    path = tmp_path / "random.bundle"
    path.write_bytes(content)

    check(path, contents(sound)[0])


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.data())
def test_a_damaged_bundle_never_stops_the_sound_one_beside_it(
    sound: Path, tmp_path: Path, data: st.DataObject
) -> None:
    content = bytearray(sound.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        del content[place:]
    else:
        content[place] ^= data.draw(st.integers(1, 255))
    damaged = tmp_path / "damaged.bundle"
    damaged.write_bytes(content)

    with Case.create(None) as made:
        report = load_bundles(made, [damaged, sound], build=False)
        starts = made.frame("select start_ns from raw.collective order by start_ns")

    assert starts["start_ns"].to_list() == [0, 1_000, 2_000, 3_000]
    assert report.problems


def member(*, size: int, compressed_size: int, method: int = 8) -> Member:
    return Member(
        name="x",
        method=method,
        flags=0,
        crc=0,
        compressed_size=compressed_size,
        size=size,
        header_offset=0,
        data_offset=0,
    )


def test_an_absurd_size_is_refused_before_anything_is_unpacked() -> None:
    terabyte = member(size=2**40, compressed_size=1_000)
    beyond_deflate = member(size=2**20, compressed_size=10)
    two_sizes = member(size=5, compressed_size=6, method=0)

    assert "more than the 4096 allowed" in (refusal(terabyte, 4_096) or "")
    assert "more than deflate can hold" in (refusal(beyond_deflate, 2**30) or "")
    assert "two different sizes" in (refusal(two_sizes, 2**30) or "")
    assert refusal(member(size=100, compressed_size=10), 2**30) is None
