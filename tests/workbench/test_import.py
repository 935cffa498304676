"""The claim: an import brings whole files or nothing, each once, with its provenance.

The files are hostile too: what is no trace is refused with the reason, and the case
stays as it was.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import polars as pl
import pytest

from tests.workbench.loading import two_hosts
from tests.workbench.op_traces import Trace
from workbench.cli import main
from workbench.errors import EvidenceError
from workbench.importers import MODULES, importer
from workbench.store.case import Case, open_case
from workbench.store.import_schema import IMPORT_TABLES
from workbench.store.imports import import_files
from workbench.store.load import load_bundles
from workbench.store.materialize import stored_stamps

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Change = Callable[[pl.DataFrame], pl.DataFrame]

OPS = "straggler-ops"
SMALL = Trace(replicas=3, stages=2, steps=2, batches=2)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Return a small trace in a file."""
    return SMALL.write(tmp_path / "small.parquet")


def rows(case: Case) -> list[int]:
    """Return the rows of operations and of files."""
    tables = ("imported_operation", "imported_file")
    return [case.frame(f"select count(*) from raw.{name}").item() for name in tables]


@pytest.mark.slow
def test_the_command_makes_a_case_and_adds_to_it(
    tmp_path: Path, trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "case.duckdb"
    count = SMALL.frame().height

    assert main(["import", str(target), OPS, str(trace)]) == 0
    first = capsys.readouterr()
    assert main(["import", str(target), OPS, str(trace)]) == 0
    again = capsys.readouterr()

    assert (first.out, again.out) == ("", "")
    assert first.err == f"coldtrace: wrote {target}: {count} rows imported\n"
    assert f"{trace}: imported before, nothing to add" in again.err
    with open_case(target) as case:
        assert rows(case) == [count, 1]
        assert "finding" in stored_stamps(case.connection)


def test_a_file_has_its_provenance_as_a_row(trace: Path) -> None:
    with Case.create(None) as case:
        report = import_files(case, importer(OPS), [trace])
        (row,) = case.frame("from raw.imported_file").to_dicts()

    assert report.row_count == row["row_count"] == SMALL.frame().height
    assert (row["kind"], row["name"], row["path"]) == (
        OPS,
        "small",
        str(trace),
    )
    assert row["content_sha256"] == hashlib.sha256(trace.read_bytes()).hexdigest()
    assert row["imported_utc"].endswith("Z")


def test_the_same_bytes_under_another_name_bring_nothing(trace: Path) -> None:
    copy = trace.with_name("copy.parquet")
    copy.write_bytes(trace.read_bytes())

    with Case.create(None) as case:
        report = import_files(case, importer(OPS), [trace, copy])

        assert report.known == (copy,)
        assert rows(case) == [SMALL.frame().height, 1]


def test_another_file_of_the_same_name_gets_a_name_of_its_own(
    tmp_path: Path, trace: Path
) -> None:
    (tmp_path / "more").mkdir()
    other = Trace(steps=1).write(tmp_path / "more" / trace.name)

    with Case.create(None) as case:
        import_files(case, importer(OPS), [trace, other])
        names = case.frame("select name from raw.imported_file")["name"].to_list()

    assert len(set(names)) == 2
    assert all(name.startswith("small") for name in names)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda f: f.drop("optype"), "lacks optype"),
        (lambda f: f.clear(), "holds no operation"),
        (lambda f: f.with_columns(duration=-pl.col("duration")), "negative duration"),
        (lambda f: f.with_columns(start_ts=float("nan")), "a time that is no number"),
        (lambda f: f.with_columns(rank=pl.lit("seven")), "conversion"),
        (lambda f: f.with_columns(step=pl.lit(None)), "without one of its values"),
        (lambda f: pl.concat([f, f.head(1)]), "2 rows that repeat an operation"),
        (lambda f: f.with_columns(rank=0, seq_id=pl.int_range(pl.len())), "two places"),
    ],
    ids=[
        "no column",
        "no row",
        "negative",
        "not a number",
        "text",
        "null",
        "twice",
        "moved",
    ],
)
def test_a_file_that_is_no_trace_is_refused_and_nothing_is_lost(
    tmp_path: Path, trace: Path, change: Change, reason: str
) -> None:
    wrong = tmp_path / "wrong.parquet"
    change(SMALL.frame()).write_parquet(wrong)

    with Case.create(None) as case:
        import_files(case, importer(OPS), [trace])
        before = rows(case)
        with pytest.raises(EvidenceError, match=reason) as caught:
            import_files(case, importer(OPS), [Trace(steps=1).write(trace), wrong])

        assert rows(case) == before
    assert str(wrong) in str(caught.value)


@pytest.mark.parametrize("size", [0, 3, 400, -1])
def test_a_torn_file_is_refused(trace: Path, size: int) -> None:
    trace.write_bytes(trace.read_bytes()[:size])

    with Case.create(None) as case, pytest.raises(EvidenceError, match="not a Parquet"):
        import_files(case, importer(OPS), [trace])


def test_a_refused_file_makes_no_case(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = tmp_path / "wrong.parquet"
    wrong.write_bytes(b"PAR1 and nothing else")
    target = tmp_path / "case.duckdb"

    code = main(["import", str(target), OPS, str(wrong)])

    assert code == 3
    assert "coldtrace: error: " in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [wrong]


def test_a_file_that_is_not_there_is_a_fault_of_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["import", str(tmp_path / "c"), OPS, str(tmp_path / "no")])

    assert code == 2
    assert "is not a file" in capsys.readouterr().err


def test_a_trace_without_roles_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "flat.parquet"
    SMALL.frame().drop("stage").write_parquet(path)

    with Case.create(None) as case:
        import_files(case, importer(OPS), [path])
        stages = case.frame("select distinct stage from raw.imported_operation")

    assert stages["stage"].to_list() == [None]


def test_bundles_and_files_live_in_one_case(tmp_path: Path, trace: Path) -> None:
    with Case.create(None) as case:
        load_bundles(case, two_hosts().write(tmp_path), build=False)
        import_files(case, importer(OPS), [trace])

        assert rows(case) == [SMALL.frame().height, 1]
        assert case.frame("select count(*) from raw.bundle").item() == 2


def test_every_kind_is_an_importer_of_its_own_name() -> None:
    for kind in MODULES:
        assert kind == importer(kind).KIND
        assert importer(kind).HELP


def test_every_case_has_the_tables_of_every_kind() -> None:
    with Case.create(None) as case:
        assert all(case.has_table("raw", table) for table in IMPORT_TABLES)
