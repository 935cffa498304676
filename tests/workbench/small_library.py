"""A view library of a few lines, for tests of the library itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb

from workbench.store.finding_schema import FILE_COLUMNS
from workbench.store.own_views import read_view
from workbench.store.views import Library

if TYPE_CHECKING:
    from pathlib import Path

    from workbench.store.models import ModelSpec

RAW = """
create schema raw;
create table raw.bundle (content_sha256 varchar);
create table raw.off_cpu (host_id integer, duration_ns bigint);
create table raw.collective (host_id integer, start_ns bigint);
create table raw.coverage (
    host_id integer, stream varchar, state varchar, reason varchar
);
create table raw.subject (subject_id varchar, host_id integer, rank integer);
create table raw.said (
    subject_id varchar, host_id integer, verdict varchar, window_from_ns bigint
);
create table raw.gap (subject_id varchar, host_id integer, reason varchar);
"""


def connection() -> duckdb.DuckDBPyConnection:
    """Return an empty database with the raw tables of these tests."""
    opened = duckdb.connect()
    opened.execute(RAW)
    return opened


def view_text(
    select: str, columns: str, *, purpose: str = "One row.", **fields: str
) -> str:
    """Return the text of a view file; `columns` is `name TYPE unit; name TYPE`."""
    lines = [f"-- {purpose}", "--"]
    fields.setdefault("grain", columns.split(maxsplit=1)[0])
    lines += [f"-- {name}: {value}" for name, value in fields.items()]
    lines += ["--", "-- columns:"]
    for column in columns.split(";"):
        name, kind, *unit = column.split()
        lines.append(f"--   {name}  {kind}  {unit[0] if unit else ''}  something")
    return "\n".join(lines) + f"\n\n{select}\n"


def write(folder: Path, layer: str, name: str, text: str) -> None:
    """Write one file of a library."""
    (folder / layer).mkdir(parents=True, exist_ok=True)
    (folder / layer / f"{name}.sql").write_text(text, encoding="utf-8")


def write_chain(folder: Path) -> None:
    """Write three views that stand on each other, the middle one kept."""
    write(
        folder,
        "staging",
        "stg_off_cpu",
        view_text(
            "select host_id, duration_ns from raw.off_cpu",
            "host_id INTEGER; duration_ns BIGINT ns",
            reads="raw.off_cpu",
        ),
    )
    write(
        folder,
        "measure",
        "host_wait",
        view_text(
            "select host_id, sum(duration_ns)::bigint as wait_ns\n"
            "from stg_off_cpu group by host_id",
            "host_id INTEGER; wait_ns BIGINT ns",
            reads="stg_off_cpu",
            materialize="yes",
        ),
    )
    write(
        folder,
        "measure",
        "longest_wait",
        view_text(
            "select max(wait_ns) as wait_ns from host_wait",
            "wait_ns BIGINT ns",
            reads="host_wait",
        ),
    )


def write_judged(folder: Path, *, gap: bool = True) -> None:
    """Write a finding with two required streams, a used one and a gap."""
    for name, columns in {
        "coverage": "host_id INTEGER; stream VARCHAR; state VARCHAR; reason VARCHAR",
        "said": "subject_id VARCHAR; host_id INTEGER; verdict VARCHAR; "
        "window_from_ns BIGINT ns",
        "gap": "subject_id VARCHAR; host_id INTEGER; reason VARCHAR",
        "subject": "subject_id VARCHAR; host_id INTEGER; rank INTEGER",
    }.items():
        names = ", ".join(part.split()[0] for part in columns.split(";"))
        text = view_text(
            f"from raw.{name} select {names}", columns, reads=f"raw.{name}"
        )
        write(folder, "staging", f"stg_{name}", text)
    write(
        folder,
        "entity",
        "coverage",
        view_text(
            "select host_id, stream, state, reason from stg_coverage",
            "host_id INTEGER; stream VARCHAR; state VARCHAR; reason VARCHAR",
            reads="stg_coverage",
        ),
    )
    write(
        folder,
        "entity",
        "subject",
        view_text(
            "select 'rank' as subject_kind, subject_id, host_id, rank from stg_subject",
            "subject_kind VARCHAR; subject_id VARCHAR; host_id INTEGER; rank INTEGER",
            reads="stg_subject",
        ),
    )
    write(
        folder,
        "measure",
        "unseen",
        view_text(
            "select 'rank' as subject_kind, subject_id, host_id, 0 as rank,\n"
            "'gpu_kernel' as stream, reason from stg_gap",
            "subject_kind VARCHAR; subject_id VARCHAR; host_id INTEGER; rank INTEGER; "
            "stream VARCHAR; reason VARCHAR",
            reads="stg_gap",
        ),
    )
    write(folder, "finding", "finding_late", finding_text(gap=gap))


def finding_text(*, gap: bool) -> str:
    """Return a finding file that repeats the rows of stg_said."""
    given = {
        "verdict": "verdict",
        "subject_kind": "'rank'",
        "subject_id": "subject_id",
        "host_id": "host_id",
        "window_from_ns": "window_from_ns",
        "magnitude_ns": "1000::bigint",
        "confidence": "'high'",
        "not_checked": "['the disk']",
        "next_step": "'look'",
    }
    columns = ",\n    ".join(
        f"{given.get(each.name, f'null::{each.type}')} as {each.name}"
        for each in FILE_COLUMNS
    )
    lines = [
        "-- Rank that is late.",
        "--",
        "-- grain: subject_id, window_from_ns",
        "-- reads: stg_said",
        "-- requires: collective, off_cpu",
        "-- uses: gpu_call",
        "-- subject: rank",
        *(["-- gap: unseen"] if gap else []),
        "-- columns: finding",
    ]
    return "\n".join(lines) + f"\n\nselect\n    {columns}\nfrom stg_said\n"


def library(
    opened: duckdb.DuckDBPyConnection,
    folder: Path,
    *specs: ModelSpec,
    own: Path | None = None,
) -> Library:
    """Return the library of a folder with the given models and no others.

    Views of the user's own join it as they are, untried.
    """
    made = Library(opened, folder, specs={spec.name: spec for spec in specs})
    if own is None:
        return made
    paths = sorted(own.rglob("*.sql"))
    return made.extended(read_view(opened, path, own) for path in paths)
