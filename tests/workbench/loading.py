"""What the tests of loading share: two small hosts, and all rows of a case."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.builders import case
from tests.bundle_writer import read_zip, with_sums, write_zip
from workbench.store.case import Case
from workbench.store.load import LoadReport, load_bundles
from workbench.store.raw_schema import table_columns

if TYPE_CHECKING:
    from pathlib import Path

    from tests.builders import CaseBuilder


def load(*paths: Path) -> tuple[Case, LoadReport]:
    """Return an in-memory case with these bundles loaded in one go."""
    made = Case.create(None)
    return made, load_bundles(made, paths, build=False)


def kinds(report: LoadReport) -> list[str]:
    return sorted(problem.kind for problem in report.problems)


def all_rows(made: Case) -> dict[str, list[tuple[Any, ...]]]:
    """Return every raw table but paths, sorted: what loading is meant to give."""
    tables: dict[str, list[tuple[Any, ...]]] = {}
    for table in table_columns():
        hidden = " exclude (path)" if table in ("bundle", "load_problem") else ""
        if table == "load_problem":
            hidden = " exclude (path, message)"
        rows = made.frame(f"select *{hidden} from raw.{table}").rows()
        tables[table] = sorted(rows, key=repr)
    return tables


def two_hosts() -> CaseBuilder:
    builder = case()
    first = builder.host("a")
    first.rank(0).collective(start_ns=1_000, duration_ns=500)
    first.rank(0).off_cpu(start_ns=200, duration_ns=300, syscall="read")
    second = builder.host("b", offset_ns=7_000_000)
    second.rank(1).collective(start_ns=1_100, duration_ns=400).gpu_call(start_ns=9)
    return builder


def rewritten(path: Path, **changes: object) -> Path:
    """Write a bundle again with keys of its manifest's capture or host changed."""
    members = read_zip(path)
    manifest = json.loads(members["manifest.json"])
    for key, value in changes.items():
        holder = manifest["capture"] if key in manifest["capture"] else manifest["host"]
        holder[key] = value
    members["manifest.json"] = json.dumps(manifest).encode()
    return write_zip(path, with_sums(members))
