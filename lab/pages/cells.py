"""Cells without a notebook: a text is compiled under a name of its own, run and recorded, its lines counted from 1.

The gallery's cells are those of lab/docs/findings.md, which the tests run as well.
"""

from __future__ import annotations

import itertools
import linecache
import re
import textwrap
from dataclasses import dataclass
from typing import Any

import numpy as np

import core
from core import nn
from widgets.record import Record

from ..session.recording import Recording, error_row
from .shipped import DOCUMENTS

_number = itertools.count(1)
_SECTION = re.compile(r"^## (.+?)\n(.*?)(?=^## |\Z)", re.M | re.S)
_CELL = re.compile(r"```python\n(.*?)```", re.S)


@dataclass
class Section:
    """A section of findings.md: what a finding is, a cell that has it, what the card says, the cell mended."""

    title: str
    about: str
    broken: str
    message: str
    remedy: str
    mended: str


def sections() -> list[Section]:
    """Return the sections of lab/docs/findings.md.

    >>> sections()[0].title, sections()[0].broken.splitlines()[-1]
    ('The graph is cut', 'loss.backward()')
    """
    found = []
    for title, body in _SECTION.findall((DOCUMENTS / "findings.md").read_text(encoding="utf-8")):
        broken, mended = _CELL.findall(body)
        message, remedy = (line[2:] for line in body.splitlines() if line.startswith("> ") and line != "> ")
        found.append(Section(title, body.partition("```")[0].strip(), broken, message, remedy, mended))
    return found


def run_cell(source: str, space: dict[str, Any] | None = None, *, limit: int | None = None, **options: bool) -> Record:
    """Run and record `source`; what it assigns stays in `space`. An exception ends it and is told in the record.

    limit : of how many ops a loop keeps the rows, in place of the recorder's own.

    >>> record = run_cell("x = core.ones(2, requires_grad=True)\\nx.sum().backward()", data())
    >>> [op.line for op in record.ops], record.findings
    ([2], [])
    """
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


def data() -> dict[str, Any]:
    """Return what the cells read: the package, data, and ``P(*shape, scale=1)``, a parameter whose start values keep
    size.

    >>> {name: tuple(value.shape) for name, value in data().items() if name in ("x", "labels")}
    {'x': (64, 16), 'labels': (64,)}
    """
    rng = np.random.default_rng(0)

    def parameter(*shape: int, scale: float = 1.0) -> core.Tensor:
        values = scale * rng.standard_normal(shape) / shape[0] ** 0.5
        return core.tensor(values.astype(np.float32), requires_grad=True)

    core.manual_seed(0)
    x = core.tensor(rng.standard_normal((64, 16)).astype(np.float32))
    labels = core.tensor(rng.integers(0, 4, 64))
    names = {"core": core, "torch": core, "nn": nn, "F": nn.functional, "np": np}
    return {**names, "P": parameter, "x": x, "labels": labels}


def read_by_findings() -> dict[str, Any]:
    """Return what the cells of findings.md read: `data`, and targets `y`, a number each."""
    space = data()
    return {**space, "y": space["x"][:, 0] * 0.5}
