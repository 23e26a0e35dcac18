"""Matrix products over dtypes, strides, broadcast batches, odd sizes, forms and activations, against float64 NumPy."""

import math

import ml_dtypes
import numpy as np
import pytest

from triton_kernels import runtime
from triton_kernels.epilogue import ACTIVATIONS
from triton_kernels.matmul import FORMS, SPACE, SPACE_FLOAT32, default_for, matmul_forward, parts_for, space_for

BF16 = ml_dtypes.bfloat16
TOLERANCE = {np.float16: 2e-2, BF16: 2e-1, np.float32: 2e-5, np.float64: 1e-12}
HALF = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64, "num_warps": 4, "num_stages": 3}
WHOLE = {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32, "num_stages": 2}


def small(dtype):
    return HALF if np.dtype(dtype).itemsize == 2 else WHOLE


def close(out, a, b, bias=0.0):
    exact = a.astype("d") @ b.astype("d") + np.asarray(bias).astype("d")
    return np.allclose(out.astype("d"), exact, atol=TOLERANCE[out.dtype.type], rtol=TOLERANCE[out.dtype.type])


@pytest.mark.parametrize("dtype", [np.float16, BF16, np.float32, np.float64])
@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 1), (5, 7, 3), (33, 130, 17), (64, 64, 64), (1, 50, 40)])
def test_sizes_and_dtypes(m, k, n, dtype, rng):
    a, b = rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)
    out = np.empty((m, n), dtype)
    matmul_forward(a, b, out)
    assert close(out, a, b)
    matmul_forward(a, b, out, small(dtype))
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


def reference(x, activation):
    if activation == "relu":
        return np.maximum(x, 0)
    if activation == "gelu":
        return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))
    if activation == "gelu_tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return x / (1 + np.exp(-x)) if activation == "silu" else x


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations(activation, parts, rng):
    a, b, bias = (rng.standard_normal(s).astype("f") for s in ((9, 70), (70, 11), (11,)))
    out = np.empty((11, 9), "f").T
    matmul_forward(a, b, out, WHOLE, bias=bias, activation=activation, parts=parts)
    exact = reference(a.astype("d") @ b.astype("d") + bias, activation)
    assert np.allclose(out, exact, rtol=1e-5, atol=1e-5)


def test_relu_keeps_nan():
    out = np.empty((1, 2), "f")
    matmul_forward(np.array([[np.nan]], "f"), np.array([[1, 2]], "f"), out, activation="relu")
    assert np.isnan(out).all()


@pytest.mark.parametrize(("dtype", "parts"), [(np.float32, 2), (np.float64, 7), (BF16, 4)])
def test_split_products_are_the_whole_ones_in_parts(dtype, parts, rng):
    a = rng.standard_normal((2, 1, 17, 130)).astype(dtype)
    b = rng.standard_normal((3, 33, 130)).astype(dtype).swapaxes(1, 2)
    out, again = np.empty((2, 3, 17, 33), dtype), np.empty((2, 3, 17, 33), dtype)
    matmul_forward(a, b, out, small(dtype), parts=parts)
    assert close(out, a, b)
    assert runtime.latest.name == "join_kernel"
    matmul_forward(a, b, again, small(dtype), parts=parts)
    assert np.array_equal(out.view(np.uint8), again.view(np.uint8))  # the same bits: no atomics


def test_parts_of_no_k(rng):
    a, b, out = np.ones((3, 5), "f"), np.ones((5, 2), "f"), np.empty((3, 2), "f")
    matmul_forward(a, b, out, WHOLE, parts=8)  # more parts than there are blocks of K
    assert (out == 5).all()


def test_as_many_parts_as_fill_the_gpu():
    units = 3  # of the interpreter
    assert parts_for(1, 10_000, HALF) == units
    assert parts_for(1, 10_000, {**HALF, "BLOCK_M": 16}) == 3 * units
    assert parts_for(2, 10_000, HALF) == 1
    assert parts_for(1, 1100, HALF) == 2
    assert parts_for(1, 100, HALF) == 1


@pytest.mark.parametrize(
    ("form", "transposed"),
    [("persistent", (False, True)), ("descriptors", (False, False)), ("descriptors", (True, True))],
)
def test_persistent_programs_walk_all_tiles(form, transposed, rng):
    assert form in FORMS
    a, b = rng.standard_normal((304, 72)).astype(np.float16), rng.standard_normal((72, 136)).astype(np.float16)
    a = np.ascontiguousarray(a.T).T if transposed[0] else a
    b = np.ascontiguousarray(b.T).T if transposed[1] else b
    out = np.empty((304, 136), np.float16)
    config = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "FORM": form, "num_warps": 8}
    matmul_forward(a, b, out, config, bias=b[0])
    assert close(out, a, b, b[0])
    assert runtime.latest.grid == (3, 1, 1)
    assert runtime.latest.constexprs["FORM"] == form


def test_descriptors_only_where_addresses_are_aligned(rng):
    a = rng.standard_normal((130, 65)).astype(BF16)
    config = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "FORM": "descriptors", "num_warps": 8}
    memory = np.zeros(72 * 130 + 8, BF16)
    start = -memory.__array_interface__["data"][0] % 16 // 2
    for off, form in ((0, "descriptors"), (1, "persistent")):
        x = memory[start + off : start + off + 72 * 130].reshape(130, 72)[:, :65]
        x[:] = a
        out = np.empty((130, 130), BF16)
        matmul_forward(x, x.T, out, config)
        assert close(out, a, a.T)
        assert runtime.latest.constexprs["FORM"] == form
    batch = np.empty((2, 130, 130), BF16)
    matmul_forward(np.stack([x, x]), x.T, batch, config)
    assert close(batch[1], a, a.T)
    assert runtime.latest.constexprs["FORM"] == "persistent"


def test_float32_multiplies_in_float32(rng):
    a = (1 + rng.standard_normal((16, 16)) * 1e-5).astype("f")
    out = np.empty((16, 16), "f")
    matmul_forward(a, a, out)
    assert np.allclose(out, a.astype("d") @ a.astype("d"), rtol=1e-6, atol=0)  # TF32 would keep three digits
    assert runtime.latest.constexprs["PRECISION"] == "ieee"
    matmul_forward(a, a, out, input_precision="tf32")
    assert runtime.latest.constexprs["PRECISION"] == "tf32"


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
    with pytest.raises(ValueError, match="no activation 'elu' can be fused; there are relu, gelu"):
        matmul_forward(a, a.T, out, activation="elu")


@pytest.mark.parametrize("dtype", [np.float16, BF16, np.float32])
def test_defaults_are_of_the_space(dtype):
    configs = list(space_for(dtype).configs())
    for shape in [(1, 4096, 4096), (20, 4096, 4096), (4096, 8, 64), (100, 100, 100), (8192, 1024, 1024), (4096,) * 3]:
        assert default_for(shape, np.dtype(dtype)) in configs


def test_spaces():
    assert len(list(SPACE.configs())) == 48
    assert len(list(SPACE_FLOAT32.configs())) <= 20
