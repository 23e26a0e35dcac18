"""Batch norm: few and many channels, one program a channel and several, dtypes, large means, evaluation."""

import ml_dtypes
import numpy as np
import pytest

from triton_kernels import channel_norm as cn

BF16 = ml_dtypes.bfloat16
TOLERANCE = {np.float16: 4e-3, BF16: 3e-2, np.float32: 2e-5, np.float64: 1e-12}
SMALL = next(c for c in cn.SPACE.configs() if c["BLOCK_S"] == 16 and c["num_warps"] == 4)


def by_channel(a):
    return a[None, :, None]


def exact(x, weight, bias, eps):
    mean, var = x.mean((0, 2)), x.var((0, 2))
    rstd = 1 / np.sqrt(var + eps)
    return (x - by_channel(mean)) * by_channel(rstd * weight) + by_channel(bias), mean, var, rstd


@pytest.mark.parametrize(("config", "shares"), [(None, None), (None, 3), (SMALL, 2)], ids=["whole", "shares", "tiles"])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_training(dtype, config, shares, rng):
    for shape in ((33, 7, 1), (5, 3, 130)):
        tolerance, channels = TOLERANCE[dtype], shape[1]
        x, g = (rng.standard_normal((2, *shape)) * 2 + 1).astype(dtype)
        weight, bias = rng.uniform(0.5, 1.5, (2, channels)).astype(dtype)
        wide = np.float64 if dtype is np.float64 else np.float32
        y, out, mean, var = np.empty_like(x), np.empty_like(x), np.empty(channels, wide), np.empty(channels, wide)
        cn.batch_forward(x, weight, bias, y, mean, var, 1e-3, config, shares)
        x64, g64, w64 = x.astype("d"), g.astype("d"), weight.astype("d")
        want, m64, v64, r64 = exact(x64, w64, bias.astype("d"), 1e-3)
        assert np.allclose(y.astype("d"), want, rtol=tolerance, atol=tolerance)
        assert np.allclose(mean, m64, rtol=1e-5, atol=1e-6)
        assert np.allclose(var, v64, rtol=1e-5)
        of_weight, of_bias = np.empty_like(weight), np.empty_like(bias)
        g_mean, g_var = rng.standard_normal((2, channels)).astype(wide)
        cn.batch_backward(g, x, weight, mean, var, g_mean, g_var, out, of_weight, of_bias, 1e-3, True, config, shares)
        z, n = (x64 - by_channel(m64)) * by_channel(r64), shape[0] * shape[2]
        mean_g, mean_gz = (by_channel(a.mean((0, 2))) for a in (g64, g64 * z))
        dx = by_channel(w64 * r64) * (g64 - mean_g - z * mean_gz)
        dx += by_channel(g_mean) / n + 2 * by_channel(g_var) * (x64 - by_channel(m64)) / n
        assert np.allclose(out.astype("d"), dx, rtol=tolerance, atol=2 * tolerance)
        scale = np.abs(g64 * z).sum((0, 2))
        assert (np.abs(of_weight.astype("d") - (g64 * z).sum((0, 2))) < tolerance * scale).all()
        assert np.allclose(of_bias.astype("d"), g64.sum((0, 2)), rtol=tolerance, atol=tolerance)


def test_evaluation_and_its_gradient(rng):
    x, g = rng.standard_normal((2, 4, 5, 9)).astype("f")
    weight, bias, mean, var = rng.uniform(0.5, 1.5, (4, 5)).astype("f")
    y, out, of_weight, of_bias = np.empty_like(x), np.empty_like(x), np.empty(5, "f"), np.empty(5, "f")
    cn.batch_apply(x, weight, bias, y, mean, var, 1e-5)
    z = (x - by_channel(mean)) / np.sqrt(by_channel(var) + 1e-5)
    assert np.allclose(y, z * by_channel(weight) + by_channel(bias), rtol=1e-5, atol=1e-5)
    cn.batch_backward(g, x, weight, mean, var, None, None, out, of_weight, of_bias, 1e-5, trained=False)
    assert np.allclose(out, g * by_channel(weight / np.sqrt(var + 1e-5)), rtol=1e-5)
    assert np.allclose(of_weight, (g * z).sum((0, 2)), rtol=1e-4, atol=1e-5)
    cn.batch_backward(g, x, None, mean, var, None, None, out, None, None, 1e-5, trained=False)
    assert np.allclose(out, g * by_channel(1 / np.sqrt(var + 1e-5)), rtol=1e-5)


@pytest.mark.parametrize("shares", [None, 3])
def test_gradients_of_channels_in_groups(shares, rng):
    n, channels, spatial, groups = 5, 6, 35, 2
    x, g = rng.standard_normal((2, n, channels, spatial)).astype("f")
    mean, rstd = rng.uniform(0.5, 1.5, (2, n, groups)).astype("f")
    of_weight, of_bias = np.empty(channels, "f"), np.empty(channels, "f")
    cn.channel_gradients(g, x, mean, rstd, of_weight, of_bias, groups, shares=shares)
    wide = [np.repeat(a, channels // groups, 1)[:, :, None].astype("d") for a in (mean, rstd)]
    assert np.allclose(of_weight, (g * (x - wide[0]) * wide[1]).sum((0, 2)), rtol=1e-4, atol=1e-4)
    assert np.allclose(of_bias, g.sum((0, 2)), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shares", [None, 4])
def test_a_large_mean_costs_no_digits(shares, rng):
    x = (1e4 + rng.standard_normal((16, 3, 33))).astype("f")
    y, mean, var = np.empty_like(x), np.empty(3, "f"), np.empty(3, "f")
    cn.batch_forward(x, None, None, y, mean, var, 0.0, SMALL, shares)
    assert np.allclose(var, x.astype("d").var((0, 2)), rtol=3e-3)
    assert np.allclose(y, exact(x.astype("d"), np.ones(3), np.zeros(3), 0.0)[0], atol=5e-3)


def test_what_does_not_fit_is_refused():
    x, c = np.ones((2, 3, 4), "f"), np.ones(3, "f")
    with pytest.raises(ValueError, match="an element a channel"):
        cn.batch_forward(x, np.ones(5, "f"), None, x, c, c, 1e-5)
    with pytest.raises(ValueError, match="must be contiguous"):
        cn.batch_forward(x.transpose(0, 2, 1).copy().transpose(0, 2, 1), None, None, x, c, c, 1e-5)
    with pytest.raises(TypeError, match="takes floating-point arrays"):
        cn.batch_apply(x.astype(int), None, None, x, c, c, 1e-5)


def test_defaults_are_in_the_space(monkeypatch):
    monkeypatch.setattr(cn, "INTERPRET", False)
    for places in (1, 2, 49, 100, 3136, 100_000):
        assert cn.settings_for((64, 64, places), None) in list(cn.SPACE.configs())
