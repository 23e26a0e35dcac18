"""The fuzzer itself: some of its cases, and that it finds kernels which read, write or compute what they should not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from core import backends, native
from core.backends import cpu, declared

from . import fuzz


def row_of(name: str) -> backends.Row:
    found = cpu._table.get(name) or declared.row(name)
    assert found is not None, name
    return found


@pytest.fixture
def swap(monkeypatch: pytest.MonkeyPatch) -> Any:
    assert native.module is not None, native.reason

    def swap(name: str, run: Any) -> None:
        monkeypatch.setitem(cpu._table, name, row_of(name)._replace(run=run))
        monkeypatch.delitem(native.module.entries, name, raising=False)  # the same kernel, for calls from C
        backends._changed()

    yield swap
    monkeypatch.undo()
    backends._changed()


def test_some_cases() -> None:
    for case in range(150):
        fuzz.run(case)


def first_of(name: str) -> int:
    """A case of that op."""
    for case in range(100_000):
        rng = np.random.default_rng(case)
        if fuzz.drawn(rng) == ("float64", name):
            return case
    raise AssertionError(name)


def test_what_it_finds(swap: Any) -> None:
    case, right = first_of("matmul"), row_of("matmul").run
    assert fuzz.run(case) == "matmul"

    def beyond(a: Any, b: Any) -> Any:
        y = right(a, b)
        y.reshape(-1)[-1] += np.lib.stride_tricks.as_strided(a, (1,), (8,))[0] * 0 + 1e-3
        return y

    swap("matmul", beyond)
    with pytest.raises(fuzz.Wrong, match="items are wrong"):
        fuzz.run(case)

    def write(a: Any, b: Any) -> Any:
        y = right(a, b)
        a.flat[0] = 7.0
        return y

    swap("matmul", write)
    with pytest.raises(fuzz.Wrong):
        fuzz.run(case)
