"""Every notebook runs on every sample, and its answer is what was planted.

Also: on a case of its own with a hostile thread name; the sources are text without
outputs whose first code cell is the only input; a written notebook is never replaced;
the pages to read say what the sources say.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import nbformat
import polars as pl
import pytest

from tests.notebook.running import outputs, run_notebooks
from tests.workbench.made_jobs import MILLISECOND, job_of, work_of
from workbench import cli
from workbench.ui.writing import INPUT, notebook_of, sources

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NAMES = tuple(source.stem for source in sources())
SAMPLES = ("late-rank", "always-late", "healthy")
HOSTILE = "<script><b>\x1b[31m\u202e"

LOADING = """
from workbench import load_case
case = load_case({case!r}, [{bundles!r}])
answer = case.frame("select count(*) as host_count from host")
case.close()
"""
"""Long loads show their progress in a notebook, too."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """All notebooks, run on every sample and on a case of their own, in one kernel."""

    answers: dict[str, pl.DataFrame]
    """By sample and notebook: ``late-rank/clocks``."""

    loading: nbformat.NotebookNode
    """What the kernel showed while it loaded the case of its own."""


def on_case(label: str, case: Path) -> dict[str, nbformat.NotebookNode]:
    return {f"{label}/{path.stem}": notebook_of(path, str(case)) for path in sources()}


@pytest.fixture(scope="module")
def run(
    request: pytest.FixtureRequest,
    sample_case: Callable[[str], Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Run:
    """Run everything once: a kernel and its imports take longer than a notebook."""
    folder = tmp_path_factory.mktemp("own")
    write_hostile_job(folder)
    case = folder / "case.duckdb"
    source = LOADING.format(case=str(case), bundles=str(folder))
    loading = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    notebooks = {"own/loading": loading, **on_case("own", case)}
    for name in asked_samples(request.session):
        notebooks |= on_case(name, sample_case(name))
    views = {"COLDTRACE_VIEWS": str(folder / "views")}
    return Run(answers=run_notebooks(notebooks, folder, views), loading=loading)


def asked_samples(session: pytest.Session) -> list[str]:
    """Return the samples that a selected test looks at: each costs seconds."""
    asked = {
        item.callspec.params.get("sample")
        for item in session.items
        if isinstance(item, pytest.Function) and hasattr(item, "callspec")
    }
    return [name for name in SAMPLES if name in asked]


def write_hostile_job(folder: Path) -> None:
    """Write bundles in which rank 1 is late and a host and a thread have bad names."""
    work = work_of(3, 30)
    work[:, 1] += 30 * MILLISECOND
    made = job_of(work, hosts={"a": [0, 1], HOSTILE: [2]})
    rank = made.host("a").rank(1)
    other = made.host("a").thread(rank.tid + 1, pid=rank.pid, name=HOSTILE)
    other.off_cpu(start_ns=10**9 + 5 * MILLISECOND, duration_ns=20 * MILLISECOND)
    made.write(folder)


def planted(truth: dict[str, Any]) -> list[dict[str, Any]]:
    rows = truth.get("finding", [])
    return [row for row in rows if row["finding"] == "finding_straggler"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "sample",
    [
        pytest.param(name, marks=[] if name == "late-rank" else pytest.mark.long)
        for name in SAMPLES
    ],
)
def test_answers_on_a_sample_are_what_was_planted(
    sample: str, run: Run, root: Path
) -> None:
    truth = tomllib.loads((root / "samples" / sample / "expected.toml").read_text())
    found = {name: run.answers[f"{sample}/{name}"] for name in NAMES}

    _check_orientation(found["orientation"], truth)
    _check_clocks(found["clocks"], truth)
    for name in ("who_is_late", "why_is_it_late"):
        rows = found[name].to_dicts()
        assert len(rows) == len(planted(truth))
        for row, label in zip(rows, planted(truth), strict=True):
            _check_late(row, label)
    late_hosts = {row["host_name"] for row in planted(truth)}
    excess = found["own_view"].filter(pl.col("largest_excess_ns") > 10**9)
    assert set(excess["host_name"]) == late_hosts


def _check_orientation(rows: pl.DataFrame, truth: dict[str, Any]) -> None:
    hosts = {host["host_name"] for host in truth["clock"]["host"]}
    assert set(rows["host_name"]) == hosts
    assert set(rows["rank_count"]) == {4}
    # The first call of a loop opens its first step, so one fewer is seen.
    assert set(rows["step_count"]) == {truth["step_count"] - 1}


def _check_clocks(rows: pl.DataFrame, truth: dict[str, Any]) -> None:
    by_host = {host["host_name"]: host for host in truth["clock"]["host"]}
    assert set(rows["host_name"]) == set(by_host)
    for row in rows.iter_rows(named=True):
        label = by_host[row["host_name"]]
        ahead = label["offset_ns"] + label["rate"] * (row["at_ns"] - label["about_ns"])
        assert abs(row["offset_ns"] + ahead) <= row["error_ns"]


def _check_late(row: dict[str, Any], label: dict[str, Any]) -> None:
    for key in ("rank", "host_name", "cause", "period_steps", "affected_step_count"):
        if key in label and key in row:
            assert row[key] == label[key]
    off = abs(row["magnitude_ns"] - label["magnitude_ns"])
    assert off <= label["magnitude_ns_tolerance"]


@pytest.mark.slow
def test_every_notebook_runs_on_a_case_of_its_own_with_hostile_names(run: Run) -> None:
    assert run.answers["own/who_is_late"]["rank"].to_list() == [1]
    hosts = set(run.answers["own/orientation"]["host_name"])
    assert hosts == {"a", HOSTILE}


@pytest.mark.slow
def test_a_load_in_a_notebook_shows_its_progress(run: Run) -> None:
    bars = [
        output["data"]["text/plain"]
        for output in outputs(run.loading)
        if "application/vnd.jupyter.widget-view+json" in output.get("data", {})
    ]

    assert any(bar.startswith("a.bundle:") for bar in bars)


@pytest.mark.parametrize("name", NAMES)
def test_a_source_has_no_outputs_and_one_input_and_ends_with_the_answer(
    name: str,
) -> None:
    (source,) = (path for path in sources() if path.stem == name)
    notebook = notebook_of(source, "mine.duckdb")
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]

    assert notebook.cells[0].cell_type == "markdown"
    assert notebook.cells[0].source.startswith("# ")
    assert outputs(notebook) == []
    assert source.read_text().count(INPUT) == 1
    assert "case = open_case('mine.duckdb')" in code[0]
    assert not any("open_case" in cell for cell in code[1:])
    assert code[-1].endswith("\nanswer")
    assert "import" not in "".join(code[1:])
    assert max(len(cell.splitlines()) for cell in code) <= 16


def test_notebooks_are_written_beside_the_case_and_never_over_a_file(
    sample_case: Callable[[str], Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    case = tmp_path / "mine.duckdb"
    case.hardlink_to(sample_case("healthy"))
    folder = tmp_path / "mine-notebooks"
    folder.mkdir()
    (folder / "clocks.ipynb").write_text("my own work")

    code = cli.main(["notebook", str(case), "--write-only"])

    assert code == 0
    assert {path.stem for path in folder.iterdir()} == set(NAMES)
    assert (folder / "clocks.ipynb").read_text() == "my own work"
    assert "../mine.duckdb" in (folder / "orientation.ipynb").read_text()
    out, err = capsys.readouterr()
    assert out == ""
    assert f"wrote {len(NAMES) - 1} notebooks" in err
    assert "1 left as they were" in err


def test_without_the_extra_the_command_says_what_to_install(
    sample_case: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("workbench.commands.notebook.find_spec", lambda _name: None)

    code = cli.main(["notebook", str(sample_case("healthy")), "--write-only"])

    _, err = capsys.readouterr()
    assert code == 2
    assert "jupyterlab, jupytext, ipywidgets, not installed here" in err
    assert 'pip install "coldtrace[notebook]"' in err


def test_the_workbench_is_imported_where_there_is_no_jupyter() -> None:
    hidden = ("IPython", "anywidget", "ipywidgets", "jupyterlab", "jupytext")
    program = f"""
import sys
for name in {hidden!r}:
    sys.modules[name] = None
import workbench
from workbench import cli, open_case
from workbench.charts import registry, renderer
assert cli.main(["notebook", "--help"]) == 0
assert cli.main(["demo", "--help"]) == 0
"""

    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_only_who_draws_imports_altair() -> None:
    commands = [name for name in cli.available() if name != "report"]
    program = f"""
import sys
from importlib import import_module
from workbench import cli
for name in {commands!r}:
    import_module(cli.module_of(name))
print(sorted({{"altair", "vl_convert", "IPython", "jupytext"}} & set(sys.modules)))
"""

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", NAMES)
def test_the_page_to_read_says_what_the_source_says(name: str, root: Path) -> None:
    page = (root / "notebooks" / f"{name}.md").read_text()
    (source,) = (path for path in sources() if path.stem == name)
    cells = notebook_of(source, "case.duckdb").cells

    at = 0
    for cell in cells:
        text = cell.source.strip()
        found = page.find(text, at)
        assert found >= 0, f"not on the page, or not in order: {text}"
        at = found + len(text)
    pictures = re.findall(r"!\[[^]]*\]\((img/[^)]+)\)", page)
    charts = sum(".draw(" in cell.source for cell in cells)
    assert len(pictures) == charts
    for picture in pictures:
        assert (root / "notebooks" / picture).stat().st_size < 150_000
