"""The C kernels of group norm against NumPy in float64: shapes, what may be left out, threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core
from core import nn


def _want(g: Any, x: Any, w: Any, b: Any, groups: int, eps: float) -> list[Any]:
    """y, mean, 1 / deviation, and the gradients of x, weight and bias."""
    samples, channels = x.shape[:2]
    along = (1, -1) + (1,) * (x.ndim - 2)
    grouped = x.reshape(samples, groups, -1)
    mean = grouped.mean(2)
    rstd = 1 / np.sqrt(grouped.var(2) + eps)
    z = ((grouped - mean[..., None]) * rstd[..., None]).reshape(x.shape)
    scale = np.ones(channels) if w is None else w
    y = z * scale.reshape(along) + (0 if b is None else b.reshape(along))
    h, zs = (g * scale.reshape(along)).reshape(grouped.shape), z.reshape(grouped.shape)
    gx = rstd[..., None] * (h - h.mean(2, keepdims=True) - zs * (h * zs).mean(2, keepdims=True))
    dims = (0, *range(2, x.ndim))
    return [y, mean, rstd, gx.reshape(x.shape), (g * z).sum(dims), g.sum(dims)]


SHAPES = [
    ((4, 12, 7, 9), 3),
    ((3, 6, 1031), 2),
    ((1, 4, 17), 4),
    ((5, 8), 2),
    ((2, 6, 2, 3, 5), 1),
    ((2, 64, 40, 33), 8),
]


@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize(("shape", "groups"), SHAPES, ids=str)
def test_both_ways(shape: tuple[int, ...], groups: int, dtype: str, kernels: Any) -> None:
    rng = np.random.default_rng(0)
    x, g = (rng.standard_normal(shape).astype(dtype) for _ in range(2))
    weight, bias = (rng.standard_normal(shape[1]).astype(dtype) for _ in range(2))
    x += 3
    inside = (groups, shape[1] // groups)
    wide, of_g = (a.reshape(shape[0], *inside, -1) for a in (x, g))
    for w, b in ((weight, bias), (None, bias), (weight, None), (None, None)):
        by_group = [None if a is None else a.reshape(inside) for a in (w, b)]
        found = []
        for threads in (1, 2):
            kernels.set_num_threads(threads)
            y, mean, rstd = kernels.kernels["group_norm_forward"](wide, *by_group, 1e-5)
            back = kernels.kernels["group_norm_backward"](of_g, wide, by_group[0], mean, rstd, True)
            found.append([y, mean, rstd, *back])
        assert all(np.array_equal(one, two) for one, two in zip(*found, strict=True))
        exact = [None if a is None else a.astype("d") for a in (g, x, w, b)]
        for got, want in zip(found[0], _want(*exact, groups, 1e-5), strict=True):
            assert got.dtype == x.dtype
            assert np.abs(got.reshape(want.shape) - want).max() <= (2e-6 if dtype == "f" else 4e-15) * (
                np.abs(want).max() + 1
            )
        assert kernels.kernels["group_norm_backward"](of_g, wide, by_group[0], mean, rstd, False)[0] is None


def test_a_layer_trains_through_them(kernels: Any) -> None:
    core.manual_seed(0)
    layer, x = nn.GroupNorm(4, 16), core.randn(3, 16, 5, 5, requires_grad=True)
    layer(x).square().sum().backward()
    exact = nn.GroupNorm(4, 16).double()
    y = x.detach().double().requires_grad_()
    exact(y).square().sum().backward()
    for one, two in ((x, y), (layer.weight, exact.weight), (layer.bias, exact.bias)):
        assert core.allclose(one.grad.double(), two.grad, rtol=1e-4, atol=1e-4)
