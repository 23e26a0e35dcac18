"""A shell without a kernel, in which a module's `SETUP` has run, and what runs a cell in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

Run = Callable[..., tuple[Any, list[dict[str, str]], str]]


@pytest.fixture(scope="module")
def shell(request: pytest.FixtureRequest) -> Iterator[InteractiveShell]:
    shell = InteractiveShell.instance(config=Config({"HistoryManager": {"enabled": False}}))
    shell.run_line_magic("load_ext", "lab")
    shell.run_cell(request.module.SETUP, store_history=True).raise_error()
    yield shell
    shell.run_line_magic("unload_ext", "lab")
    InteractiveShell.clear_instance()


@pytest.fixture
def run(shell: InteractiveShell) -> Run:
    def run(text: str) -> tuple[Any, list[dict[str, str]], str]:
        """The result of a cell, the bundles it displayed, and what it printed."""
        with capture_output() as captured:
            result = shell.run_cell(text, store_history=True)
        return result, [output.data for output in captured.outputs], captured.stdout + captured.stderr

    return run


@pytest.fixture(autouse=True)
def in_a_small_process_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever other tests of this process have left: trials ask for both."""
    monkeypatch.setattr("core.cuda.is_initialized", lambda: False)
    monkeypatch.setattr("lab.prove.snapshot.EASY_BYTES", 1 << 50)
