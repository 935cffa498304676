"""The page opens in a browser in every mode, asks nobody, and runs nothing foreign.

It is opened in headless Chromium inside the suite's trip-wire.  Every figure is there
without a script; a name from a bundle is text, whatever it holds.
"""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

import pytest

from tests.workbench.browser import MODES, chromium, needs_chromium, opened
from tests.workbench.made_jobs import job_of, work_of
from workbench.commands.load import load_into
from workbench.commands.report import form
from workbench.report.page import render

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

    from workbench.report.content import Report

pytestmark = [needs_chromium, pytest.mark.slow]

SAMPLES = (
    pytest.param("always-late", marks=pytest.mark.long),
    "healthy",
    "late-rank",
)
MOST_BYTES = 2_000_000
EVIL = "</script><img src=x onerror=window.pwned=1>\x1b[31m\u202e"

FIGURES = """
    [...document.querySelectorAll("figure .plot")].map(plot => {
        const drawn = plot.querySelector("svg, img");
        const box = drawn.getBoundingClientRect();
        const isWhole = drawn.tagName !== "IMG" || drawn.naturalWidth > 0;
        return isWhole && box.width > 300 && box.height > 50;
    })
"""
WIDTHS = "[document.documentElement.scrollWidth, window.innerWidth]"
GROUND = "getComputedStyle(document.body).backgroundColor"
INK = "getComputedStyle(document.querySelector('.plot svg text')).fill"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as made:
        yield made


@pytest.fixture(scope="module")
def page_of(
    sample_report: Callable[[str], Report], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Path]:
    """Return a function that gives the report of a sample as a file, made once."""
    folder = tmp_path_factory.mktemp("pages")

    def made(name: str) -> Path:
        page = folder / f"{name}.html"
        if not page.exists():
            page.write_text(render(sample_report(name)), encoding="utf-8")
        return page

    return made


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", SAMPLES)
def test_the_report_of_a_sample_opens_without_a_request_or_a_complaint(
    browser: Browser, page_of: Callable[[str], Path], name: str, mode: str
) -> None:
    with opened(browser, page_of(name), mode=mode) as seen:
        figures = seen.page.evaluate(FIGURES)
        content, window = seen.page.evaluate(WIDTHS)

    assert seen.requests == []
    assert seen.messages == []
    assert len(figures) >= 5
    assert all(figures)
    assert content <= window, "the page is wider than its window"


@pytest.mark.parametrize("name", SAMPLES)
def test_a_page_is_small_and_holds_no_script(
    page_of: Callable[[str], Path], name: str
) -> None:
    text = page_of(name).read_text(encoding="utf-8")
    assert len(text.encode()) < MOST_BYTES
    assert "<script" not in text
    policy = html.unescape(text.partition('Policy" content="')[2].partition('"')[0])
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; ")
    assert "img-src data:; script-src 'none'" in policy


def test_ground_and_ink_follow_the_reader_and_paper_is_white(
    browser: Browser, page_of: Callable[[str], Path]
) -> None:
    looks: dict[str, tuple[str, str]] = {}
    for mode in ("light", "dark", "print"):
        with opened(browser, page_of("late-rank"), mode=mode) as seen:
            looks[mode] = seen.page.evaluate(f"[{GROUND}, {INK}]")

    assert looks["light"] == ["rgb(255, 255, 255)", "rgb(0, 0, 0)"]
    assert looks["print"] == looks["light"]
    assert looks["dark"] == ["rgb(18, 18, 18)", "rgb(255, 255, 255)"]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a case whose host, thread, job and file carry markup."""
    folder = tmp_path_factory.mktemp("hostile")
    work = work_of(4, 30)
    work[::3, 2] += 50_000_000
    options = {"job_id": EVIL, "manifest": {"host_name": EVIL}}
    clocks: dict[str, Any] = {"a": options, "b": {"job_id": EVIL}}
    made = job_of(work, hosts={"a": [0, 1], "b": [2, 3]}, clocks=clocks)
    for host in made.hosts.values():
        host.facts["thread"] = [
            row | {"thread_name": EVIL} for row in host.facts["thread"]
        ]
    for number, path in enumerate(made.write(folder)):
        path.rename(folder / f"<img src=x onerror=window.pwned={number}>.bundle")
    case_path = folder / "case.duckdb"
    load_into(case_path, [folder])
    return case_path


@pytest.mark.parametrize("interactive", [False, True])
def test_markup_in_names_of_hosts_threads_jobs_and_files_stays_text(
    browser: Browser, hostile: Path, *, interactive: bool
) -> None:
    page = hostile.with_suffix(".html")
    page.write_text(form(hostile, "html", interactive=interactive), encoding="utf-8")

    with opened(browser, page) as seen:
        if interactive:
            _wait_until_every_figure_is_live(seen.page)
        pwned = seen.page.evaluate("window.pwned")
        images = seen.page.evaluate("document.querySelectorAll('img[src=x]').length")
        text = seen.page.evaluate("document.body.innerText")

    assert seen.requests == []
    assert seen.messages == []
    assert pwned is None
    assert images == 0
    assert "</script><img src=x onerror=window.pwned=1>\\x1b[31m\\u202e" in text
    assert "<img src=x onerror=window.pwned=0>.bundle" in text
    assert "\x1b" not in text
    assert "\u202e" not in text


def _wait_until_every_figure_is_live(page: Page) -> None:
    count = page.evaluate("document.querySelectorAll('.plot').length")
    assert count >= 5
    live = "document.querySelectorAll('.plot .vega-embed svg').length"
    page.wait_for_function(f"{live} === {count}")
