"""Views of one's own: what holds is loaded, what does not is named, ours stay ours."""

from __future__ import annotations

import shutil
import zipfile
from typing import TYPE_CHECKING

import pytest

from tests.builders import case
from tests.workbench.small_library import view_text, write
from workbench import cli, open_case
from workbench.errors import ViewError, ViewHeaderError
from workbench.store.case import Case
from workbench.store.own_views import admit
from workbench.store.view_archive import export_views, import_views
from workbench.store.views import build_library, library_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from workbench.store.views import Library

RANKS = view_text(
    "select job_id, rank from rank",
    "job_id VARCHAR; rank INTEGER",
    grain="job_id, rank",
    reads="rank",
)


LETTERS = "abcdefg"


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of the user's own views, empty."""
    folder = tmp_path / "own"
    monkeypatch.setenv("COLDTRACE_VIEWS", str(folder))
    return folder


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a case with two ranks of one host."""
    folder = tmp_path_factory.mktemp("own")
    rank = case().host("a").rank(0).collective(start_ns=1_000, duration_ns=500)
    rank.rank(1).collective(start_ns=1_200, duration_ns=300).build(folder).close()
    return folder / "case.duckdb"


@pytest.fixture
def opened(path: Path) -> Iterator[Case]:
    """Return that case, open."""
    made = open_case(path)
    yield made
    made.close()


def own_names(opened: Case) -> list[str]:
    """Return the names of the user's own views in an open case."""
    assert opened.library is not None
    return [view.name for view in opened.library.views.values() if view.is_own]


def ten_views(folder: Path) -> dict[str, Path]:
    """Write ten views: seven that hold, and three that do not, each in its way."""
    for name in LETTERS:
        write(folder, "measure", f"ranks_{name}", RANKS)
    broken = RANKS.replace("select job_id, rank from", "select job_id,\n    rnak\nfrom")
    write(folder, "measure", "broken", broken)
    write(folder, "entity", "host", RANKS)
    write(folder, "measure", "wrong", RANKS.replace("rank  INTEGER", "rank  BIGINT"))
    places = {"broken": "measure", "host": "entity", "wrong": "measure"}
    return {name: folder / layer / f"{name}.sql" for name, layer in places.items()}


def test_of_ten_views_eight_are_loaded_and_each_other_is_told_exactly(
    own: Path, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = ten_views(own)

    with open_case(path) as opened:
        loaded = own_names(opened)
        assert opened.frame("select count(*) as n from host_own").item() == 2
        columns = opened.frame("from host").columns

    assert loaded == ["host_own", *(f"ranks_{name}" for name in LETTERS)]
    assert "host_name" in columns  # the library's own answers to its name
    line = 1 + RANKS.splitlines().index("-- columns:")
    binder = 'Binder Error: Referenced column "rnak" not found in FROM clause!'
    lie = "declares rank BIGINT where its select gives rank INTEGER"
    assert caplog.messages == [
        f"left out: {files['broken']}, line {line + 5}: {binder}",
        f"left out: {files['wrong']}, line {line}: {lie}",
        f"{files['host']}: the library has a view host; this one is loaded as host_own",
    ]


def test_the_list_counts_them_and_the_check_fails_on_them(
    own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = ten_views(own)

    assert cli.main(["views", "--check"]) == 1
    err = capsys.readouterr().err
    assert f"coldtrace: error: {files['broken']}, line " in err
    assert f"coldtrace: error: {files['wrong']}, line " in err
    assert cli.main(["views"]) == 0
    printed = capsys.readouterr()
    assert "coldtrace: 8 views of your own, 2 left out" in printed.err
    assert "host_own " in printed.out
    assert "(your own)" in printed.out


def test_what_reads_a_view_that_is_left_out_is_left_out_too_and_a_circle_is_named(
    own: Path, opened: Case, caplog: pytest.LogCaptureFixture, path: Path
) -> None:
    opened.close()
    write(own, "measure", "broken", RANKS.replace("from rank", "from nowhere"))
    on_it = RANKS.replace("from rank", "from broken").replace(": rank", ": broken")
    write(own, "measure", "above", on_it)
    for name, other in (("one", "two"), ("two", "one")):
        text = RANKS.replace("from rank", f"from {other}")
        write(own, "measure", name, text.replace(": rank", f": {other}"))
    write(own, "measure", "good", RANKS)
    write(own, "nonsense", "lost", RANKS)

    with open_case(path) as again:
        assert again.frame("from good").height == 2
        assert own_names(again) == ["good"]

    said = "\n".join(caplog.messages)
    assert f"left out: {own / 'measure/above.sql'}: reads broken, which is" in said
    assert f"{own / 'measure/one.sql'}: views read each other in a circle: " in said
    assert f"{own / 'nonsense/lost.sql'}: must lie in the folder of a layer" in said


def test_a_sites_folder_comes_before_ones_own_and_must_be_there(
    own: Path, path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = tmp_path / "site"
    write(site, "measure", "shared", RANKS)
    write(own, "measure", "shared", RANKS.replace("from rank", "from rank limit 0"))
    words = ["query", str(path), "select count(*) as n from shared", "--format", "csv"]

    assert cli.main([*words, "--library", str(site)]) == 0
    assert capsys.readouterr().out == "n\n2\n"
    assert cli.main([*words, "--library", str(tmp_path / "none")]) == 3
    assert "none: no such folder of views" in capsys.readouterr().err


def test_a_query_is_saved_as_a_view_with_a_header_that_holds(
    own: Path, opened: Case, path: Path
) -> None:
    before = path.read_bytes()
    written = opened.save_view(
        "calls_of_a_rank",
        "select rank, job_id, step, wait_ns, 2 * wait_ns as twice_ns from step_work;",
        "Waiting of each rank. Twice, to be sure.",
    )

    assert written == own / "measure" / "calls_of_a_rank.sql"
    text = written.read_text()
    assert text.startswith("-- Waiting of each rank.\n--\n-- Twice, to be sure.\n")
    assert "-- grain: job_id, rank, step\n-- reads: step_work\n" in text
    assert "wait_ns   BIGINT     ns     waiting for others" in text
    assert "twice_ns  BIGINT     ns     as the query gives it" in text
    assert opened.frame("from calls_of_a_rank").columns[-1] == "twice_ns"
    assert path.read_bytes() == before
    with open_case(path) as again:
        assert again.frame("from calls_of_a_rank").width == 5


def test_what_reads_findings_is_saved_as_an_answer(own: Path, opened: Case) -> None:
    sql = "select finding, count(*) as n from finding group by finding"

    assert opened.save_view("verdicts", sql, "Verdicts of each finding.").parent == (
        own / "answer"
    )
    assert opened.frame("from verdicts").height > 0


BREACHES = [
    ("host", "select rank from rank", "host: the library has a view of that name"),
    ("My view", "select rank from rank", "My view: is no name of a view"),
    ("mine", "select rank", 'Referenced column "rank" was not found'),
    ("mine", "select count(*) from rank", r"column 'count_star\(\)' is no name"),
    ("mine", "select now() - now() as x from rank", "x has type INTERVAL"),
    ("mine", "select pid from raw.off_cpu", "only staging reads raw tables"),
    ("mine", "drop table x", "not a select"),
]


def test_a_query_that_breaks_a_rule_is_not_saved(own: Path, opened: Case) -> None:
    for name, sql, message in BREACHES:
        with pytest.raises(ViewError, match=message):
            opened.save_view(name, sql, "Something.")

    assert not own.exists()
    assert opened.frame("select count(*) as n from host").item() == 1


def test_a_saved_view_is_replaced_only_if_told_and_stays_if_that_fails(
    opened: Case,
) -> None:
    opened.save_view("mine", "select rank from rank", "Ranks.")

    with pytest.raises(ViewError, match=r"mine\.sql is there"):
        opened.save_view("mine", "select rank + 1 as next from rank", "More.")
    with pytest.raises(ViewHeaderError):
        opened.save_view("mine", "select 1.5 as x", "Worse.", replace=True)
    assert opened.frame("from mine").columns == ["rank"]
    opened.save_view("mine", "select rank + 1 as next from rank", "M.", replace=True)
    assert opened.frame("from mine").columns == ["next"]


@pytest.fixture(scope="module")
def ours() -> Iterator[Library]:
    """Return the library on an empty case."""
    with Case.create(None) as made:
        yield build_library(made)


def test_a_finding_of_ones_own_joins_the_verdicts_and_a_wrong_one_does_not(
    own: Path, ours: Library
) -> None:
    text = (library_folder() / "finding" / "finding_blocked.sql").read_text()
    subject = next(line for line in text.splitlines() if line.startswith("-- subject:"))
    write(own, "finding", "finding_mine", text)
    write(
        own,
        "finding",
        "finding_lost",
        text.replace(subject, f"{subject}\n-- gap: host"),
    )
    (own / "finding" / "finding_bytes.sql").write_bytes(b"-- \xff\n")

    admission = admit(ours, [own])

    assert [view.name for view in admission.views] == ["finding_mine"]
    made = admission.library.views["finding"].body
    assert "'finding_mine'" in made
    assert "'finding_lost'" not in made
    assert ours.connection.execute("from finding").fetchall() == []
    said = {fault.view: fault.message for fault in admission.faults}
    assert said[str(own / "finding" / "finding_bytes.sql")] == "is not UTF-8 text"
    lost = said[str(own / "finding" / "finding_lost.sql")]
    assert lost.startswith("its gap must be a view with the columns ")


@pytest.mark.parametrize("target", ["handed", "handed.zip"])
def test_a_library_travels_as_plain_files(
    own: Path, tmp_path: Path, target: str, ours: Library
) -> None:
    ten_views(own)
    place = tmp_path / target
    names = export_views(admit(ours, [own]).views, place, replace=False)

    assert names == [
        "entity/host_own.sql",
        *(f"measure/ranks_{n}.sql" for n in LETTERS),
    ]
    if place.suffix:
        assert zipfile.ZipFile(place).namelist() == names
    with pytest.raises(ViewError, match="is there"):
        export_views(admit(ours, [own]).views, place, replace=False)
    shutil.rmtree(own)
    assert len(import_views(ours, place, own, replace=False).written) == 8
    assert import_views(ours, place, own, replace=False).faults == ()  # the same
    changed = own / "measure" / "ranks_a.sql"
    changed.write_text(RANKS.replace("One", "Another"))
    refused = import_views(ours, place, own, replace=False)
    assert [str(fault) for fault in refused.faults] == [f"{changed}: is there"]
    import_views(ours, place, own, replace=True)
    assert changed.read_text() == RANKS


def test_export_and_import_say_what_they_wrote(
    own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "handed.zip"
    assert cli.main(["views", "export", str(place)]) == 2
    assert "there are no views of your own" in capsys.readouterr().err
    write(own, "measure", "ranks_a", RANKS)

    assert cli.main(["views", "export", str(place)]) == 0
    assert f"wrote 1 views to {place}" in capsys.readouterr().err
    assert cli.main(["views", "import", str(place)]) == 0
    assert f"wrote 1 views to {own}" in capsys.readouterr().err


def test_an_import_takes_nothing_but_views_that_hold(
    own: Path, tmp_path: Path, ours: Library
) -> None:
    hostile = tmp_path / "hostile.zip"
    with zipfile.ZipFile(hostile, "w") as archive:
        archive.writestr("../../escaped.sql", RANKS)
        archive.writestr("measure/good.sql", RANKS)
        archive.writestr("measure/bad.sql", RANKS.replace("from rank", "from nowhere"))
        archive.writestr("measure/large.sql", "-" * (1 << 20) + "--")
        archive.writestr("readme.txt", "hello")

    imported = import_views(ours, hostile, own, replace=False)

    assert [path.name for path in tmp_path.rglob("*.sql")] == ["good.sql"]
    assert imported.written == (own / "measure" / "good.sql",)
    said = "\n".join(map(str, imported.faults))
    assert f"{hostile}/measure/bad.sql, line " in said
    assert "escaped.sql: is no file <layer>/<name>.sql of at most 1 MiB" in said
    assert "large.sql: is no file" in said
    assert "readme.txt: is no file" in said
    with pytest.raises(ViewError, match="neither a folder nor a ZIP"):
        import_views(ours, imported.written[0], own, replace=False)
