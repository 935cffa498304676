"""The three forms of a report hold the same words; the Markdown of a sample is golden.

The golden text is read in review: it is what somebody gets who reads no page.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from workbench import cli
from workbench.commands.exit_code import ExitCode
from workbench.commands.output import strict_json
from workbench.report import data, markdown, page
from workbench.report.content import Facts, Numbers, Table
from workbench.report.recorded import bound
from workbench.store.case import open_case
from workbench.store.own_views import open_library

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from workbench.report.content import Report

GOLDEN = Path(__file__).parent / "golden" / "report_late_rank.md"


@pytest.fixture(scope="module")
def path(sample_case: Callable[[str], Path]) -> Path:
    return sample_case("late-rank")


@pytest.fixture(scope="module")
def report(sample_report: Callable[[str], Report]) -> Report:
    return sample_report("late-rank")


def _words(report: Report) -> Iterator[str]:
    yield from (report.kind, report.title, report.subtitle, report.queries_note)
    for section in report.sections:
        yield section.title
        for block in section.blocks:
            yield getattr(block, "title", None) or ""
            yield from (getattr(block, name, "") for name in ("text", "how_to_read"))
            if isinstance(block, Numbers):
                yield from (one.value + "\n" + one.meaning for one in block.numbers)
            elif isinstance(block, Facts):
                for label, lines in block.facts:
                    yield from (label, *lines)
            elif isinstance(block, Table):
                yield from (
                    *block.columns,
                    *(cell for row in block.rows for cell in row),
                )
    yield from (query.sql for query in report.queries)


def test_the_markdown_of_a_sample_is_as_reviewed(report: Report) -> None:
    text, _, queries = markdown.render(report).partition("\n## Queries\n")

    assert re.sub(r" \(Q\d+(, Q\d+)*\)", "", text) == GOLDEN.read_text(encoding="utf-8")
    assert queries.count("```sql") == len(report.queries)


def test_every_word_of_a_report_is_in_all_three_forms(
    report: Report,
) -> None:
    forms = {
        "html": page.render(report),
        "md": markdown.render(report),
        "json": strict_json(data.render(report)),
    }
    plain = {
        "html": _unescaped(forms["html"]),
        "md": _unescaped(re.sub(r"\\(.)", r"\1", forms["md"])),
        "json": "\n".join(_texts(json.loads(forms["json"]))),
    }

    words = [line for text in _words(report) for line in text.split("\n") if line]
    assert len(words) > 200
    for fmt, text in plain.items():
        missing = [line for line in words if line.replace("\\", "") not in text]
        assert missing == [], fmt


def _unescaped(text: str) -> str:
    for entity, char in (("lt", "<"), ("gt", ">"), ("#39", "'"), ("#34", '"')):
        text = text.replace(f"&{entity};", char)
    return text.replace("&amp;", "&").replace("\\", "")


def _texts(value: Any) -> Iterator[str]:  # noqa: ANN401 -- any JSON
    if isinstance(value, str):
        yield value.replace("\\", "")
    elif isinstance(value, (list, dict)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts(each)


def test_every_query_of_a_report_runs_as_it_is_printed(
    path: Path, report: Report
) -> None:
    assert len(report.queries) > 15
    with open_case(path) as case:
        open_library(case)
        for query in report.queries:
            case.connection.sql(query.sql).fetchall()


def test_every_figure_and_every_finding_cites_its_queries(report: Report) -> None:
    known = {query.number for query in report.queries}

    for figure in report.figures:
        assert figure.queries
        assert set(figure.queries) <= known
    (verdict,) = [each for each in report.sections if each.name == "verdict"]
    assert all(
        set(block.queries) <= known and block.queries
        for block in verdict.blocks
        if isinstance(block, (Facts, Numbers))
    )


def test_the_hash_of_every_bundle_is_told(path: Path, report: Report) -> None:
    (section,) = [each for each in report.sections if each.name == "bundles"]
    told = {
        lines[0]
        for block in section.blocks
        if isinstance(block, Facts)
        for label, lines in block.facts
        if label == "hash"
    }

    with open_case(path) as case:
        hashes = case.frame("select content_sha256 from raw.bundle")["content_sha256"]
    assert told == set(hashes)
    assert len(told) == 2


@pytest.mark.parametrize(
    ("sql", "params", "text"),
    [
        ("select $a", {"a": "it's"}, "select 'it''s'"),
        ("select $a, $ab", {"a": 1, "ab": None}, "select 1, null"),
        ("select ?, ?", [True, [1, "x"]], "select true, [1, 'x']"),
        ("  select 1\n\n    + 1\n", None, "select 1\n  + 1"),
    ],
)
def test_a_query_is_told_with_its_values_in_place(
    sql: str, params: object, text: str
) -> None:
    assert bound(sql, params) == text


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("a <b> & c", "a &lt;b&gt; &amp; c"),
        ("step_budget _x_ *y*", r"step_budget \_x\_ \*y\*"),
        ("`code` [link](to)", r"\`code\` \[link\](to)"),
        ("a | b\x1b", r"a \| b\\x1b"),
    ],
)
def test_markup_is_text_in_markdown(words: str, text: str) -> None:
    assert markdown.text(words) == text


def test_a_report_is_written_once_and_not_over_another(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["report", str(path), "--format", "md", "-o", str(tmp_path / "r.md")]

    assert cli.main(words) == 0
    assert "wrote" in capsys.readouterr().err
    assert cli.main(words) == ExitCode.USAGE
    assert [each.name for each in tmp_path.iterdir()] == ["r.md"]
    assert cli.main([*words, "--force", "--interactive"]) == ExitCode.USAGE
