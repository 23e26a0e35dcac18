"""Ops over lists of tensors."""

from __future__ import annotations

import pytest

import core
from core.base.foreach_names import EVERY


def test_every_name_is_there_and_documented() -> None:
    for name in EVERY:
        function = getattr(core, name)
        assert function.__name__ == name
        assert function.__doc__


def test_new_tensors_or_the_first_list_written() -> None:
    a = [core.ones(2), core.zeros(3)]
    assert [t.tolist() for t in core._foreach_add(a, 2.0)] == [[3.0, 3.0], [2.0, 2.0, 2.0]]
    assert core._foreach_mul_(a, [4.0, 5.0])[0] is a[0]
    assert a[0].tolist() == [4.0, 4.0]
    assert a[0]._version == 1


def test_lists_of_unequal_length_and_empty_ones_are_refused() -> None:
    with pytest.raises(RuntimeError, match="same number of tensors, got 1 and 2"):
        core._foreach_add([core.ones(1)], [core.ones(1)] * 2)
    with pytest.raises(RuntimeError, match="must have at least one tensor"):
        core._foreach_sqrt([])
    with pytest.raises(TypeError, match="tuple of Tensors"):
        core._foreach_sqrt(core.ones(1))


def test_gradients_pass() -> None:
    x = core.ones(2, requires_grad=True)
    core._foreach_addcmul([core.zeros(2)], [x], [x])[0].sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 2.0]
