"""From spools to findings: bytes an event, seal, load, all findings cold and again."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import workbench.analysis  # noqa: F401 -- registers the models
from capture.seal import seal
from tests.bench.figures import Figure, timed
from tests.bench.made_job import LATE_RANK, MadeJob
from tests.bench.made_spool import write_spool
from workbench.commands.report import form
from workbench.store.case import Case, open_case
from workbench.store.load import load_bundles
from workbench.store.own_views import open_library
from workbench.store.views import build_library

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SLOWEST = 5
ALL_FINDINGS = "select * from finding"


def measure_case(folder: Path, *, hosts: int, steps: int) -> Iterator[Figure]:
    """Yield the figures of one made job."""
    job = MadeJob(hosts=hosts, steps=steps)
    spools, bundles = folder / "spools", folder / "bundles"
    shutil.rmtree(spools, ignore_errors=True)
    shutil.rmtree(bundles, ignore_errors=True)
    spools.mkdir()
    bundles.mkdir()
    with timed("making spools"):
        events = sum(
            write_spool(job, host, spools / f"host{host}.spool")
            for host in range(hosts)
        )
    with timed("seal") as sealing:
        for spool in sorted(spools.iterdir()):
            seal(spool, bundles)
    size_bytes = sum(path.stat().st_size for path in bundles.iterdir())
    yield Figure(what="the made job", measured=f"{hosts} hosts, {events:,} events")
    yield Figure(
        what="bundle size",
        measured=f"{size_bytes / events:.1f} bytes an event",
        bar="<= 12",
    )
    yield Figure(
        what="seal, read back included",
        measured=f"{events / sealing.seconds / 1e6:.2f} M events/s",
    )
    yield from _measure_store(folder / "case.duckdb", bundles, events)


def _measure_store(path: Path, bundles: Path, events: int) -> Iterator[Figure]:
    path.unlink(missing_ok=True)
    with Case.create(path) as case, timed("load") as loading:
        load_bundles(case, [bundles], build=False)
    yield Figure(
        what="load, bundles to raw tables",
        measured=f"{events / loading.seconds / 1e6:.2f} M events/s",
        bar=">= 3 M events/s",
    )
    with open_case(path, read_only=False) as case, timed("findings, cold") as cold:
        build_library(case)
        rows = case.frame(ALL_FINDINGS)
    accused = rows.filter((rows["verdict"] == "found") & rows["rank"].is_not_null())
    if set(accused["rank"]) - {LATE_RANK}:
        raise SystemExit(f"wrong answer, no figure: {accused}")
    yield Figure(
        what="all findings, cold after load",
        measured=f"{cold.seconds:.1f} s",
        bar="<= 10 s",
    )
    with open_case(path, read_only=False) as case:
        yield from _slowest_views(case)
    with open_case(path) as case:
        open_library(case)
        case.frame(ALL_FINDINGS)
        with timed("findings, again") as again:
            case.frame(ALL_FINDINGS)
    yield Figure(
        what="all findings, again", measured=f"{again.seconds:.2f} s", bar="<= 1 s"
    )
    with timed("report") as reporting:
        page = form(path, "html")
    yield Figure(
        what="report of that case, drawing included",
        measured=f"{reporting.seconds:.1f} s, {len(page) / 1e6:.2f} MB",
        bar="<= 10 s, <= 2 MB",
    )
    yield Figure(
        what="case file",
        measured=f"{path.stat().st_size / events:.1f} bytes an event",
    )


def _slowest_views(case: Case) -> Iterator[Figure]:
    built = case.frame(
        """
        select name, seconds, coalesce(row_count, 0) as row_count from mat.stamp
        where seconds is not null order by seconds desc limit ?
        """,
        [SLOWEST],
    )
    for view, seconds, row_count in built.iter_rows():
        yield Figure(
            what=f"  of it, {view}",
            measured=f"{seconds:.1f} s, {row_count:,} rows",
        )
