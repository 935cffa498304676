"""``coldtrace export`` overwrites nothing, leaves no half, and says what is wrong."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from workbench import cli
from workbench.commands.exit_code import ExitCode
from workbench.exporters import tables

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture(scope="module")
def path(sample_case: Callable[[str], Path]) -> Path:
    """Return a case of hosta and hostb, recorded for 12.626 s."""
    return sample_case("late-rank")


def _run(path: Path, *words: str) -> int:
    return cli.main(["export", str(path), *words])


@pytest.mark.parametrize(
    ("words", "error", "hint"),
    [
        (
            ["--host", "\x1b[m"],
            r"no host is called \x1b[m",
            "this case has hosta, hostb",
        ),
        (["--rank", "8"], "no rank 8", "this case has 0, 1, 2, 3, 4, 5, 6, 7"),
        (["--from", "1", "--to", "1"], "the window from 1 s to 1 s is empty", None),
        (["--from", "12.63"], "no event in the window 12.63 s", "to 12.626 s"),
        (["--to", "-1"], "no event in the window -1 s", "from 0 s to 12.626 s"),
        (["--table", "nothing"], "no view is called nothing", "coldtrace views"),
    ],
)
def test_what_cannot_be_selected_is_said_and_nothing_is_written(  # noqa: PLR0917
    path: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    error: str,
    hint: str | None,
) -> None:
    assert _run(path, "csv", "-o", str(tmp_path / "out"), *words) == ExitCode.USAGE

    said = capsys.readouterr().err
    assert error in said
    assert hint is None or hint in said
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_is_written_anew_only_by_force(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["csv", "-o", str(tmp_path / "out"), "--table", "host"]
    assert _run(path, *words) == 0
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "letter").write_text("dear")

    assert _run(path, *words) == ExitCode.USAGE
    assert "--force" in capsys.readouterr().err
    assert _run(path, *words, "--force") == 0
    refused = ["csv", "-o", str(mine), "--table", "host", "--force"]
    assert _run(path, *refused) == ExitCode.USAGE
    assert (mine / "letter").read_text() == "dear"
    assert {each.name for each in tmp_path.iterdir()} == {"mine", "out"}


def test_an_export_that_fails_leaves_nothing(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tables, "row_count", full)

    assert _run(path, "csv", "-o", str(tmp_path / "out")) == ExitCode.UNREADABLE
    assert list(tmp_path.iterdir()) == []


def test_without_the_schema_a_trace_is_refused_with_the_way_to_get_it(
    path: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "perfetto.protos.perfetto.trace", None)

    assert _run(path, "perfetto", "-o", str(tmp_path / "t")) == ExitCode.UNREADABLE
    assert "coldtrace[perfetto]" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_table_cannot_be_asked_of_a_trace(path: Path, tmp_path: Path) -> None:
    words = ["perfetto", "-o", str(tmp_path / "t"), "--table", "host"]
    assert _run(path, *words) == ExitCode.USAGE
