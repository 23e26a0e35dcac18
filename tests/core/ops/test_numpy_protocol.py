"""NumPy's functions on tensors: they stay on the graph, or say how to leave it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core

A = np.random.default_rng(0).uniform(0.1, 0.9, (3, 4))


@pytest.mark.parametrize("function", [
    np.tanh, np.exp, np.log1p, np.sqrt, np.negative, np.abs, np.square, np.arctan, lambda x: np.add(x, A),
    lambda x: A * x,
    lambda x: np.float64(2) - x, lambda x: A @ x.T, lambda x: np.power(x, 2), lambda x: np.maximum(x, 0.5), np.sum,
    lambda x: np.sum(x, axis=0), lambda x: np.mean(x, axis=1, keepdims=True),
    lambda x: np.std(x, axis=0), np.var, np.prod,
    lambda x: np.max(x, axis=1), lambda x: np.concatenate([x, A], axis=1), lambda x: np.stack([x, x]), np.transpose,
    lambda x: np.transpose(x, (1, 0)), lambda x: np.reshape(x, (4, 3)), np.ravel, lambda x: np.expand_dims(x, 1),
    lambda x: np.where(A > 0.5, x, 0.0), lambda x: np.clip(x, 0.2, 0.8),
    lambda x: np.flip(x, axis=0), np.flip, np.cumsum,
    lambda x: np.cumsum(x, axis=1), lambda x: np.roll(x, 1, axis=1), lambda x: np.tile(x, (2, 1)),
    lambda x: np.dot(x, A.T), lambda x: np.repeat(x, 2, axis=0), np.tril, lambda x: np.diagonal(x),
    lambda x: np.swapaxes(x, 0, 1),
])  # fmt: skip
def test_the_same_values_and_a_history(function: Any) -> None:
    x = core.tensor(A, requires_grad=True)
    y = function(x)
    assert isinstance(y, core.Tensor)
    assert y.requires_grad
    want = function(A)
    assert tuple(y.shape) == want.shape
    np.testing.assert_allclose(y.detach().numpy(), want)


@pytest.mark.parametrize(("function", "phrase"), [
    (lambda t: np.percentile(t, 50), "there is no op for 'percentile'"),
    (lambda t: np.median(t), "there is no op for 'median'"),
    (lambda t: np.add.reduce(t), "np.add.reduce cannot be applied"),
    (lambda t: np.sqrt(t, out=np.zeros((3, 4))), "it writes into an array"),
    (lambda t: np.add(t, 1, where=A > 0.5), "core's op refuses these arguments"),
    (lambda t: np.zeros((3, 4)).__iadd__(t), "writes into"),
])  # fmt: skip
def test_what_would_lose_the_graph_raises_with_the_remedy(function: Any, phrase: str) -> None:
    with pytest.raises(TypeError) as e:
        function(core.tensor(A, requires_grad=True))
    assert phrase in str(e.value)
    assert "t.detach().numpy()" in str(e.value)


def test_without_a_gradient_numpy_does_what_there_is_no_op_for() -> None:
    x = core.tensor(A)
    assert np.percentile(x, 50) == np.percentile(A, 50)
    assert np.add.reduce(x, axis=0).tolist() == A.sum(0).tolist()
    assert isinstance(np.split(x, 3)[0], np.ndarray)
    out = np.zeros_like(A)
    out += x
    assert out.tolist() == A.tolist()


def test_an_array_of_a_tensor_with_a_gradient_raises() -> None:
    x = core.tensor(A, requires_grad=True)
    for attempt in (np.asarray, np.array):
        with pytest.raises(RuntimeError, match=r"Can't call numpy\(\) on Tensor that requires grad"):
            attempt(x)
    assert np.asarray(x.detach()).tolist() == A.tolist()
    np.testing.assert_allclose(core.tensor(A), A)


def test_matplotlib_draws_tensors() -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    x = core.linspace(0, 1, 5)
    figure, axes = pyplot.subplots()
    try:
        (line,) = axes.plot(x, x.square())
        np.testing.assert_allclose(line.get_xydata(), np.stack([x.numpy(), x.numpy() ** 2], 1))
        assert axes.imshow(core.eye(3)).get_array().tolist() == np.eye(3).tolist()
        assert sum(axes.hist(core.tensor([1.0, 2.0, 2.0]), bins=2)[0]) == 3
        with pytest.raises(RuntimeError, match="detach"):
            axes.plot(x, core.ones(5, requires_grad=True))
    finally:
        pyplot.close(figure)


def test_plain_questions() -> None:
    x = core.tensor(A, requires_grad=True)
    assert (np.shape(x), np.ndim(x), np.size(x), np.size(x, 1)) == ((3, 4), 2, 12, 4)
    assert np.zeros_like(x).tolist() == np.zeros((3, 4)).tolist()
    assert np.isfinite(x).all()
    assert [i.tolist() for i in np.nonzero(core.tensor([0, 3]))] == [[1]]
    assert np.invert(core.tensor([1])).tolist() == [-2]


def test_linear_algebra_and_fourier_transforms_stay_on_the_graph() -> None:
    x = core.tensor([[2.0, 1.0], [1.0, 3.0]], requires_grad=True)
    for function in (np.linalg.inv, np.linalg.det, np.linalg.norm, np.fft.fft, np.fft.irfft2, np.real, np.conjugate):
        y = function(x)
        assert isinstance(y, core.Tensor)
        assert y.requires_grad
        np.testing.assert_allclose(y.detach().numpy(), function(x.detach().numpy()), rtol=1e-5)
    assert np.linalg.solve(x, np.ones((2, 1), np.float32)).requires_grad
    np.testing.assert_allclose(np.fft.fft(x, axis=0).detach().numpy(), np.fft.fft(x.detach().numpy(), axis=0))
    with pytest.raises(TypeError, match="there is no op for 'lstsq'"):
        np.linalg.lstsq(x, x)
