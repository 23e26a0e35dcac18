"""The C kernels of batch norm against NumPy in float64: shapes, what may be left out, threads, refusals."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest


def _want(g: list[Any], x: Any, w: Any, b: Any, eps: float) -> list[Any]:
    """y, mean, variance, and the gradients of x, weight and bias."""
    dims, n = (0, *range(2, x.ndim)), x.size // x.shape[1]

    def along(a: Any) -> Any:
        return a.reshape(-1, *(1,) * (x.ndim - 2))

    mean, var = x.mean(dims), x.var(dims)
    rstd, off = 1 / np.sqrt(var + eps), x - along(mean)
    scale = rstd if w is None else rstd * w
    y = off * along(scale) + (0 if b is None else along(b))
    total, with_off = g[0].sum(dims), (g[0] * off).sum(dims)
    gx = along(scale) * (g[0] - along(total / n) - off * along(rstd * rstd * with_off / n))
    return [y, mean, var, gx + along(g[1] / n) + off * along(2 * g[2] / n), with_off * rstd, total]


def _given(shape: tuple[int, ...], dtype: str) -> tuple[list[Any], Any, Any, Any]:
    rng = np.random.default_rng(0)
    x, w, b, g0, g1, g2 = (rng.standard_normal(s).astype(dtype) for s in (shape, *[(shape[1],)] * 2, shape,
                                                                         *[(shape[1],)] * 2))  # fmt: skip
    return [g0, g1, g2], x + 3, w, b


@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize("shape", [(32, 5, 7, 9), (3, 2, 1031), (1, 3, 17), (5, 4), (2, 3, 2, 3, 5)])
def test_both_ways(shape: tuple[int, ...], dtype: str, kernels: ModuleType) -> None:
    g, x, weight, bias = _given(shape, dtype)
    for w, b in ((weight, bias), (None, bias), (None, None)):
        y, mean, var = kernels.kernels["batch_norm_forward"](x, w, b, 1e-5)
        found = [y, mean, var, *kernels.kernels["batch_norm_backward"](*g, x, w, mean, var, 1e-5, True)]
        exact = [None if a is None else a.astype("d") for a in (x, w, b)]
        for got, want in zip(found, _want([a.astype("d") for a in g], *exact, 1e-5), strict=True):
            assert got.dtype == x.dtype
            assert np.abs(got - want).max() <= (2e-6 if dtype == "f" else 4e-15) * (np.abs(want).max() + 1)
        assert kernels.kernels["batch_norm_backward"](*g, x, w, mean, var, 1e-5, False)[0] is None


@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize("shape", [(32, 5, 7, 9), (3, 2, 1031), (70, 37), (5, 4, 1), (2, 3, 2, 3, 5), (40, 9, 50, 60)])
def test_by_given_statistics(shape: tuple[int, ...], dtype: str, kernels: ModuleType) -> None:
    _, x, weight, bias = _given(shape, dtype)
    mean, var = bias[::-1].copy(), weight * weight
    for w, b in ((weight, bias), (None, bias), (weight, None), (None, None)):
        exact = [None if a is None else a.astype("d").reshape(-1, *(1,) * (x.ndim - 2)) for a in (mean, var, w, b)]
        want = (x.astype("d") - exact[0]) / np.sqrt(exact[1] + 1e-3)
        want = want * (1 if exact[2] is None else exact[2]) + (0 if exact[3] is None else exact[3])
        before, found = kernels.get_num_threads(), []
        for threads in (1, 2):
            kernels.set_num_threads(threads)
            found.append(kernels.entries["batch_norm_eval"](x, mean, var, w, b, 1e-3))
        kernels.set_num_threads(before)
        assert np.abs(found[0] - want).max() <= (1e-6 if dtype == "f" else 2e-15) * (np.abs(want).max() + 1)
        np.testing.assert_array_equal(*found)
    assert (
        kernels.entries["batch_norm_eval"](x[::-1], mean, var, None, None, 1e-3) is NotImplemented
    )  # maps keep its order


def test_the_threads_do_not_change_a_bit(kernels: ModuleType) -> None:
    g, x, w, b = _given((8, 13, 20, 21), "f")
    before, found = kernels.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            kernels.set_num_threads(threads)
            y, mean, var = kernels.kernels["batch_norm_forward"](x, w, b, 1e-5)
            found.append([y, mean, var, *kernels.kernels["batch_norm_backward"](*g, x, w, mean, var, 1e-5, True)])
    finally:
        kernels.set_num_threads(before)
    for others in found[1:]:
        for one, other in zip(found[0], others, strict=True):
            np.testing.assert_array_equal(one, other)


def test_what_it_refuses(kernels: ModuleType) -> None:
    g, x, w, b = _given((2, 3, 4), "f")
    for arguments, message in (((x, w[:2], b, 0.1), r"the weight has shape \(2,\), needed is \(3,\)"),
                               ((x[0, 0], w, b, 0.1), "takes x: real.samples"),
                               ((x[:0], w, b, 0.1), "takes x: real.samples")):  # fmt: skip
        with pytest.raises((TypeError, ValueError), match=message):
            kernels.kernels["batch_norm_forward"](*arguments)
    with pytest.raises(ValueError, match=r"the x has shape \(2, 3, 4\), needed is \(1, 3, 4\)"):
        kernels.kernels["batch_norm_backward"](g[0][:1], *g[1:], x, w, w, b, 0.1, True)
    with pytest.raises(TypeError, match="takes g: real"):
        kernels.kernels["batch_norm_backward"](g[0], None, g[2], x, w, w, b, 0.1, True)
    with pytest.raises(TypeError):
        kernels.kernels["batch_norm_forward"](x, w.astype("d"), b, 0.1)
