"""What public functions say of arguments of wrong types, and what they leave alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core
from core.dispatch.type_errors import complaint, explained, guarded
from core.nn import functional as F

X = core.ones(2, 3)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: core.flip(object(), (0,)), r"flip\(\): argument 'input' \(position 1\) must be Tensor, not object"),
        (lambda: core.kron(X, "x"), r"kron\(\): argument 'other' \(position 2\) must be Tensor, not str"),
        (lambda: core.atleast_2d(X, "x"), r"argument 'tensors' \(position 2\) must be Tensor, not str"),
        (lambda: X.diagonal_scatter({}), r"argument 'src' \(position 1\) must be Tensor, not dict"),
        (lambda: X.equal(np.ones(3)), r"equal\(\): argument 'other' \(position 1\) must be Tensor, not ndarray"),
        (lambda: core.detach([1.0]), r"detach\(\): argument 'input' \(position 1\) must be Tensor, not list"),
        (lambda: F.elu_("x"), r"argument 'input' \(position 1\) must be Tensor, not str"),
        (lambda: F.prelu(X, None), r"prelu\(\): argument 'weight' \(position 2\) must be Tensor, not NoneType"),
        (lambda: F.avg_pool1d(X, ["a"]), r"argument 'kernel_size' \(position 2\) must be int, not list"),
        (lambda: core.linalg.inv(None), r"argument 'A' \(position 1\) must be Tensor, not NoneType"),
        (lambda: core.fft.rfft2({}), r"argument 'input' \(position 1\) must be Tensor, not dict"),
        (lambda: core.tril_indices(X, 3), r"tril_indices\(\): argument 'row' \(position 1\) must be int, not Tensor"),
    ],
)  # fmt: skip
def test_a_wrong_type_is_a_type_error_that_names_the_argument(call: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        call()


def test_the_error_that_came_is_its_cause() -> None:
    with pytest.raises(TypeError) as found:
        core.flip(object(), (0,))
    assert isinstance(found.value.__cause__, AttributeError)


@pytest.mark.parametrize(
    "call",
    [lambda: core.qr(X, "x"), lambda: core.svd(X, object()), lambda: core.unique(X, {}), lambda: X.long("x"),
     lambda: X.cpu([]), lambda: X.clone().requires_grad_(object()), lambda: core.any(X, {}),
     lambda: core.resolve_conj("x"), lambda: F.alpha_dropout(object()), lambda: F.instance_norm(X, object()),
     lambda: core.cartesian_prod({})],
)  # fmt: skip
def test_what_was_taken_unread_is_refused(call: Any) -> None:
    with pytest.raises(TypeError, match="must be"):
        call()


def test_requires_grad_is_a_bool() -> None:
    x = core.ones(2)
    with pytest.raises(RuntimeError, match="requires_grad must be a bool"):
        x.requires_grad = "yes"
    x.requires_grad = np.bool_(True)
    assert x.requires_grad is True


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: core.flip(X, (7,)), IndexError),
        (lambda: core.ones(2, 3) @ core.ones(2, 3), RuntimeError),
        (lambda: F.dropout(X, 2.0), ValueError),
        (lambda: core.conj(X).no_such_name, AttributeError),
    ],
)
def test_an_error_of_a_call_of_right_types_stays(call: Any, error: type[Exception]) -> None:
    with pytest.raises(error) as found:
        call()
    assert type(found.value) is error
    assert found.value.__cause__ is None


def test_what_a_callback_raises_stays() -> None:
    raised = AttributeError("of the user's")

    def distance(a: Any, b: Any) -> Any:
        raise raised

    with pytest.raises(AttributeError) as found:
        F.triplet_margin_with_distance_loss(X, X, X, distance_function=distance)
    assert found.value is raised


def test_an_interrupt_stays() -> None:
    def function(input: core.Tensor) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        guarded(function)(object())


def test_too_many_arguments_are_pythons_own_words() -> None:
    assert complaint(core.kron, (X, X, X), {}) is None
    with pytest.raises(TypeError, match="positional argument"):
        core.kron(X, X, X)


def test_a_broken_repr_is_no_hindrance() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise ValueError

    with pytest.raises(TypeError, match="must be Tensor, not Broken"):
        core.kron(X, Broken())


def test_the_outermost_function_is_named() -> None:
    def inner(a: core.Tensor) -> Any:
        return a.shape  # what is no tensor has none

    def outer(weight: core.Tensor) -> Any:
        return guarded(inner)(weight)

    for f in (inner, outer):
        f.__annotations__ = dict.fromkeys(f.__annotations__, "Tensor")
    with pytest.raises(TypeError, match=r"outer\(\): argument 'weight'") as found:
        guarded(outer)(3)
    assert isinstance(found.value.__cause__, AttributeError)


def test_a_type_error_that_a_function_wrote_stays() -> None:
    def function(input: Any) -> None: ...

    assert explained(function, TypeError("function(): argument 'x' must be so"), ({},), {}) is None
