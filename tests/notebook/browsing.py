"""JupyterLab as ``coldtrace notebook`` starts it, and a watched tab that shows it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from typing import TYPE_CHECKING

from workbench.commands.notebook import lab_command

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser

CHROMIUM = shutil.which("chromium")
# Chromium's own calls home are not ours: without the rule it asks for three names.
BROWSER_ARGS = [
    "--no-sandbox",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]
IDLE = """name => {
    const shown = window.jupyterapp.shell.currentWidget;
    return shown?.context?.path === name
        && shown.sessionContext?.session?.kernel?.status === 'idle';
}"""


OPEN = """path => window.jupyterapp.commands
    .execute('docmanager:open', {path}).then(() => null)"""
CLOSE = "window.jupyterapp.commands.execute('application:close-all')"
SAVED = "() => !window.jupyterapp.shell.currentWidget.model.dirty"
READY = "() => window.jupyterapp?.commands.hasCommand('docmanager:open')"


class Tab:
    """JupyterLab in a tab, with every address outside its server that it asked for."""

    def __init__(self, browser: Browser, url: str, root: Path) -> None:
        self.url = url
        self.root = root
        # JupyterLab draws the cells in sight: all of them are.
        self.page = browser.new_page(viewport={"width": 1280, "height": 9_000})
        self.foreign: list[str] = []
        self.errors: list[str] = []
        self._own = (url, url.replace("http", "ws"), "data:", "blob:")
        self.page.on("request", lambda request: self._see(request.url))
        self.page.on("websocket", lambda websocket: self._see(websocket.url))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))

    def _see(self, url: str) -> None:
        if not url.startswith(self._own):
            self.foreign.append(url)

    def start(self) -> None:
        """Load JupyterLab and wait until it has laid itself out: that hides a tab."""
        self.page.goto(f"{self.url}/lab?reset")
        self.page.wait_for_function(READY, timeout=120_000)
        self.page.evaluate("window.jupyterapp.restored.then(() => null)")

    def open(self, name: str) -> None:
        """Open a notebook of the served folder and wait for its kernel."""
        self.page.evaluate(OPEN, name)
        self.page.wait_for_function(IDLE, arg=name, timeout=120_000)

    def command(self, name: str) -> None:
        """Run a command of JupyterLab, without waiting for its end."""
        self.page.evaluate(f"void window.jupyterapp.commands.execute({name!r})")

    def run(self, *, until: str, count: int = 1) -> None:
        """Run all cells and wait until so many elements of the page are there."""
        self.command("notebook:run-all-cells")
        self.page.wait_for_function(
            "([what, count]) => document.querySelectorAll(what).length >= count",
            arg=[until, count],
            timeout=120_000,
        )

    def close(self) -> None:
        """Save the notebook, close it, and forget what was asked for."""
        if self.page.evaluate("!!window.jupyterapp.shell.currentWidget?.context"):
            self.command("docmanager:save")
            self.page.wait_for_function(SAVED, timeout=60_000)
            self.page.evaluate(CLOSE)
        self.foreign.clear()
        self.errors.clear()


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """Run the distribution's Chromium."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - not everywhere

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=BROWSER_ARGS
        )
        yield browser
        browser.close()


@contextlib.contextmanager
def jupyterlab(folder: Path, home: Path) -> Iterator[str]:
    """Serve a folder, with all that Jupyter keeps in `home`; yield the address."""
    home.mkdir(exist_ok=True)
    names = ("CONFIG", "DATA", "RUNTIME")
    settings = {f"JUPYTER_{name}_DIR": str(home / name.lower()) for name in names}
    settings |= {
        "IPYTHONDIR": str(home / "ipython"),
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
        "COLDTRACE_VIEWS": str(home / "views"),
    }
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    options = [
        f"--port={port}",
        "--ServerApp.port_retries=0",
        # Tests only: no token, and commands instead of clicks.
        "--IdentityProvider.token=",
        "--LabApp.expose_app_in_browser=True",
    ]
    command = lab_command(folder, options, is_browser=False)
    log = home / "server.log"
    with log.open("w") as out:
        server = subprocess.Popen(
            command,
            env=os.environ | settings,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    url = f"http://127.0.0.1:{port}"
    try:
        _wait_for(url, server, log)
        yield url
    finally:
        _stop(server)


def _wait_for(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"{url}/api", timeout=5).close()  # noqa: S310
            return
        assert server.poll() is None, log.read_text()
        time.sleep(0.1)
    message = f"JupyterLab did not come up: {log.read_text()}"
    raise TimeoutError(message)


def _stop(server: subprocess.Popen[bytes]) -> None:
    """End the server and its kernels, politely first."""
    server.terminate()
    try:
        server.wait(10)
    except subprocess.TimeoutExpired:
        # Its own group: server and kernels, nothing else.
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()
