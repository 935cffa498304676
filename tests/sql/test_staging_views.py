"""A staging view is its raw table: every row and decoded names, nothing left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.builders import case as build_case
from tests.sql.standing import stand
from workbench.store.views import library_folder

if TYPE_CHECKING:
    from workbench.store.case import Case

VIEWS = sorted(
    path.stem
    for path in (library_folder() / "staging").glob("*.sql")
    # What was imported or chosen comes in no bundle; it has tests of its own.
    if not path.stem.startswith(("stg_imported_", "stg_step_marker"))
)
RAW = {
    "stg_host": "fact_host",
    "stg_process": "fact_process",
    "stg_thread": "fact_thread",
    "stg_library": "fact_library",
    "stg_rank": "fact_rank",
    "stg_communicator": "fact_communicator",
    "stg_probe": "fact_probe",
    "stg_loss": "fact_loss",
    "stg_budget_step": "fact_budget_step",
    "stg_config": "fact_config",
    "stg_mapping": "fact_mapping",
}
RENAMED = {"call_depth": "depth", "setting": "key", "setting_value": "value"}
NUMBERED = {"problem_number"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """Return a case with a row or more in every staging view."""
    host = build_case().host("hosta")
    library = {"library_ref": 1, "device": 8, "inode": 9, "build_id": None}
    library |= {"sha256": None, "path": "/usr/lib/libmpi.so", "kind": "mpi"}
    host.fact("library", **library)
    lost = {"stream": "off_cpu", "probe_id": None, "cpu": 1, "reason": "ring_full"}
    host.fact("loss", **lost, lost_count=1, first_ns=40, last_ns=40)
    host.fact("config", scope="process", pid=7, key="nice", value="0", source="/proc")
    mapping = {"pid": 7, "library_ref": 1, "start_address": "1000"}
    host.fact("mapping", **mapping, end_address="2000", file_offset=0, seen_ns=50)
    step = {"time_ns": 60, "step": "off_cpu_totals", "stream": "off_cpu"}
    host.fact("budget_step", **step, effect="", share_ppm=30_000, budget_ppm=20_000)
    host.rank(3).collective(start_ns=1_000, duration_ns=500, peer_rank=2)
    host.rank(3).gpu_call("memcpy", start_ns=100, duration_ns=50, copy_kind=1)
    host.rank(3).off_cpu(start_ns=300, duration_ns=100, syscall="read")
    host.rank(3).off_cpu(start_ns=450, is_totals_only=True, skipped_ns=7)
    folder = tmp_path_factory.mktemp("staging")
    return stand(host.case, folder, *VIEWS)


@pytest.mark.parametrize("view", VIEWS)
def test_staging_view_gives_every_row_of_its_raw_table(made: Case, view: str) -> None:
    raw = RAW.get(view, view.removeprefix("stg_"))
    names = [n for n in made.frame(f"from {view} limit 0").columns if n not in NUMBERED]
    asked = ", ".join(f'"{RENAMED.get(name, name)}" as "{name}"' for name in names)

    staged = made.frame(f"select {', '.join(names)} from {view} order by all")
    recorded = made.frame(f"select {asked} from raw.{raw} order by all")

    assert staged.rows() == recorded.rows()
    assert view == "stg_load_problem" or staged.height > 0


def test_names_are_decoded(made: Case) -> None:
    calls = made.frame("select operation, peer_rank, duration_ns from stg_collective")
    gpu = made.frame("select operation, copy_kind, call_depth from stg_gpu_call")
    away = made.frame(
        "select off_state, syscall, is_totals_only, skipped_ns from stg_off_cpu"
        " order by start_ns"
    )

    assert calls.rows() == [("all_reduce", 2, 500)]
    assert gpu.rows() == [("memcpy", 1, 0)]
    assert away.rows() == [("sleep", "read", False, 0), ("sleep", None, True, 7)]
