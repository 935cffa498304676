"""Chromium for tests: one that calls nobody, and a note of all that a page does."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

CHROMIUM = shutil.which("chromium")
SILENT = (
    "--no-sandbox",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)
MODES: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}},
    "print": {"color_scheme": "dark"},
}

needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="there is no chromium here"
)


@dataclass(slots=True)
class Opened:
    """A page in the browser, what it asked for and what it complained of."""

    page: Page
    requests: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Give the body a browser that resolves no name."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 -- slow

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=list(SILENT)
        )
        yield browser
        browser.close()


@contextmanager
def opened(browser: Browser, path: Path, *, mode: str = "light") -> Iterator[Opened]:
    """Open a file in a mode; its own address is no request."""
    context = browser.new_context(**MODES[mode])
    page = context.new_page()
    seen = Opened(page=page)
    address = path.as_uri()
    page.on(
        "request",
        lambda each: (
            None
            if each.url == address or each.url.startswith("data:")
            else seen.requests.append(each.url)
        ),
    )
    page.on("websocket", lambda each: seen.requests.append(each.url))
    page.on("console", lambda each: seen.messages.append(each.text))
    page.on("pageerror", lambda each: seen.messages.append(str(each)))
    if mode == "print":
        page.emulate_media(media="print")
    page.goto(address)
    yield seen
    context.close()
