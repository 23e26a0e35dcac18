"""A real browser and a real JupyterLab: one Chromium and one server for the session, a fresh page for each test.

The server has configuration, data, runtime and settings folders of its own, asks for no news and no updates, and every
request that would leave this machine is recorded, so that a test can say that there was none.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
IDLE = "() => window.jupyterapp?.shell?.currentWidget?.context?.sessionContext?.session?.kernel?.status === 'idle'"
START_S = 90
KERNEL = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
"""Without it JupyterLab asks for a kernel."""


@pytest.fixture(scope="package")  # not longer: Playwright's event loop would run under the tests that come after
def chromium() -> Iterator[Any]:
    """A headless Chromium of the machine; without one the browser tests fail, they are not skipped."""
    from playwright.sync_api import sync_playwright

    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.fail(
            f"the browser tests need one of {', '.join(NAMES)} on the PATH and found none. "
            "Remedy: apt-get install -y chromium",
            pytrace=False,
        )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, headless=True, args=FLAGS)
        yield browser
        browser.close()


@dataclass
class Watched:
    """A page with what it asked for and what went wrong in it."""

    page: Any
    requests: list[str] = field(default_factory=list)
    """Addresses outside what the test allows."""
    errors: list[str] = field(default_factory=list)


@pytest.fixture
def open_page(chromium: Any) -> Iterator[Callable[..., Watched]]:
    """`open_page(width=1300, allow=...)`: a page of its own; requests that do not begin with `allow` are kept."""
    contexts = []

    def new(width: int = 1300, height: int = 900, allow: tuple[str, ...] = (), **options: Any) -> Watched:
        context = chromium.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        watched = Watched(context.new_page())
        inside = ("data:", "blob:", "about:", *allow)
        context.on("request", lambda r: None if r.url.startswith(inside) else watched.requests.append(r.url))
        watched.page.on("pageerror", lambda error: watched.errors.append(str(error)))
        watched.page.on("console", lambda m: watched.errors.append(m.text) if m.type == "error" else None)
        return watched

    yield new
    for context in contexts:
        context.close()


class Server:
    """JupyterLab and Notebook 7 on a free port with private folders; `root` holds their notebooks."""

    def __init__(self, root: Path, private: Path) -> None:
        self.root = root
        self.log = private / "server.log"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        environment = dict(os.environ, IPYTHONDIR=str(private / "ipython"))
        for kind in ("CONFIG", "DATA", "RUNTIME"):
            environment[f"JUPYTER_{kind}_DIR"] = str(private / kind.lower())
        for kind in ("SETTINGS", "WORKSPACES"):
            environment[f"JUPYTERLAB_{kind}_DIR"] = str(private / kind.lower())
        news = private / "settings" / "@jupyterlab" / "apputils-extension" / "notification.jupyterlab-settings"
        news.parent.mkdir(parents=True)
        news.write_text(json.dumps({"fetchNews": "false", "checkForUpdates": False}))
        options = {
            "ServerApp.port": self.port,
            "ServerApp.ip": "127.0.0.1",
            "ServerApp.root_dir": root,
            "ServerApp.password": "",
            "ServerApp.disable_check_xsrf": True,
            "ServerApp.open_browser": False,
            "IdentityProvider.token": "",
            "LabApp.expose_app_in_browser": True,
            "JupyterNotebookApp.expose_app_in_browser": True,
        }
        command = [sys.executable, "-m", "jupyter", "lab", "--no-browser", "--allow-root"]
        command += [f"--{name}={value}" for name, value in options.items()]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                command, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def wait(self) -> None:
        """Return when the server answers; fail with its log when it does not."""
        end = time.monotonic() + START_S
        while time.monotonic() < end and self.process.poll() is None:
            try:
                with urllib.request.urlopen(self.url + "/api/status", timeout=1) as answer:
                    answer.read()
                return
            except OSError:
                time.sleep(0.1)
        pytest.fail(f"JupyterLab did not answer:\n{self.log.read_text()[-3000:]}", pytrace=False)

    def stop(self) -> None:
        """Stop the server and, by its process group, every kernel it left."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, number)
                self.process.wait(10)
                return
            except subprocess.TimeoutExpired:
                continue
            except ProcessLookupError:
                return


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One JupyterLab for all tests."""
    lab = Server(tmp_path_factory.mktemp("notebooks"), tmp_path_factory.mktemp("jupyter"))
    try:
        lab.wait()
        yield lab
    finally:
        lab.stop()


class Notebook:
    """One open notebook: its cells, and what a person does with them."""

    def __init__(self, watched: Watched, path: Path) -> None:
        self.watched, self.page, self.path = watched, watched.page, path

    def cell(self, index: int) -> Any:
        return self.page.locator(".jp-Notebook .jp-CodeCell").nth(index)

    def output(self, index: int) -> Any:
        return self.cell(index).locator(".jp-OutputArea-output")

    def run(self, index: int) -> None:
        """Click into a cell and run it in place."""
        self.cell(index).locator(".cm-content").click()
        self.page.keyboard.press("Control+Enter")

    def command(self, name: str, **arguments: Any) -> None:
        """Execute a command of JupyterLab and wait for it."""
        call = "([name, arguments]) => window.jupyterapp.commands.execute(name, arguments).then(() => null)"
        self.page.evaluate(call, [name, arguments])

    def theme(self, name: str) -> None:
        """Switch to "JupyterLab Light" or "JupyterLab Dark"."""
        self.command("apputils:change-theme", theme=name)
        self.page.wait_for_function(
            "light => document.body.dataset.jpThemeLight === light", arg="false" if "Dark" in name else "true"
        )

    def save(self) -> dict[str, Any]:
        """Save and return the notebook as it now lies on the disk."""
        self.command("docmanager:save")
        saved: dict[str, Any] = json.loads(self.path.read_text())
        return saved

    def shutdown(self) -> None:
        """End the kernel."""
        self.page.evaluate("() => window.jupyterapp.shell.currentWidget.context.sessionContext.shutdown()")


@pytest.fixture
def notebook(
    server: Server, open_page: Callable[..., Watched], request: pytest.FixtureRequest
) -> Iterator[Callable[..., Notebook]]:
    """`notebook("cell 1", "cell 2")` or `notebook(path=...)`: an open notebook whose kernel is idle.

    `classic=True` opens it in Notebook 7, not in JupyterLab.
    """
    opened: list[Notebook] = []

    def open_notebook(*cells: str, path: Path | None = None, classic: bool = False) -> Notebook:
        import nbformat

        if path is None:
            path = server.root / f"{re.sub(r'[^a-zA-Z0-9]+', '_', request.node.name)}_{len(opened)}.ipynb"
            content = nbformat.v4.new_notebook(
                cells=[nbformat.v4.new_code_cell(cell) for cell in cells],
                metadata=KERNEL,
            )
            nbformat.write(content, path)
        watched = open_page(allow=(server.url,))
        view = "notebooks" if classic else "lab/tree"
        watched.page.goto(f"{server.url}/{view}/{path.relative_to(server.root)}?reset")
        watched.page.wait_for_function(IDLE, timeout=START_S * 1000)
        opened.append(Notebook(watched, path))
        return opened[-1]

    yield open_notebook
    for one in opened:
        if not one.page.is_closed():  # by a test that kills its browser
            one.shutdown()


LIGHT = {
    "--jp-layout-color1": "white",
    "--jp-content-font-color1": "rgba(0, 0, 0, 0.87)",
    "--jp-content-font-color2": "rgba(0, 0, 0, 0.54)",
    "--jp-border-color2": "#e0e0e0",
    "--jp-brand-color1": "#1976d2",
    "--jp-error-color1": "#d32f2f",
}
DARK = {
    "--jp-layout-color1": "#111111",
    "--jp-content-font-color1": "rgba(255, 255, 255, 1)",
    "--jp-content-font-color2": "rgba(255, 255, 255, 0.7)",
    "--jp-border-color2": "#616161",
    "--jp-brand-color1": "#2196f3",
    "--jp-error-color1": "#f44336",
}
NOTEBOOK_KEYS = """
window.stolen = [];
document.addEventListener('keydown', e => window.stolen.push(e.key));
"""


@pytest.fixture
def show(open_page: Callable[..., Watched], tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """`show("mlp", ...)`: the samples' cards on one page that listens for keys as a notebook does."""
    pages: list[Watched] = []

    import widgets

    from ..widgets import samples

    def show(*names: str, theme: dict[str, str] = LIGHT, width: int = 1300, **options: Any) -> Any:
        watched = open_page(width=width, allow=(tmp_path.as_uri(),), **options)
        variables = ";".join(f"{name}:{value}" for name, value in theme.items())
        made = {**samples.ALL, "large": lambda: samples.gpt(40, 100), "empty": widgets.record.Record}
        body = "".join(widgets.html(made[name]()) for name in names)
        file = tmp_path / "card.html"
        file.write_text(
            f'<!doctype html><meta charset="utf-8"><title>card</title><script>{NOTEBOOK_KEYS}</script>'
            f'<body style="background:var(--jp-layout-color1);{variables}">{body}',
            encoding="utf-8",
        )
        watched.page.goto(file.as_uri())
        pages.append(watched)
        return watched.page

    yield show
    for watched in pages:
        assert watched.errors == []
        assert watched.requests == []
