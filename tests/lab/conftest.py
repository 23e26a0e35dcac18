"""Cells without a notebook, as `lab.pages.cells` runs them: their records, their traces, and what they read."""

from __future__ import annotations

import linecache
import os
import resource
from collections.abc import Callable
from typing import Any

import pytest

from core.base import source
from lab.pages.cells import data, run_cell
from lab.prove.snapshot import missing
from lab.recorder.cell_trace import Trace
from lab.report import build_record
from widgets.record import Record

MOST_MB = 1024  # of the process that makes copies of itself


@pytest.fixture
def trials() -> None:
    """Skip what tries patches where nothing can be tried, and in a process that thousands of tests have made large, of
    which each trial makes a copy: .ci/run has a run of their own for them, in which that is an error."""
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    why = missing() or (
        f"{held} MB would be copied: `pytest tests/lab/prove tests/lab/notebook`" if held > MOST_MB else ""
    )
    if why:
        (pytest.fail if "GRADLAB_REQUIRE_TRIALS" in os.environ else pytest.skip)(why)


@pytest.fixture
def cell() -> Callable[..., Record]:
    """`run_cell`."""
    return run_cell


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Trace]:
    """`run_cell`, but the trace is returned, as the rules of lab.diagnose get it: its facts can be set to values that
    lie at the edge of what a rule speaks of."""

    def run(source: str, space: dict[str, Any] | None = None, **options: bool) -> Trace:
        kept: list[Trace] = []

        def keep(trace: Trace) -> list[Any]:
            kept.append(trace)
            return []

        with monkeypatch.context() as patch:
            patch.setattr(build_record, "diagnose", keep)
            run_cell(source, space, **options)
        return kept[0]

    return run


@pytest.fixture
def space() -> dict[str, Any]:
    """What most cells want: the package, data, and `P(*shape, scale=1)`, a parameter whose start values keep size."""
    return data()


@pytest.fixture
def notebook(space: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run texts as the cells of a notebook, In [1] and so on."""
    names: dict[str, str] = {}
    monkeypatch.setattr(source, "name_of_file", names.get)

    def run(*texts: str) -> dict[str, Any]:
        for text in texts:
            name = f"<cell of a notebook {len(names) + 1}>"
            names[name] = f"In [{len(names) + 1}]"
            monkeypatch.setitem(linecache.cache, name, (len(text), None, text.splitlines(True), name))  # type: ignore[misc]
            exec(compile(text, name, "exec"), space)
        return space

    return run


def kinds(record: Record) -> list[str]:
    """The kinds of a record's findings."""
    return [finding.kind for finding in record.findings]
