from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core
import core.nn.functional as F
from core.autograd import gradcheck, gradgradcheck


def r(*shape: int, seed: int = 0) -> Any:
    return core.tensor(np.random.default_rng(seed).uniform(-2, 2, shape), requires_grad=True)


def standard(x: Any, axes: Any, eps: float = 1e-5) -> Any:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


@pytest.mark.parametrize("last", [1, 2])
def test_layer_norm(last: int) -> None:
    x, w, b = r(2, 3, 4), r(*(3, 4)[-last:], seed=1), r(*(3, 4)[-last:], seed=2)
    axes = tuple(range(3 - last, 3))
    want = standard(x.detach().numpy(), axes) * w.detach().numpy() + b.detach().numpy()
    shape = tuple(w.shape)
    np.testing.assert_allclose(F.layer_norm(x, shape, w, b).detach().numpy(), want, rtol=1e-12)
    gradcheck(lambda *a: F.layer_norm(a[0], shape, *a[1:]), (x, w, b))
    gradgradcheck(lambda *a: F.layer_norm(a[0], shape, *a[1:]), (x, w, b))


@pytest.mark.parametrize(("function", "shapes"), [
    (lambda x: F.layer_norm(x, (4,)), [(2, 4)]),
    (lambda x, b: F.layer_norm(x, (4,), None, b), [(2, 4), (4,)]),
    (lambda x, w: F.rms_norm(x, (4,), w, 1e-3), [(2, 4), (4,)]),
    (lambda x, w, b: F.group_norm(x, 2, w, b), [(2, 4, 3), (4,), (4,)]),
    (lambda x, w, b: F.instance_norm(x, weight=w, bias=b), [(2, 2, 3), (2,), (2,)]),
    (lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), [(4, 2), (2,), (2,)]),
    (lambda x, w: F.batch_norm(x, core.zeros(2).double(), core.ones(2).double(), w), [(3, 2, 2), (2,)]),
    (lambda x: F.normalize(x, dim=1), [(3, 4)]),
])  # fmt: skip
def test_gradients_to_second_order(function: Any, shapes: Any) -> None:
    args = tuple(r(*s, seed=i) for i, s in enumerate(shapes))
    gradcheck(function, args)
    gradgradcheck(function, args)


def test_only_what_needs_a_gradient_gets_one() -> None:
    x, w, b = r(2, 4), r(4), r(4)
    F.layer_norm(x.detach(), (4,), w, b.detach()).sum().backward()
    assert x.grad is b.grad is None
    np.testing.assert_allclose(w.grad.numpy(), standard(x.detach().numpy(), -1).sum(0), rtol=1e-4)


def test_half_types_are_computed_in_float32() -> None:
    x = core.tensor(np.array([[1000.0, 1001.0, 1002.0, 1003.0]]), dtype=core.float16, requires_grad=True)
    y = F.layer_norm(x, (4,))
    y.sum().backward()
    assert y.dtype is x.grad.dtype is core.float16
    np.testing.assert_allclose(y.detach().numpy(), standard(x.detach().numpy().astype(np.float64), -1), atol=2e-3)
    assert F.rms_norm(core.full((1, 4), 300.0, dtype=core.float16), (4,)).tolist() == [[1, 1, 1, 1]]


def test_group_and_instance_norm() -> None:
    a = np.random.default_rng(0).uniform(-1, 1, (2, 4, 3, 3))
    x = core.from_numpy(a)
    want = standard(a.reshape(2, 2, -1), -1).reshape(a.shape)
    np.testing.assert_allclose(F.group_norm(x, 2).numpy(), want, rtol=1e-10)
    np.testing.assert_allclose(F.instance_norm(x).numpy(), standard(a, (2, 3)), rtol=1e-10)


def test_batch_norm_moves_the_running_statistics_in_training_alone() -> None:
    a = np.random.default_rng(0).uniform(-1, 1, (5, 3)).astype(np.float32)
    mean, variance = core.zeros(3), core.ones(3)
    F.batch_norm(core.from_numpy(a), mean, variance, training=True, momentum=0.5)
    np.testing.assert_allclose(mean.numpy(), 0.5 * a.mean(0), rtol=1e-5)
    np.testing.assert_allclose(variance.numpy(), 0.5 + 0.5 * a.var(0, ddof=1), rtol=1e-5)
    before = mean.tolist()
    y = F.batch_norm(core.from_numpy(a), mean, variance)
    assert mean.tolist() == before
    np.testing.assert_allclose(y.numpy(), (a - mean.numpy()) / np.sqrt(variance.numpy() + 1e-5), rtol=1e-5)


@pytest.mark.parametrize(
    ("call", "error", "phrase"),
    [
        (
            lambda x: F.layer_norm(x, (2,)),
            RuntimeError,
            r"Given normalized_shape=\[2\], expected input with shape \[\*, 2\]",
        ),
        (lambda x: F.layer_norm(x, ()), RuntimeError, "at least 1-dimensional"),
        (lambda x: F.layer_norm(x, 3), TypeError, "must be tuple of ints, not int"),
        (lambda x: F.layer_norm(x, (3,), core.ones(2)), RuntimeError, "Expected weight to be of same shape"),
        (lambda x: F.layer_norm(x, (3,), None, core.ones(2)), RuntimeError, "Expected bias to be of same shape"),
        (lambda x: F.layer_norm(x, (3,), core.ones(3).double()), RuntimeError, "mixed dtype"),
        (lambda x: F.layer_norm(x.long(), (3,)), NotImplementedError, "not implemented for 'Long'"),
        (lambda x: F.group_norm(x, 2), RuntimeError, "divisible by num_groups"),
        (lambda x: F.batch_norm(x, core.ones(2), None), RuntimeError, "running_mean should contain 3 elements not 2"),
        (lambda x: F.batch_norm(x, None, None), RuntimeError, "to be defined when training=False"),
        (
            lambda x: F.batch_norm(x[:1], None, None, training=True),
            ValueError,
            "Expected more than 1 value per channel",
        ),
    ],
)
def test_errors(call: Any, error: type, phrase: str) -> None:
    with pytest.raises(error, match=phrase):
        call(core.ones(2, 3))


def test_batch_norm_of_an_empty_batch() -> None:
    m = core.nn.BatchNorm1d(2)
    x = core.zeros(0, 2, 3, requires_grad=True)
    y = m(x)
    y.sum().backward()
    assert y.shape == x.grad.shape == (0, 2, 3)
    assert (m.running_mean.tolist(), m.running_var.tolist()) == ([0, 0], [1, 1])
    assert (m.weight.grad.tolist(), m.bias.grad.tolist()) == ([0, 0], [0, 0])


def test_batch_norm_needs_a_positive_eps() -> None:
    for eps, training in ((-1.0, True), (0.0, True), (-1.0, False)):
        with pytest.raises(ValueError, match="batch_norm eps must be"):
            F.batch_norm(core.ones(3, 2), core.zeros(2), core.ones(2), training=training, eps=eps)
    assert F.batch_norm(core.ones(3, 2), core.zeros(2), core.ones(2), eps=0.0).tolist() == [[1, 1]] * 3


def test_group_norm_needs_groups() -> None:
    with pytest.raises(RuntimeError, match="Expected num groups to be greater than 0, got -1"):
        F.group_norm(core.ones(1, 2, 3), -1)


def test_renorm_by_the_sum_of_sizes() -> None:
    x = core.tensor([[3.0, -4.0], [0.25, 0.5]])
    expected = core.tensor([[3 / 7, -4 / 7], [0.25, 0.5]])
    assert core.allclose(core.renorm(x, 1, 0, 1.0), expected, atol=1e-6)
    assert core.allclose(core.renorm(x, 0.5, 0, 100.0), x)
    with pytest.raises(RuntimeError, match="non-positive-norm"):
        core.renorm(x, 0, 0, 1.0)
