"""``out=`` of the functions that are written without it."""

from __future__ import annotations

import pytest

import core
from core import binding
from core.ops import outs


def test_results_are_written_into_what_is_given() -> None:
    a, out = core.arange(4.0).reshape(2, 2), core.empty(0)
    assert core.matmul(a, a, out=out) is out
    assert out.tolist() == (a @ a).tolist()
    assert core.mean(a, 0, out=out) is out
    assert out.tolist() == [1, 2]
    assert core.linalg.matmul(a, a, out=core.zeros(2, 2)).tolist() == (a @ a).tolist()


def test_several_results() -> None:
    values, indices = core.empty(0), core.empty(0, dtype=core.int64)
    found = core.max(core.tensor([[1.0, 3.0]]), 1, out=(values, indices))
    assert found.values is values
    assert (values.tolist(), indices.tolist()) == ([3.0], [1])


def test_it_is_not_recorded() -> None:
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        core.mm(core.ones(1, 1, requires_grad=True), core.ones(1, 1), out=core.empty(0))


@pytest.mark.parametrize("name", outs.NAMES)
def test_every_name_is_a_function_that_takes_out(name: str) -> None:
    assert binding.namespaces[""][name] is getattr(core, name)
    with pytest.raises((TypeError, RuntimeError, IndexError, AttributeError)):
        getattr(core, name)(out=core.empty(0))
