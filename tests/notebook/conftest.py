"""One JupyterLab and one Chromium for all browser tests, inside the wire."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.notebook.browsing import CHROMIUM, Tab, chromium, jupyterlab

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser


@pytest.fixture(scope="session")
def browser(wire: object) -> Iterator[Browser]:  # noqa: ARG001 - inside the wire
    """Return the distribution's Chromium."""
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    with chromium() as started:
        yield started


@pytest.fixture(scope="session")
def lab_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that JupyterLab serves."""
    return tmp_path_factory.mktemp("lab")


@pytest.fixture(scope="session")
def lab(
    wire: object,  # noqa: ARG001 - inside the wire
    lab_folder: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[str]:
    """Serve the folder as ``coldtrace notebook`` does, and return the address."""
    with jupyterlab(lab_folder, tmp_path_factory.mktemp("home")) as url:
        yield url


@pytest.fixture(scope="session")
def opened(browser: Browser, lab: str, lab_folder: Path) -> Iterator[Tab]:
    """Return JupyterLab in a tab, which takes longer to load than to use."""
    one = Tab(browser, lab, lab_folder)
    one.start()
    yield one
    one.page.close()


@pytest.fixture
def tab(opened: Tab) -> Iterator[Tab]:
    """Return that tab, with no notebook in it."""
    yield opened
    opened.close()
