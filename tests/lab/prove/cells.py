"""Planted cells run as a notebook would: names for them, a snapshot before each, the record of the cell itself."""

from __future__ import annotations

import ast
import contextlib
import importlib
import io
import linecache
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from core.base import source
from lab.prove.snapshot import Scene, Snapshot
from lab.session.recording import Recording, error_row
from tests.lab.diagnose.planted import CELLS
from widgets.record import Record

FILE = "<the cell>"
EARLIER = "one.py"


def text_of(name: str) -> str:
    """The text of a planted cell."""
    return CELLS[name].text.strip("\n") + "\n"


def names(library: str) -> dict[str, Any]:
    """What a planted cell sees, in core or in PyTorch."""
    torch = importlib.import_module(library)
    nn = importlib.import_module(f"{library}.nn")
    rng = np.random.default_rng(0)
    torch.manual_seed(0)
    x = torch.tensor(rng.standard_normal((64, 16)).astype(np.float32))
    labels = torch.tensor(rng.integers(0, 4, 64))
    return {"torch": torch, "nn": nn, "F": nn.functional, "np": np, "x": x, "labels": labels, "y": x[:, 0] * 0.5}


def recorded(text: str, space: dict[str, Any]) -> Record:
    """Run a text and record it."""
    linecache.cache[FILE] = (len(text), None, text.splitlines(True), FILE)
    recording, error = Recording("a cell"), None
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        code = compile(text, FILE, "exec")
        recording.start({FILE: 0})
        try:
            exec(code, space)
        except Exception as raised:
            error = raised
        return recording.stop(space, text, error_row(error, {FILE: 0}), error)


def in_two(text: str) -> tuple[str, str] | None:
    """Return a text as an earlier cell and the one that trains: its definitions and what follows until a loop or a
    backward pass; None where it defines nothing."""
    body = ast.parse(text).body
    trains = (ast.For, ast.While, ast.With, ast.Try)
    at = next((k for k, s in enumerate(body) if isinstance(s, trains) or "backward" in ast.unparse(s).split("(")[0]), 0)
    if not any(isinstance(s, ast.ClassDef | ast.FunctionDef) for s in body[:at]) or at == len(body):
        return None
    line = body[at].lineno - 1
    lines = text.split("\n")
    return "\n".join(lines[:line]) + "\n", "\n".join(lines[line:])


@contextlib.contextmanager
def planted_in_two(text: str, library: str = "core") -> Iterator[tuple[Record, Snapshot, str]]:
    """As `planted`, of the second part of a text, the first of which has run as the cell In [1]."""
    before, cell = in_two(text) or ("", text)
    space = names(library)
    was = source.name_of_file
    linecache.cache[EARLIER] = (len(before), None, before.splitlines(True), EARLIER)
    source.name_of_file = lambda file: "In [1]" if file == EARLIER else was(file)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(compile(before, EARLIER, "exec"), space)
            snapshot = Snapshot(Scene(space))
        try:
            yield recorded(cell, space), snapshot, cell
        finally:
            snapshot.close()
    finally:
        source.name_of_file = was
        linecache.cache.pop(EARLIER, None)


@contextlib.contextmanager
def planted(text: str, library: str = "core") -> Iterator[tuple[Record, Snapshot]]:
    """The record of a cell that ran, and a snapshot from before it."""
    space = names(library)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        snapshot = Snapshot(Scene(space))
    try:
        yield recorded(text, space), snapshot
    finally:
        snapshot.close()
