"""Products with weights of 8 and 4 bits, against float64 NumPy."""

import ml_dtypes
import numpy as np
import pytest

from triton_kernels import runtime
from triton_kernels.quantised import SPACE, default_for, weight_int4_forward, weight_int8_forward

BF16 = ml_dtypes.bfloat16
TOLERANCE = {np.float32: 1e-5, np.float16: 1e-2, BF16: 6e-2}
SMALL = {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32}


def close(out, exact):
    limit = TOLERANCE[out.dtype.type]
    return np.allclose(out.astype("d"), exact, rtol=limit, atol=limit * np.abs(exact).max())


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 1), (7, 130, 33), (65, 64, 5)])
def test_int8(m, k, n, dtype, rng):
    x, weight = rng.standard_normal((m, k)).astype(dtype), rng.integers(-128, 128, (n, k), np.int8)
    scale, bias = rng.uniform(0.01, 0.02, n).astype(dtype), rng.standard_normal(n).astype(dtype)
    exact = x.astype("d") @ weight.T * scale.astype("d")
    out = np.empty((m, n), dtype)
    weight_int8_forward(x, weight, scale, out)
    assert close(out, exact)
    for parts in (1, 3):
        weight_int8_forward(x, weight, scale, out, bias, SMALL, parts)
        assert close(out, exact + bias.astype("d"))


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("m", "k", "n", "groups"), [(1, 16, 1, 1), (7, 144, 33, 3), (3, 192, 5, 2)])
def test_int4(m, k, n, groups, dtype, rng):
    x, q = rng.standard_normal((m, k)).astype(dtype), rng.integers(0, 16, (n, k), np.uint8)
    scale = rng.uniform(0.1, 0.2, (n, groups)).astype(dtype)
    zero, bias = rng.uniform(0, 15, (n, groups)).astype(dtype), rng.standard_normal(n).astype(dtype)
    spread = [np.repeat(a.astype("d"), k // groups, 1) for a in (scale, zero)]
    exact = x.astype("d") @ ((q - spread[1]) * spread[0]).T + bias.astype("d")
    out = np.empty((m, n), dtype)
    packed = q[:, ::2] | (q[:, 1::2] << 4)
    weight_int4_forward(x, packed, scale, zero, out, bias)
    assert close(out, exact)
    assert runtime.latest.constexprs["BLOCK_K"] <= k // groups
    weight_int4_forward(x, packed, scale, zero, out, bias, SMALL, parts=2)
    assert close(out, exact)


def test_strides_and_few_rows(rng):
    x, weight = rng.standard_normal((60, 4)).astype("f").T[::2], rng.integers(-128, 128, (10, 120), np.int8)
    scale, out = np.ones(10, "f"), np.empty((5, 2), "f").T
    weight_int8_forward(x, weight[::2, ::2], scale[::2], out)
    assert close(out, x.astype("d") @ weight[::2, ::2].T)


def test_errors_say_what_came():
    x, out = np.ones((2, 32), "f"), np.empty((2, 3), "f")
    weight, scale = np.ones((3, 32), np.int8), np.ones(3, "f")
    with pytest.raises(TypeError, match="the weight int8"):
        weight_int8_forward(x, weight.astype("u1"), scale, out)
    with pytest.raises(ValueError, match="needs K = 32"):
        weight_int8_forward(x, weight[:, :16], scale, out)
    with pytest.raises(ValueError, match=r"bias is \(2,\), not \(3,\)"):
        weight_int8_forward(x, weight, scale, out, np.ones(2, "f"))
    packed, four = np.ones((3, 16), np.uint8), np.ones((3, 4), "f")
    with pytest.raises(ValueError, match="groups of a multiple of 16 weights"):
        weight_int4_forward(x, packed, four, four, out)


def test_space():
    configs = list(SPACE.configs())
    assert len(configs) <= 14
    for shape in [(1, 4096, 4096), (4096, 4096, 4096)]:
        for target in ("sm_80", "sm_90", "sm_100", "gfx942"):
            assert all(default_for(shape, dtype, target) in configs for dtype in TOLERANCE)
