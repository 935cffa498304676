"""The claim: load and verify keep to streams and exit codes, and never leave half."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.workbench.loading import two_hosts
from workbench.commands.load import LoadBar, load_into, narrate_problems
from workbench.store.case import open_case
from workbench.store.problems import LoadProblem

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return what runs the command line, with views that take no time."""
    monkeypatch.setattr("workbench.store.load.build_library", lambda *_: None)
    from workbench.cli import main  # noqa: PLC0415 - after the patch

    def call(*words: object) -> tuple[int, str, str]:
        code = main([str(word) for word in words])
        out, err = capsys.readouterr()
        return code, out, err

    return call


def test_load_writes_a_case_and_says_so_in_a_line(tmp_path: Path, run: Run) -> None:
    paths = two_hosts().write(tmp_path)
    target = tmp_path / "case.duckdb"

    code, out, err = run("load", target, *paths)

    assert (code, out) == (0, "")
    assert err == f"coldtrace: wrote {target}: 2 hosts, 0.00 % events lost\n"
    with open_case(target) as made:
        assert made.frame("select count(*) from raw.bundle").item() == 2


def test_load_adds_to_a_case(tmp_path: Path, run: Run) -> None:
    first, second = two_hosts().write(tmp_path)
    target = tmp_path / "case.duckdb"

    run("load", target, first)
    code, _, err = run("load", target, second)

    assert code == 0
    assert "2 hosts" in err


def test_hosts_without_a_common_clock_are_counted(tmp_path: Path, run: Run) -> None:
    paths = two_hosts().write(tmp_path)
    target = tmp_path / "case.duckdb"
    run("load", target, *paths)
    with open_case(target, read_only=False) as made:
        made.connection.execute(
            "create schema model; create table model.clock as"
            " select host_id, host_id as clock_group_id from raw.bundle"
        )

    _, _, err = run("load", target, paths[0])

    assert "2 hosts, 1 unaligned, 0.00 % events lost" in err


def test_a_folder_is_loaded(tmp_path: Path, run: Run) -> None:
    two_hosts().write(tmp_path)

    code, _, err = run("load", tmp_path / "case.duckdb", tmp_path)

    assert code == 0
    assert "2 hosts" in err


def test_a_folder_without_bundles_is_a_usage_error(tmp_path: Path, run: Run) -> None:
    code, _, err = run("load", tmp_path / "case.duckdb", tmp_path)

    assert code == 2
    assert f"no *.bundle file in {tmp_path}" in err


def test_nothing_readable_leaves_no_case(tmp_path: Path, run: Run) -> None:
    text = tmp_path / "x.bundle"
    text.write_text("hello")

    code, out, err = run("load", tmp_path / "case.duckdb", text)

    assert (code, out) == (3, "")
    assert f"coldtrace: error: {text}: not a ZIP file\n" in err
    assert sorted(each.name for each in tmp_path.iterdir()) == ["x.bundle"]


def test_one_bad_bundle_among_good_ones_is_damage(tmp_path: Path, run: Run) -> None:
    paths = two_hosts().write(tmp_path)
    data = paths[0].read_bytes()
    paths[0].write_bytes(data[:-1])

    code, out, err = run("load", tmp_path / "c.duckdb", *paths, "--format", "json")

    assert code == 4
    rows = json.loads(out)
    assert rows[0]["kind"] == "truncated"
    assert rows[0]["path"] == str(paths[0])
    assert "wrote" in err


def test_a_note_is_no_damage(tmp_path: Path, run: Run) -> None:
    path = two_hosts().write(tmp_path)[0]

    code, _, err = run("load", tmp_path / "c.duckdb", path)

    assert code == 0
    assert "coldtrace: note: no bundle brings rank 1 of the 2 of job job\n" in err


def test_a_failed_load_leaves_no_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("workbench.store.load.build_library", fail)
    folder = tmp_path / "bundles"
    folder.mkdir()
    two_hosts().write(folder)

    with pytest.raises(OSError, match="No space left"):
        load_into(tmp_path / "c.duckdb", [folder])

    assert [each.name for each in tmp_path.iterdir()] == ["bundles"]


def test_a_flood_of_one_kind_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    narrate_problems(
        [LoadProblem(kind="truncated", message=f"m{n}", path="x") for n in range(97)]
    )

    err = capsys.readouterr().err.splitlines()
    assert len(err) == 6
    assert err[0] == "coldtrace: error: x: m0"
    assert err[-1] == "coldtrace: note: 92 more of kind truncated"


def test_the_bar_follows_bundles_and_views() -> None:
    with LoadBar() as bar:
        bar("a.bundle", 10, 20)
        bar("a.bundle", 20, 20)
        bar("view host", 0, 0)

        assert bar._label == "view host"


def test_verify_prints_a_row_a_bundle(tmp_path: Path, run: Run) -> None:
    paths = two_hosts().write(tmp_path)

    code, out, err = run("verify", *paths, "--format", "jsonl")

    rows = [json.loads(line) for line in out.splitlines()]
    assert (code, err) == (0, "")
    assert [(row["state"], row["host_name"]) for row in rows] == [
        ("sound", "a"),
        ("sound", "b"),
    ]
    assert rows[0]["row_count"] == 2
    assert len(rows[0]["content_sha256"]) == 64


def test_verify_names_damage(tmp_path: Path, run: Run) -> None:
    first, second = two_hosts().write(tmp_path)
    first.write_bytes(first.read_bytes()[:-1])

    code, out, err = run("verify", first, second, "--format", "jsonl")

    assert code == 4
    assert json.loads(out.splitlines()[0])["state"] == "damaged"
    assert err.startswith(f"coldtrace: error: {first}: truncated: ")


def test_verify_of_what_is_no_bundle_is_unreadable(tmp_path: Path, run: Run) -> None:
    text = tmp_path / "x.bundle"
    text.write_text("hello")

    code, out, err = run("verify", text, "--format", "csv")

    assert code == 3
    assert out.splitlines()[1].split(",")[1] == "refused"
    assert err == f"coldtrace: error: {text}: not a ZIP file\n"
