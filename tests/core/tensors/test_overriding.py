"""Subclasses of Tensor, ``__torch_function__`` and modes: who is asked, for what, and what comes back."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import core
from core._C import DisableTorchFunction, DisableTorchFunctionSubclass
from core.overrides import TorchFunctionMode


class Tagged(core.Tensor):
    """A subclass that says nothing of functions."""


class Heard(core.Tensor):
    """A subclass that writes down what it is asked."""

    heard: list[str] = []  # noqa: RUF012

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.heard.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs)


class Like:
    """No tensor at all."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return "like", func.__name__


@pytest.mark.parametrize("call", [
    lambda x: x + 1, lambda x: 1 - x, lambda x: -x, lambda x: x == x, lambda x: x**2, lambda x: x[0], lambda x: x.sum(),
    core.exp, lambda x: x.view(2), lambda x: x.detach(), lambda x: x.data, lambda x: x.clone(), lambda x: x.double(),
    lambda x: core.stack([x, x]), lambda x: x.T, lambda x: core.ones(2) * x, lambda x: core.nn.functional.relu(x),
    lambda x: core.nn.functional.softmax(x, 0), lambda x: x.add_(1), lambda x: x.max(0).values, lambda x: x.split(1)[0],
    lambda x: core.where(x > 0, x, 0.0), lambda x: x @ x, lambda x: core.nn.Linear(2, 1)(x), lambda x: x.new_zeros(3),
    copy.copy, copy.deepcopy,
])  # fmt: skip
def test_what_is_computed_of_a_subclass_is_of_it(call: Any) -> None:
    x = core.ones(2).as_subclass(Tagged)
    assert type(call(x)) is Tagged


def test_gradients_pass_through_a_subclass_and_are_plain() -> None:
    x = core.tensor([1.0, 2.0], requires_grad=True)
    y = x.as_subclass(Tagged)
    (y * y).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 4.0]
    assert type(x.grad) is core.Tensor
    z = core.Tensor._make_subclass(Tagged, core.ones(2), True)
    z.sum().backward()
    assert z.is_leaf
    assert type(z.grad) is core.Tensor


def test_a_plain_tensor_that_comes_back_stays_plain() -> None:
    x, y = core.ones(2), core.ones(2).as_subclass(Tagged)
    assert type(x.add_(y)) is Tagged
    assert type(x) is core.Tensor


def test_a_class_is_asked_of_functions_methods_operators_and_properties() -> None:
    Heard.heard = []
    x = core.ones(2).as_subclass(Heard)
    _ = x + 1, core.exp(x), x.sum(), x[0], x.shape, x.numel(), core.cat([x, x]), x.mul_(2), x.requires_grad, x.dtype
    assert Heard.heard == ["add", "exp", "sum", "getitem", "__get__", "numel", "cat", "mul_", "__get__", "__get__"]


def test_what_is_no_tensor_is_asked_too() -> None:
    d = Like()
    assert core.add(core.ones(2), d) == ("like", "add")
    assert core.ones(2) + d == ("like", "add")
    assert core.stack([d, d]) == ("like", "stack")
    assert core.nn.functional.softmax(d, dim=0) == ("like", "softmax")
    assert core.nn.functional.linear(core.ones(2), weight=d) == ("like", "linear")


def test_subclasses_are_asked_before_their_parents_and_all_may_decline() -> None:
    class Child(Heard):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return "child"

    x, y = core.ones(2).as_subclass(Heard), core.ones(2)
    y.__class__ = Child
    assert core.add(x, y) == "child"
    with pytest.raises(TypeError, match="no implementation found for 'add' on types that implement __torch_function__"):
        core.add(x, core.ones(2).as_subclass(Tagged))


def test_parameters_ask_nobody() -> None:
    class Weight(core.nn.Parameter):
        pass

    w = Weight(core.ones(2))
    assert type(w + 1) is core.Tensor
    assert type(w + core.ones(2).as_subclass(Tagged)) is Tagged


def test_blocks_in_which_nobody_is_asked() -> None:
    x = core.ones(2).as_subclass(Tagged)
    with DisableTorchFunctionSubclass():
        assert type(x + 1) is core.Tensor
        assert type(x.detach()) is core.Tensor
    with DisableTorchFunction():
        assert type(core.exp(x)) is core.Tensor
    assert type(x + 1) is Tagged


def test_a_mode_hears_of_all_functions_and_of_the_classes_that_would_be_asked() -> None:
    class Names(TorchFunctionMode):
        def __init__(self) -> None:
            self.names: list[Any] = []

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.names.append((func.__name__, types))
            return func(*args, **kwargs or {})

    x = core.ones(2).as_subclass(Tagged)
    outer, inner = Names(), Names()
    with outer, inner:
        assert type(x + core.ones(2)) is Tagged
    core.ones(2)
    assert inner.names == outer.names == [("ones", ()), ("add", (Tagged,))]
    with pytest.raises(KeyError), outer:
        raise KeyError
    assert not core._C._is_torch_function_mode_enabled()


def test_a_subclass_with_its_own_new_keeps_what_it_was_given() -> None:
    class Image(core.Tensor):
        @staticmethod
        def __new__(cls: type, data: Any, mode: str = "rgb") -> Any:
            return core.Tensor._make_subclass(cls, core.as_tensor(data))

        def __init__(self, data: Any, mode: str = "rgb") -> None:
            self.mode = mode

    x = Image(core.ones(2), "grey")
    assert (type(x), x.mode, type(x + x), x.requires_grad) == (Image, "grey", Image, False)
    assert copy.deepcopy(x).mode == "grey"


def test_a_subclass_says_its_name_and_is_pickled() -> None:
    x = core.ones(2).as_subclass(Tagged)
    assert repr(x) == "Tagged([1., 1.])"
    assert type(pickle.loads(pickle.dumps(x))) is Tagged


def test_what_is_no_subclass_is_refused() -> None:
    with pytest.raises(TypeError, match="must be a subclass of Tensor"):
        core.ones(2).as_subclass(int)
    with pytest.raises(TypeError, match="must be a subclass of Tensor"):
        core.Tensor._make_subclass(int, core.ones(2))  # type: ignore[attr-defined]
    with pytest.raises(NotImplementedError, match="__torch_dispatch__"):
        core.Tensor._make_wrapper_subclass(Tagged, (2,))  # type: ignore[attr-defined]
