"""Optimizer steps against the formulas in float64."""

import ml_dtypes
import numpy as np
import pytest

from triton_kernels.optim import adamw_step, sgd_step


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("decoupled", "maximize"), [(True, False), (False, False), (True, True)])
def test_adamw(decoupled, maximize, dtype, rng):
    p, g = rng.standard_normal((2, 5, 7)).astype(dtype)
    m, v = np.zeros_like(p), np.zeros_like(p)
    p64, m64, v64 = p.astype("d"), 0.0, 0.0
    for step in range(1, 6):
        adamw_step([p], [g], [m], [v], step=step, lr=0.01, beta1=0.9, beta2=0.99, weight_decay=0.1,
                   decoupled=decoupled, maximize=maximize)  # fmt: skip
        grad = -g.astype("d") if maximize else g.astype("d")
        if decoupled:
            p64 = p64 * (1 - 0.01 * 0.1)
        else:
            grad = grad + 0.1 * p64
        m64 = 0.9 * m64 + 0.1 * grad
        v64 = 0.99 * v64 + 0.01 * grad**2
        p64 = p64 - 0.01 * (m64 / (1 - 0.9**step)) / (np.sqrt(v64 / (1 - 0.99**step)) + 1e-8)
    tolerance = 2e-6 if dtype is np.float32 else 1e-13
    assert np.allclose(p, p64, rtol=tolerance, atol=tolerance)
    assert np.allclose(v, v64, rtol=1e-5)


@pytest.mark.parametrize("options", [
    {}, {"weight_decay": 0.1}, {"momentum": 0.9}, {"momentum": 0.9, "nesterov": True},
    {"momentum": 0.9, "dampening": 0.3, "maximize": True},
])  # fmt: skip
def test_sgd(options, rng):
    p, g = rng.standard_normal((2, 40)).astype("f")
    buffer = np.full(40, np.nan, "f")  # the first step must not read it
    p64, b64 = p.astype("d"), None
    momentum, dampening = options.get("momentum", 0.0), options.get("dampening", 0.0)
    for step in range(4):
        sgd_step([p], [g], [buffer] if momentum else None, lr=0.1, first=step == 0, **options)
        grad = (-1 if options.get("maximize") else 1) * g.astype("d") + options.get("weight_decay", 0.0) * p64
        if momentum:
            b64 = grad if b64 is None else momentum * b64 + (1 - dampening) * grad
            grad = grad + momentum * b64 if options.get("nesterov") else b64
        p64 = p64 - 0.1 * grad
    assert np.allclose(p, p64, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_half_precision_storage(dtype, rng):
    p, g = (rng.standard_normal(30).astype(dtype) for _ in range(2))
    expected = (p.astype("f") - 0.5 * g.astype("f")).astype(dtype)
    sgd_step([p], [g], lr=0.5)
    assert np.array_equal(p, expected)


def test_several_tensors_blocks_and_empty_ones(rng):
    params = [rng.standard_normal(n).astype("f") for n in (0, 1, 3000)]
    before = [p.copy() for p in params]
    sgd_step(params, [np.ones_like(p) for p in params], lr=0.5, config={"BLOCK": 512, "num_warps": 4})
    for p, was in zip(params, before, strict=True):
        assert np.array_equal(p, was - np.float32(0.5))


def test_errors_say_what_came():
    p = np.ones((3, 4), "f")
    with pytest.raises(ValueError, match="step counts from 1, got 0"):
        adamw_step([p], [p], [p], [p], step=0, lr=0.1)
    with pytest.raises(ValueError, match="momentum needs buffers"):
        sgd_step([p], [p], lr=0.1, momentum=0.9)
    with pytest.raises(ValueError, match="must be contiguous"):
        sgd_step([p.T], [p.T], lr=0.1)
    with pytest.raises(ValueError, match="of one shape"):
        sgd_step([p], [p[:2]], lr=0.1)
