"""Variance, standard deviation and log-sum-exp: axes, layouts, shares, large means, infinities."""

import itertools

import ml_dtypes
import numpy as np
import pytest

from triton_kernels.moments import moments_forward

BF16 = ml_dtypes.bfloat16
TOLERANCE = {np.float16: 2e-3, BF16: 2e-2, np.float32: 4e-6, np.float64: 1e-13}
SMALL = {"BLOCK_KEPT": 4, "BLOCK_REDUCE": 256}


def exact(kind, x, axes, correction):
    if kind != "logsumexp":
        return getattr(x, kind)(axes, ddof=correction)
    with np.errstate(all="ignore"):
        top = x.max(axes, keepdims=True)
        top = np.where(np.isfinite(top), top, 0)
        return (np.log(np.exp(x - top).sum(axes, keepdims=True)) + top).squeeze(axes)


@pytest.mark.parametrize(("config", "shares"), [(None, None), (SMALL, 3)], ids=["whole", "shares"])
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("kind", ["var", "std", "logsumexp"])
def test_axes_and_layouts(kind, dtype, config, shares, rng):
    x = (rng.standard_normal((3, 40, 33)) * 2 + 1).astype(dtype)
    views = (x, x.transpose(2, 0, 1)[::2]) if dtype is np.float32 else (x,)
    for view, axes in itertools.product(views, ((2,), (0, 1), (0, 1, 2))):
        want = exact(kind, view.astype("d"), axes, 1)
        out = np.empty(want.shape, dtype)
        moments_forward(kind, view, axes, out, 1, config, shares)
        assert np.allclose(out.astype("d"), want, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize(("config", "shares"), [(None, None), (SMALL, 3)])
def test_infinities_nan_and_large_means(config, shares, rng):
    x = rng.standard_normal((7, 900)).astype("f")
    x[0], x[1, 5], x[2, 400], x[3, :300], x[4] = -np.inf, np.inf, np.nan, -np.inf, x[4] * 500
    out = np.empty(7, "f")
    moments_forward("logsumexp", x, (1,), out, 0, config, shares)
    assert np.allclose(out, exact("logsumexp", x.astype("d"), (1,), 0), rtol=1e-5, equal_nan=True)
    x = (1e4 + rng.standard_normal((7, 900))).astype("f")
    moments_forward("var", x, (1,), out, 1, config, shares)
    assert np.allclose(out, x.astype("d").var(1, ddof=1), rtol=3e-3)
    moments_forward("var", x[:, :1], (1,), out, 1)
    assert np.isnan(out).all()


def test_what_does_not_fit_is_refused():
    x = np.ones((3, 4), "f")
    with pytest.raises(ValueError, match="takes no empty arrays"):
        moments_forward("var", x[:, :0], (1,), x[:, 0].copy())
    with pytest.raises(ValueError, match="leaves another"):
        moments_forward("var", x, (1,), np.empty(4, "f"))
    with pytest.raises(TypeError, match="takes floating-point arrays"):
        moments_forward("var", x.astype(int), (1,), np.empty(3, "f"))
