"""Cells without a notebook: a text is compiled under a name of its own, run and recorded, its lines counted from 1."""

from __future__ import annotations

import itertools
import linecache
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import core
from core import nn
from lab.recorder.cell_trace import Trace
from lab.report import build_record
from lab.session.recording import Recording, error_row
from widgets.record import Record

_number = itertools.count(1)


def run_cell(source: str, space: dict[str, Any] | None = None, *, limit: int | None = None, **options: bool) -> Record:
    """Run and record `source`; what it assigns stays in `space`. An exception ends it and is told in the record."""
    source = textwrap.dedent(source).strip("\n") + "\n"
    name = f"<cell {next(_number)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    space = {} if space is None else space
    recording = Recording("a cell", **options)
    code = compile(source, name, "exec")
    recorder = recording.start({name: 0})
    assert recorder is not None
    if limit is not None:
        recorder.fold.limit = limit
    error = None
    try:
        exec(code, space)
    except Exception as e:
        error = e
    return recording.stop(space, source, error_row(error, {name: 0}), error)


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
    rng = np.random.default_rng(0)

    def parameter(*shape: int, scale: float = 1.0) -> core.Tensor:
        values = scale * rng.standard_normal(shape) / shape[0] ** 0.5
        return core.tensor(values.astype(np.float32), requires_grad=True)

    core.manual_seed(0)
    x = core.tensor(rng.standard_normal((64, 16)).astype(np.float32))
    labels = core.tensor(rng.integers(0, 4, 64))
    return {
        "core": core,
        "torch": core,
        "nn": nn,
        "F": nn.functional,
        "np": np,
        "P": parameter,
        "x": x,
        "labels": labels,
    }


def kinds(record: Record) -> list[str]:
    """The kinds of a record's findings."""
    return [finding.kind for finding in record.findings]
