"""Layer, RMS and group norm: short and long rows, dtypes, large means, what may be left out."""

import ml_dtypes
import numpy as np
import pytest

from triton_kernels import norm

BF16 = ml_dtypes.bfloat16
TOLERANCE = {np.float16: 4e-3, BF16: 3e-2, np.float32: 1e-5, np.float64: 1e-12}
LONG = {"BLOCK": 256, "ROWS": 4}


def exact(x, weight, bias, rms, eps=1e-5):
    mean = 0.0 if rms else x.mean(1, keepdims=True)
    rstd = 1 / np.sqrt(((x - mean) ** 2).mean(1, keepdims=True) + eps)
    y = (x - mean) * rstd
    return y * (1 if weight is None else weight) + (0 if bias is None else bias), mean, rstd


def exact_backward(g, x, weight, mean, rstd, rms):
    z, h = (x - mean) * rstd, g * (1 if weight is None else weight)
    dx = rstd * (h - z * (h * z).mean(1, keepdims=True) - (0 if rms else h.mean(1, keepdims=True)))
    return dx, g * z


def statistics(rows, dtype):
    return np.empty(rows, np.float64 if dtype is np.float64 else np.float32)


@pytest.mark.parametrize("config", [None, LONG], ids=["short", "long"])
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("rms", [False, True], ids=["layer", "rms"])
def test_rows(rms, dtype, config, rng):
    for rows, columns in ((7, 1), (5, 300), (33, 130)):
        x, g = (rng.standard_normal((2, rows, columns)) * 2 + 1).astype(dtype)
        weight, bias = rng.uniform(0.5, 1.5, (2, columns)).astype(dtype)
        bias = None if rms else bias
        y, out, mean, rstd = np.empty_like(x), np.empty_like(x), statistics(rows, dtype), statistics(rows, dtype)
        norm.norm_forward(x, weight, bias, y, None if rms else mean, rstd, 1e-5, config=config)
        x64, g64, w64 = x.astype("d"), g.astype("d"), weight.astype("d")
        want, m64, r64 = exact(x64, w64, None if rms else bias.astype("d"), rms)
        tolerance = TOLERANCE[dtype]
        assert np.allclose(y.astype("d"), want, rtol=tolerance, atol=tolerance)
        assert np.allclose(rstd, r64[:, 0], rtol=1e-5)
        of_weight, of_bias = np.empty_like(weight), None if rms else np.empty_like(weight)
        norm.norm_backward(g, x, weight, None if rms else mean, rstd, out, of_weight, of_bias, config=config)
        dx, per_element = exact_backward(g64, x64, w64, m64, r64, rms)
        scale = np.abs(dx) + np.abs(r64) * np.abs(g64 * w64).max() / 4
        assert (np.abs(out.astype("d") - dx) < 4 * tolerance * scale).all()
        assert np.allclose(of_weight.astype("d"), per_element.sum(0), rtol=tolerance, atol=tolerance * 8)
        if not rms:
            assert np.allclose(of_bias.astype("d"), g64.sum(0), rtol=tolerance, atol=tolerance * 8)


@pytest.mark.parametrize("config", [None, LONG], ids=["short", "long"])
def test_groups_have_a_weight_a_channel(config, rng):
    n, groups, channels, spatial = 3, 2, 6, 35
    x, g = rng.standard_normal((2, n, channels, spatial)).astype("f")
    weight, bias = rng.standard_normal((2, channels)).astype("f")
    rows = x.reshape(n * groups, -1)
    y, out, mean, rstd = np.empty_like(rows), np.empty_like(rows), statistics(6, None), statistics(6, None)
    norm.norm_forward(rows, weight, bias, y, mean, rstd, 1e-3, groups, spatial, config)
    wide = np.broadcast_to(weight[:, None], (n, channels, spatial)).reshape(rows.shape).astype("d")
    wide_bias = np.broadcast_to(bias[:, None], (n, channels, spatial)).reshape(rows.shape)
    want, m64, r64 = exact(rows.astype("d"), wide, wide_bias, False, 1e-3)
    assert np.allclose(y, want, rtol=1e-5, atol=1e-5)
    norm.norm_backward(g.reshape(rows.shape), rows, weight, mean, rstd, out, None, None, groups, spatial, config)
    dx, _ = exact_backward(g.reshape(rows.shape).astype("d"), rows.astype("d"), wide, m64, r64, False)
    assert np.allclose(out, dx, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("config", [None, LONG], ids=["short", "long"])
def test_a_large_mean_costs_no_digits(config, rng):
    x = (1e4 + rng.standard_normal((3, 1000))).astype("f")
    y, mean, rstd = np.empty_like(x), statistics(3, None), statistics(3, None)
    norm.norm_forward(x, None, None, y, mean, rstd, 0.0, config=config)
    assert np.allclose(y, exact(x.astype("d"), None, None, False, 0.0)[0], atol=2e-3)
    assert np.allclose(rstd, 1 / x.astype("d").std(1), rtol=1e-4)


def test_mixed_types_infinities_and_empty_arrays(rng):
    x, weight = rng.standard_normal((4, 9)).astype(BF16), rng.standard_normal(9).astype("f")
    x[1, 2], x[2, 3] = np.inf, np.nan
    y, mean, rstd = np.empty_like(x), statistics(4, None), statistics(4, None)
    norm.norm_forward(x, weight, None, y, mean, rstd, 1e-5)
    assert np.isnan(y[1:3].astype("f")).all()
    assert np.isfinite(y[[0, 3]].astype("f")).all()
    norm.norm_forward(x[:0], None, None, y[:0], mean[:0], rstd[:0], 1e-5)
    of_weight = np.ones(9, "f")
    norm.norm_backward(x[:0], x[:0], weight, mean[:0], rstd[:0], y[:0], of_weight)
    assert not of_weight.any()


def test_same_bits_twice(rng):
    x, g = rng.standard_normal((2, 64, 40)).astype("f")
    rstd, out = np.ones(64, "f"), np.empty_like(x)
    first, second = np.empty(40, "f"), np.empty(40, "f")
    norm.norm_backward(g, x, None, None, rstd, out, first)
    norm.norm_backward(g, x, None, None, rstd, out, second)
    assert first.tobytes() == second.tobytes()


def test_what_does_not_fit_is_refused():
    x, s = np.ones((4, 6), "f"), np.ones(4, "f")
    with pytest.raises(ValueError, match="parameters of 6 elements"):
        norm.norm_forward(x, np.ones(5, "f"), None, x, s, s, 1e-5)
    with pytest.raises(ValueError, match="must be contiguous"):
        norm.norm_forward(np.ones((4, 12), "f")[:, ::2], None, None, x, s, s, 1e-5)
    with pytest.raises(TypeError, match="takes floating-point arrays"):
        norm.norm_forward(x.astype(int), None, None, x, s, s, 1e-5)


def test_defaults_are_in_the_space(monkeypatch):
    monkeypatch.setattr(norm, "INTERPRET", False)
    for columns in (1, 100, 300, 3000, 100_000):
        assert norm.settings_for((64, columns), None) in list(norm.SPACE.configs())
