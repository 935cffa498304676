"""``coldtrace compare`` fails on a slower run, names the part, and says its doubts."""

from __future__ import annotations

import html
import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from tests.workbench.made_jobs import job_of, work_of
from workbench import cli
from workbench.analysis.comparison.sides import read_run
from workbench.commands import compare
from workbench.errors import CaseError
from workbench.store.case import Case
from workbench.store.views import build_library

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from workbench.analysis.comparison.outcome import Comparison

HOSTS = {"hosta": [0, 1], "hostb": [2, 3]}
STEPS = 60
CLASSES = (None, "class")


def saved(folder: Path, name: str, work: NDArray[np.int64]) -> Path:
    """Return the case of a job that does this work, under a clock source of its own."""
    place = folder / name
    place.mkdir()
    made = job_of(work, hosts=HOSTS, seed=len(name))
    setting = {"scope": "host", "pid": None, "key": "clock_source", "source": "/sys"}
    for host in HOSTS:
        value = "hpet" if name == "slower" else "tsc"
        made.host(host).fact("config", value=value, **setting)
    made.build(place).close()
    return place / "case.duckdb"


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return a base, and a run that is 5 % slower on hostb."""
    folder = tmp_path_factory.mktemp("compare")
    slower = work_of(4, STEPS, seed=3)
    slower[:, HOSTS["hostb"]] = slower[:, HOSTS["hostb"]] * 21 // 20
    works = {
        "base": work_of(4, STEPS, seed=1),
        "slower": slower,
    }
    return {name: saved(folder, name, work) for name, work in works.items()}


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    """Return the exit code and what was printed."""
    code = cli.main(["compare", *map(str, words)])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_a_run_passes_the_gate_against_itself(
    cases: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, cases["base"], cases["base"])

    assert code == 0
    assert out.startswith("the gate holds: no difference ")
    assert "set up differently" not in out
    assert max(map(len, out.splitlines())) <= 80 or str(cases["base"]) in out


def test_five_percent_more_work_on_one_host_fails_it_and_is_named(
    cases: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, cases["base"], cases["slower"])

    assert code == 1
    text = " ".join(out.split())
    assert text.startswith(f"the gate fails: a step of {cases['slower']} takes ")
    named = text.partition("what differs ")[2].partition(" all ranks")[0]
    assert named.startswith("on_cpu +")
    assert " on hostb; waiting for others +" in named
    assert "hosta" not in named
    assert "clock clock_source base tsc case hpet" in text


def test_rows_say_the_same_for_a_pipeline(
    cases: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    words = cases["base"], cases["slower"], "--format", "json"
    code, out, err = run(capsys, *words)

    rows = {(row["host"], row["kind"], row["part"]): row for row in json.loads(out)}
    step = rows[None, "time", "step"]
    assert code == 1
    assert "the gate fails" in err
    assert step["verdict"] == "slower"
    assert step["change_ratio"] == pytest.approx(0.05, abs=0.01)
    assert step["base_step_count"] == step["case_step_count"] == STEPS - 1
    assert step["holm_p_value"] >= step["p_value"]
    assert rows["hostb", "time", "own"]["verdict"] == "slower"
    assert rows["hosta", "time", "own"]["verdict"] == "same"
    assert rows[None, "operation_wait", "all_reduce"]["verdict"] != "faster"
    # the classes of the budget are all of the step, so their changes add up to its own
    of_all = [row for (host, kind, _), row in rows.items() if (host, kind) == CLASSES]
    changes = sum(row["change_ns"] for row in of_all)
    assert changes == pytest.approx(step["change_ns"], rel=1e-6)


def test_the_threshold_is_what_the_user_says(
    cases: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    words = cases["base"], cases["slower"], "--threshold"

    assert run(capsys, *words, "10")[0] == 0
    assert run(capsys, *words, "-1")[0] == 2


def test_groups_of_hosts_are_compared_by_their_own_time(
    cases: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    words = cases["slower"], "--group", "hostb", "--against", "hosta"
    code, out, _ = run(capsys, *words)

    assert code == 1
    assert out.startswith("the gate fails: own time of hostb takes ")
    words = cases["base"], "--group", "hostb", "--against", "hosta"
    assert run(capsys, *words)[0] == 0


def test_three_cases_a_side_make_runs_the_unit(
    cases: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    base = [cases["base"].parent, cases["base"], cases["base"]]
    code, out, _ = run(capsys, "--base", *base, "--case", *[cases["slower"]] * 3)

    assert code == 1
    assert "the means of 3 and 3 runs" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["{base}"], "two cases are compared, not 1"),
        (["{base}", "--group", "hosta"], "both groups of hosts are needed"),
        (
            ["{base}", "--group", "hosta", "--against", "hosta"],
            "hosta is in both groups",
        ),
        (
            ["{base}", "--group", "hostx", "--against", "hosta"],
            "no host hostx with steps of the job",
        ),
        (["--base", "{base}"], "both sides are needed"),
        (["{base}", "{base}", "--case", "{base}"], "both sides are needed"),
    ],
)
def test_what_cannot_be_compared_is_a_usage_error(
    cases: dict[str, Path],
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    message: str,
) -> None:
    code, _, err = run(capsys, *(word.format(**cases) for word in words))

    assert code == 2
    assert message in err


def test_a_case_without_steps_is_no_all_clear() -> None:
    with Case.create(None) as empty:
        build_library(empty)
        with pytest.raises(CaseError, match="shows no steps"):
            read_run(empty)


def test_too_few_steps_fail_only_a_strict_gate() -> None:
    undecided = cast("Comparison", SimpleNamespace(gate="not_decidable"))

    assert compare._code(undecided, is_strict=False) == 0
    assert compare._code(undecided, is_strict=True) == 1


def test_the_report_holds_the_verdict_the_parts_and_the_settings(
    cases: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "compare.html"
    words = (cases["base"], cases["slower"], "--report", page)

    assert run(capsys, *words)[0] == 1
    text = html.unescape(page.read_text(encoding="utf-8"))
    assert "The gate fails: a step of " in text
    for shown in ("clock_source", "hpet", "tsc", "All ranks, by what they did", "<svg"):
        assert shown in text
    assert text.count('<li id="q') >= 3
    assert run(capsys, *words)[0] == 2
    assert run(capsys, *words, "--force")[0] == 1
