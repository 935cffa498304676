"""``coldtrace views`` shows the library, checks it, and begins a view that holds."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from workbench import cli
from workbench.store import materialize
from workbench.store.case import Case
from workbench.store.own_views import admit
from workbench.store.views import LAYERS, Library, library_folder

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of the user's own views, empty."""
    folder = tmp_path / "own"
    monkeypatch.setenv("COLDTRACE_VIEWS", str(folder))
    return folder


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of the library that stands in its place."""
    folder = tmp_path / "sql"
    shutil.copytree(library_folder(), folder)
    monkeypatch.setattr("workbench.store.views.library_folder", lambda: folder)
    return folder


def test_the_views_are_listed_with_what_a_row_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["views"]) == 0
    text = capsys.readouterr().out
    assert cli.main(["views", "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)

    assert max(len(line) for line in text.splitlines()) <= 80
    listed = {row["view"]: row for row in rows}
    assert listed["finding"]["layer"] == "finding"
    assert listed["step_work"]["grain"] == ["job_id", "rank", "step"]
    assert "model.step" in listed["step_work"]["reads"]
    assert all(f"  {name} " in text for name in listed)
    assert not any(name.startswith("_") for name in listed)


def test_a_view_is_shown_with_its_facts_and_its_select(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["views", "coverage"]) == 0

    out = capsys.readouterr().out
    assert out.startswith("file     ")
    assert "\ngrain    host_id, stream\n" in out
    assert "\nselect\n" in out


def test_the_columns_of_a_view_come_as_rows_with_their_units(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["views", "step_work", "--format", "json"]) == 0
    rows = {row["column"]: row for row in json.loads(capsys.readouterr().out)}

    assert rows["own_ns"]["type"] == "BIGINT"
    assert rows["own_ns"]["unit"] == "ns"
    assert rows["rank"]["unit"] is None


def test_an_unknown_view_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["views", "divination"]) == 3
    assert capsys.readouterr().err == ("coldtrace: error: divination: no such view\n")


@pytest.mark.parametrize("layer", LAYERS[1:-1])
def test_a_new_view_holds_every_rule_as_it_is(own: Path, layer: str) -> None:
    assert cli.main(["views", "new", "slow_reader", "--layer", layer]) == 0

    assert (own / layer / "slow_reader.sql").is_file()
    with Case.create(None) as case:
        library = Library(case)
        materialize.build(library, case)
        admission = admit(library, [own])
        assert [view.name for view in admission.views] == ["slow_reader"]
        assert admission.faults == ()
        assert case.connection.execute("from slow_reader").fetchall() == []


def test_a_new_view_replaces_a_file_only_if_told(
    own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = own / "measure" / "mine.sql"
    cli.main(["views", "new", "mine"])
    path.write_text("precious")
    capsys.readouterr()

    assert cli.main(["views", "new", "mine"]) == 2
    assert path.read_text() == "precious"
    assert capsys.readouterr().err == (
        f"coldtrace: error: {path} exists\ncoldtrace: hint: --force replaces it\n"
    )
    assert cli.main(["views", "new", "mine", "--force"]) == 0
    assert path.read_text() != "precious"


@pytest.mark.parametrize("name", ["../mine", "Mine", "my view", ""])
def test_a_name_that_is_no_view_is_refused(own: Path, name: str) -> None:
    assert cli.main(["views", "new", name]) == 2
    assert not own.exists()


def test_check_fails_on_an_old_readme_until_it_is_written(
    copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = copied / "entity" / "coverage.sql"
    text = path.read_text()
    path.write_text(text.replace("-- grain: ", "-- caveat: new\n-- grain: "))
    complaint = "README.md: is not what the headers say"

    assert cli.main(["views", "--check"]) == 1
    assert complaint in capsys.readouterr().err
    cli.main(["views", "--write", "--check"])
    assert complaint not in capsys.readouterr().err


def test_check_names_a_breach_by_view_and_line(
    copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = copied / "entity" / "process.sql"
    lines = path.read_text().splitlines()
    at = next(at for at, line in enumerate(lines) if line.startswith("-- reads:"))
    lines[at] = "-- reads: stg_bundle"
    path.write_text("\n".join(lines) + "\n")

    assert cli.main(["views", "--check"]) == 1
    assert (
        f"coldtrace: error: process, line {at + 1}: reads stg_process without"
        in capsys.readouterr().err
    )
