"""Matrix products over dtypes, strides, broadcast batches and odd sizes, against float64 NumPy."""

import ml_dtypes
import numpy as np
import pytest

from triton_kernels.matmul import SPACE, matmul_forward

BF16 = ml_dtypes.bfloat16
TOLERANCE = {np.float16: 2e-2, BF16: 2e-1, np.float32: 2e-5, np.float64: 1e-12}
SMALL = {"BLOCK_M": 32, "BLOCK_N": 32, "num_stages": 2}


def close(out, a, b, bias=0.0):
    exact = a.astype("d") @ b.astype("d") + np.asarray(bias).astype("d")
    return np.allclose(out.astype("d"), exact, atol=TOLERANCE[out.dtype.type], rtol=TOLERANCE[out.dtype.type])


@pytest.mark.parametrize("dtype", [np.float16, BF16, np.float32, np.float64])
@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 1), (5, 7, 3), (33, 65, 17), (64, 64, 64), (1, 50, 40)])
def test_sizes_and_dtypes(m, k, n, dtype, rng):
    a, b = rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)
    out = np.empty((m, n), dtype)
    matmul_forward(a, b, out)
    assert close(out, a, b)
    matmul_forward(a, b, out, SMALL)
    assert close(out, a, b)


def test_strides(rng):
    a, b = rng.standard_normal((20, 30)).astype("f"), rng.standard_normal((30, 25)).astype("f")
    out = np.empty((25, 20), "f")
    matmul_forward(b.T, a.T, out)
    assert close(out, b.T, a.T)
    view = np.empty((50, 20), "f").T[::2, ::2]
    matmul_forward(a[::-2, ::3], b[::3, ::-1], view)
    assert close(view, a[::-2, ::3], b[::3, ::-1])


def test_batches_broadcast(rng):
    a = rng.standard_normal((3, 1, 8, 9)).astype("f")
    b = rng.standard_normal((5, 7, 9)).astype("f").swapaxes(1, 2)
    out = np.empty((3, 5, 8, 7), "f")
    matmul_forward(a, b, out)
    assert close(out, a, b)
    shared = np.empty((3, 5, 8, 4), "f")
    left = np.broadcast_to(a, (3, 5, 8, 9))
    matmul_forward(left, b[0, :, :4], shared)
    assert close(shared, left, b[0, :, :4])


def test_bias_and_empty_sums(rng):
    a, b, bias = (rng.standard_normal(s).astype("f") for s in ((6, 8), (8, 5), (10,)))
    out = np.empty((6, 5), "f")
    matmul_forward(a, b, out, bias=bias[::2])
    assert close(out, a, b, bias[::2])
    matmul_forward(a[:, :0], b[:0], out, bias=bias[:5])
    assert np.array_equal(out, np.broadcast_to(bias[:5], (6, 5)))
    matmul_forward(a[:0], b, np.empty((0, 5), "f"))


def test_float32_multiplies_in_float32(rng):
    a = (1 + rng.standard_normal((16, 16)) * 1e-5).astype("f")
    out = np.empty((16, 16), "f")
    matmul_forward(a, a, out)
    assert np.allclose(out, a.astype("d") @ a.astype("d"), rtol=1e-6, atol=0)  # TF32 would keep three digits


def test_errors_say_what_came():
    a, out = np.ones((2, 3), "f"), np.empty((2, 2), "f")
    with pytest.raises(ValueError, match=r"shapes cannot be multiplied: \(2, 3\) @ \(2, 3\)"):
        matmul_forward(a, a, out)
    with pytest.raises(TypeError, match="got float32 and float64"):
        matmul_forward(a, np.ones((3, 2)), out)
    with pytest.raises(ValueError, match="N is 2, M is 2"):
        matmul_forward(a, a.T, np.empty((2, 3), "f"))
    with pytest.raises(ValueError, match="batch dimensions do not broadcast"):
        matmul_forward(np.ones((4, 2, 3), "f"), a.T, np.empty((5, 2, 2), "f"))


def test_space():
    configs = list(SPACE.configs())
    assert SPACE.default in configs
    assert len(configs) == 11
