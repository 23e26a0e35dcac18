"""What a record says of the functions of `core.compile` that the cell called."""

from __future__ import annotations

from typing import Any

import pytest

import core
import lab
from core.compiled import variant
from widgets.record import Record


def chain(a: Any) -> Any:
    return (core.tanh(a) * a + 0.5).sum(-1)


def branches(a: Any) -> Any:
    return a * 2 if a.sum() > 0 else a


def test_what_became_a_loop_and_what_was_refused_on_which_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variant, "_GAIN", float("inf"))
    f, g, h, unasked = core.compile(chain, check=3), core.compile(branches), core.compile(chain), core.compile(chain)
    a = core.randn(8, 16, requires_grad=True)
    for _ in range(5):
        f(a)
    g(a)
    with lab.record() as rec:
        for _ in range(2):
            f(a)
        g(a)
        h(a)
    record = rec.record
    assert [function.name for function in record.compiled] == ["chain", "branches", "chain"]
    first, second, third = record.compiled
    assert first.said[0].startswith("compiled: ")
    assert "where the results of all ops take" in first.said[0]
    line = chain.__code__.co_firstlineno + 1
    assert [(p.part, p.line) for p in first.pieces] == [("forward", line), ("backward", line)]
    assert first.pieces[0].what == "one loop of 4 ops: tanh, mul, add, sum"
    assert second.said == [second.pieces[0].what.replace("eager", "stays eager", 1)]
    assert second.pieces[0].line == branches.__code__.co_firstlineno + 1
    assert f"line {second.pieces[0].line} (a.sum() > 0) decides by a tensor's value" in second.said[0]
    assert third.said == ["nothing of it is compiled so far: a call outside of a recorded cell records it"]
    assert Record.from_json(record.to_json()) == record
    assert unasked.explain().variants == []


def test_a_cell_without_compiled_functions_has_none() -> None:
    with lab.record() as rec:
        core.ones(3).exp()
    assert rec.record.compiled == []
