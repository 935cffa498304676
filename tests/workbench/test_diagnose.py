"""What ``coldtrace diagnose`` and ``demo`` say, where the case goes, how they end."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import workbench.analysis  # noqa: F401 -- registers the models, which the views read
from tests.sql.jobs import MS, Job, every_14th
from workbench.cli import main
from workbench.commands import demo
from workbench.commands.exit_code import ExitCode
from workbench.store import verdict as schema

if TYPE_CHECKING:
    from collections.abc import Callable

    Say = Callable[..., tuple[int, str, str]]

GOLDEN = Path(__file__).with_name("golden") / "verdict_late_rank.txt"
CLOCK_NUMBER = re.compile(
    r"[+-]\d+\.\d+ \+-\d+\.\d+(?= ppm)"
    r"|(?<=offset )-\d+\.\d+(?= ms)|(?<=\+-)\d+\.\d+"
    r"|(?<=error )\d+\.\d+|(?<=by )\d+\.\d+(?= ms, error)"
)
"""Figures of the clock model, which has tests of its own."""

RANK_FINDINGS = ("straggler", "run_queue", "blocked")
WIDTH = 80
HOSTILE = "b\x1b[31m<script>\u202e"


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Say:
    """Return a function that runs the command and returns code, stdout and stderr."""

    def run(*words: str | Path) -> tuple[int, str, str]:
        code = main([str(word) for word in words])
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return run


@pytest.fixture(scope="module")
def late(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of bundles in which rank 5 is late."""
    folder = tmp_path_factory.mktemp("late")
    Job(late=every_14th, steps=59).blocking().write(folder)
    return folder


def test_verdict_names_rank_size_period_and_who_waits(late: Path, say: Say) -> None:
    code, out, err = say("diagnose", late)

    text = CLOCK_NUMBER.sub("N", out.replace(str(late), "FOLDER"))
    assert code == ExitCode.OK
    assert text == GOLDEN.read_text(encoding="utf-8")
    assert "case.duckdb" in err


def test_lines_fit_the_page_but_for_the_command(late: Path, say: Say) -> None:
    _, out, _ = say("diagnose", late)

    long = [line for line in out.splitlines() if len(line) > WIDTH]
    assert all("coldtrace query" in line or '"from ' in line for line in long)


def test_printed_command_shows_rows(late: Path, say: Say) -> None:
    _, out, _ = say("diagnose", late)
    at = next(n for n, line in enumerate(out.splitlines()) if "coldtrace query" in line)
    sql = out.splitlines()[at + 1].strip().strip('"')

    code, rows, _ = say("query", late / "case.duckdb", sql, "--format", "jsonl")

    assert code == ExitCode.OK
    assert len(rows.splitlines()) >= 3


def test_case_that_holds_these_bundles_is_used_again(late: Path, say: Say) -> None:
    say("diagnose", late)
    before = (late / "case.duckdb").stat().st_mtime_ns

    _, _, err = say("diagnose", *sorted(late.glob("*.bundle")))

    assert "using" in err
    assert (late / "case.duckdb").stat().st_mtime_ns == before


def test_other_bundles_get_a_case_of_their_own(late: Path, say: Say) -> None:
    say("diagnose", late)

    _, out, err = say("diagnose", late / "hosta.bundle")

    made = [path.name for path in late.glob("case-*.duckdb")]
    assert len(made) == 1
    assert made[0] in err
    assert "4 of 8 ranks are in no bundle: 4, 5, 6, 7" in out


def test_json_has_the_schema_and_its_origin_once(late: Path, say: Say) -> None:
    _, out, _ = say("diagnose", late, "--format", "json")

    answer = json.loads(out)
    first = answer["rows"][0]
    assert list(first) == [column.name for column in schema.COLUMNS]
    assert answer["origin_ns"].isdigit()
    assert (first["finding"], first["verdict"]) == ("finding_straggler", "found")
    assert 0 <= first["window_from_ns"] < first["window_to_ns"] < 60_000 * MS
    ranked = [row["finding"] for row in answer["rows"] if row["rank"] is not None]
    assert all(ranked.count(f"finding_{name}") == 8 for name in RANK_FINDINGS)


def test_gate_fails_only_when_something_is_found(
    late: Path, tmp_path: Path, say: Say
) -> None:
    Job(steps=20, ranks=4).blocking().write(tmp_path)

    found, _, _ = say("diagnose", late, "--fail-on", "found")
    clear, out, _ = say("diagnose", tmp_path, "--fail-on", "found")

    assert (found, clear) == (ExitCode.GATE_FAILED, ExitCode.OK)
    assert out.startswith("no rank held the job up\n")


def test_slow_gpu_is_said_to_be_unseen(tmp_path: Path, say: Say) -> None:
    job = Job(steps=20, ranks=4)
    job.enqueue_only(gpu_ns=lambda rank, _: (50 if rank else 10) * MS).write(tmp_path)

    _, out, _ = say("diagnose", tmp_path)

    assert out.startswith("whether a rank held the job up cannot be seen")
    assert "GPU-side arrival is not recorded by this capture" in out
    assert "4 not observed" in out


def test_damage_and_names_from_bundles_do_no_harm(tmp_path: Path, say: Say) -> None:
    hosts = ("a", HOSTILE)
    job = Job(steps=8, ranks=4, hosts=hosts, late=lambda rank, _: 50 * MS * (rank == 3))
    made = job.blocking()
    for number, host in enumerate(made.hosts.values()):
        folder = tmp_path / str(number)
        folder.mkdir()
        host.name, shown = f"h{number}", host.name
        host.changes["host_name"] = shown
        host.write(folder)
    (tmp_path / "cut.bundle").write_bytes(b"PK\x03\x04")

    code, out, err = say("diagnose", tmp_path, tmp_path / "0", tmp_path / "1")

    assert code == ExitCode.DAMAGED
    assert "cut.bundle" in err
    assert "b\\x1b[31m<script>\\u202e" in out
    assert "\x1b" not in out + err


@pytest.mark.parametrize("words", [["nowhere"], ["."]])
def test_nothing_to_load_is_a_usage_error(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, say: Say
) -> None:
    monkeypatch.chdir(tmp_path)

    code, out, err = say("diagnose", *words)

    assert (code, out) == (ExitCode.USAGE, "")
    assert err.startswith("coldtrace: error: ")


def test_case_goes_here_where_the_folder_is_read_only(
    late: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, say: Say
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "access", lambda path, _mode: Path(path) != late)

    say("diagnose", late)

    assert (tmp_path / "case.duckdb").is_file()


def test_demo_is_safe_to_repeat(
    late: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, say: Say
) -> None:
    monkeypatch.setattr(demo, "sample_folder", lambda: late)
    folder = tmp_path / "demo"

    first = say("demo", "-o", folder)
    second = say("demo", "-o", folder)

    assert first[0] == second[0] == ExitCode.OK
    assert first[1] == second[1]
    assert first[1].startswith("rank 5 on hostb held the job up by 290 ms at each 14th")


def test_demo_leaves_a_folder_of_others_alone(tmp_path: Path, say: Say) -> None:
    (tmp_path / "precious").touch()

    code, _, err = say("demo", "-o", tmp_path)

    assert code == ExitCode.USAGE
    assert "not the demo's own" in err
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]
