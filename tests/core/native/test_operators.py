"""The operators of tensors, slots in C (native/binding/calls/operators.c): what Python promises of operators holds of
them."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

import core
from core import Tensor, nn

A, B = core.tensor([[1.0, 2.0], [3.0, 4.0]]), core.tensor([[2.0, 2.0], [0.5, 4.0]])
OPERATORS = {n: getattr(operator, n) for n in ("add", "sub", "mul", "truediv", "pow", "matmul")}


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_and_its_method_agree_with_numpy(name: str) -> None:
    f = OPERATORS[name]
    right = f(A.numpy(), B.numpy())
    np.testing.assert_allclose(f(A, B).numpy(), right, rtol=1e-6)
    np.testing.assert_allclose(getattr(A, f"__{name}__")(B).numpy(), right, rtol=1e-6)
    np.testing.assert_allclose(getattr(Tensor, f"__r{name}__")(B, A).numpy(), right, rtol=1e-6)


@pytest.mark.parametrize("name", [n for n in OPERATORS if n != "matmul"])
def test_numbers_and_arrays_on_either_side(name: str) -> None:
    f, a = OPERATORS[name], A.numpy()
    for number in (3, 0.5, np.float32(2), np.float64(2)):
        np.testing.assert_allclose(f(A, number).numpy(), f(a, number), rtol=1e-6)
        np.testing.assert_allclose(f(number, A).numpy(), f(number, a), rtol=1e-6)
    assert isinstance(f(a, A), Tensor)


@pytest.mark.parametrize("name", OPERATORS)
def test_what_is_no_operand_is_refused(name: str) -> None:
    with pytest.raises(TypeError):
        OPERATORS[name](A, "text")
    with pytest.raises(TypeError):
        OPERATORS[name](None, A)


@pytest.mark.parametrize("exponent", [2, 2.0, True, 0.5, 3, -1, np.int64(2)])
def test_powers(exponent: Any) -> None:
    np.testing.assert_allclose((A**exponent).numpy(), A.numpy() ** exponent, rtol=1e-6)
    x = core.tensor([2.0], requires_grad=True)
    (x**2).backward()
    assert x.grad.tolist() == [4.0]
    assert (core.tensor([3]) ** 2).tolist() == [9]
    with pytest.raises(TypeError):
        pow(A, 2, 3)


def test_a_subclass_has_what_it_defines() -> None:
    class Loud(Tensor):
        def __add__(self, other: Any) -> Any:
            return "mine"

        def __rmul__(self, other: Any) -> Any:
            return "mine too"

    loud = Loud([1.0, 2.0])
    assert loud + 1 == "mine"
    assert A[0] * loud == "mine too"  # the subclass's comes first
    assert (A[0] + loud).tolist() == [2.0, 4.0]
    assert (loud * 3).tolist() == [3.0, 6.0]
    assert (nn.Parameter(A) @ B - A @ nn.Parameter(B)).abs().max().item() == 0


def test_an_operator_can_be_set_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as m:
        m.setattr(Tensor, "__add__", lambda self, other: "other", raising=False)
        m.setattr(Tensor, "__getitem__", lambda self, key: ("item", key))
        assert A + B == "other"
        assert nn.Parameter(A) + B == "other"
        assert A[1] == ("item", 1)
    assert (A + B).tolist() == [[3.0, 4.0], [3.5, 8.0]]
    assert A[1].tolist() == [3.0, 4.0]


def test_brackets_of_a_subclass() -> None:
    class Named(Tensor):
        def __getitem__(self, key: Any) -> Any:
            return "named" if isinstance(key, str) else super().__getitem__(key)

    named = Named([1.0, 2.0])
    assert named["x"] == "named"
    assert named[1].item() == 2.0
    assert nn.Parameter(A)[1].tolist() == [3.0, 4.0]
    assert [row.tolist() for row in A] == A.tolist()


def test_comparisons_are_slots_that_keep_pythons_promises() -> None:
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        f = getattr(operator, name)
        assert f(A, B).tolist() == f(A.numpy(), B.numpy()).tolist()
        assert getattr(A, f"__{name}__")(2).tolist() == f(A.numpy(), 2).tolist()
        assert f(2.5, A).tolist() == f(2.5, A.numpy()).tolist()
    assert (A == None) is False  # noqa: E711 - what is no tensor is another thing
    assert (A != "text") is True
    with pytest.raises(TypeError, match="not supported between"):
        A < "text"  # noqa: B015
    assert A in [A]
    assert {A: 1}[A] == 1


def test_a_subclass_may_compare_as_it_likes() -> None:
    class Loud(Tensor):
        def __eq__(self, other: Any) -> Any:
            return "mine"

        __hash__ = Tensor.__hash__

    loud = A.as_subclass(Loud) if hasattr(A, "as_subclass") else Tensor.__new__(Loud)
    assert (loud == A) == "mine"
    assert (A == loud) == "mine"  # noqa: SIM300 - the subclass is asked first


@pytest.mark.parametrize("name", ["and", "or", "xor"])
def test_bits_and_conditions(name: str) -> None:
    f = getattr(operator, f"__{name}__")
    m, i = A > 1, (A * 3).long()
    for other in (m.T, True):
        assert f(m, other).tolist() == f(m.numpy(), np.asarray(other)).tolist()
    assert f(i, 5).tolist() == f(5, i).tolist() == f(i.numpy(), 5).tolist()
    assert [(~m).tolist(), (~i).tolist()] == [(~m.numpy()).tolist(), (~i.numpy()).tolist()]
    with pytest.raises(TypeError):
        f(m, "text")
