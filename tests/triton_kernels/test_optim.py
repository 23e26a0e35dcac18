"""The multi-tensor kernel of optimizers' steps: blocks, tables, half-precision types, bounds and errors."""

import ml_dtypes
import numpy as np
import pytest

from triton_kernels import optim
from triton_kernels.interpreter import OutOfBounds


def descent():
    return optim.build("descent", ["p", "g"], ["lr"], ["t0 = (g * lr)", "t1 = (p - t0)"], [("p", "t1")])


def heavy_ball():
    lines = ["t0 = (b * momentum)", "t1 = (t0 + g)", "t2 = (t1 * lr)", "t3 = (p - t2)"]
    return optim.build("heavy_ball", ["p", "g", "b"], ["lr", "momentum"], lines, [("p", "t3"), ("b", "t1")])


def test_equal_texts_are_one_kernel():
    assert descent() is descent()
    assert repr(descent()) == "<update kernel descent(p, g, lr)>"


@pytest.mark.parametrize("config", [None, {"BLOCK": 512, "num_warps": 4}])
def test_many_tensors_in_one_launch(config, rng, monkeypatch):
    sizes = (0, 1, 3000, 512, 513, 0, 7)
    p, g, b = ([rng.standard_normal(n).astype("f") for n in sizes] for _ in range(3))
    expected = [(x - 0.5 * (0.9 * z + y), 0.9 * z + y) for x, y, z in zip(p, g, b, strict=True)]
    launches = []
    stock = optim.Launch.__call__
    monkeypatch.setattr(optim.Launch, "__call__", lambda self, *a, **k: (launches.append(self), stock(self, *a, **k)))
    heavy_ball()((p, g, b), (0.5, 0.9), config=config)
    assert len(launches) == 1
    for (x, z), a, c in zip(expected, p, b, strict=True):
        np.testing.assert_allclose(a, x, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(c, z, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_half_types_are_stored_and_float32_computed(dtype, rng):
    p, g = (rng.standard_normal(30).astype(dtype) for _ in range(2))
    expected = (p.astype("f") - np.float32(0.3) * g.astype("f")).astype(dtype)
    descent()(([p], [g]), (0.3,))
    assert np.array_equal(p, expected)


def test_numbers_keep_double_precision(rng):
    p, g = rng.standard_normal((2, 30))
    expected = p - 0.1 * g
    descent()(([p], [g]), (0.1,))
    assert np.array_equal(p, expected)


def test_tables_are_kept_while_addresses_repeat(rng):
    kernel = optim.build("kept", ["p", "g"], ["lr"], ["t0 = (p - g * lr)"], [("p", "t0")])
    p, g = [np.ones(4, "f")], [np.ones(4, "f")]
    for _ in range(3):
        kernel((p, g), (0.25,))
    assert len(kernel._tables) == 1
    other = [np.ones(4, "f")]
    kernel((p, other), (0.25,))
    assert len(kernel._tables) == 2
    assert p[0][0] == 0.0


def test_arrays_off_alignment_are_taken(rng):
    base = np.ones(9, "f")
    p, g = base[1:], np.ones(8, "f")
    descent()(([p], [g]), (0.5,))
    assert p.tolist() == [0.5] * 8
    assert base[0] == 1.0


def test_the_bounds_check_sees_through_the_table(rng, monkeypatch):
    kernel = optim.build("stray", ["p", "g"], ["lr"], ["t0 = (p - g * lr)"], [("p", "t0")])
    p, g = [np.ones(4, "f")], [np.ones(4, "f")]
    stock = kernel._table

    def wrong(tensors, dtype):
        table, aligned = stock(tensors, dtype)
        table = table.copy()
        table[0, -1] = 1 << 20
        return table, aligned

    monkeypatch.setattr(kernel, "_table", wrong)
    with pytest.raises(OutOfBounds, match="array 0 of a table"):
        kernel((p, g), (0.25,), config={"BLOCK": 512})


def test_errors_say_what_came():
    p, kernel = np.ones((3, 4), "f"), descent()
    with pytest.raises(TypeError, match=r"takes 2 lists \(p, g\) and 1 numbers \(lr\), got 1 and 1"):
        kernel(([p],), (0.1,))
    with pytest.raises(ValueError, match=r"must be contiguous; tensor 0 has p float32 \(4, 3\)"):
        kernel(([p.T], [p.T]), (0.1,))
    with pytest.raises(ValueError, match="each of its parameter's shape; tensor 1 has"):
        kernel(([p, p.copy()], [p.copy(), p[:2]]), (0.1,))
    with pytest.raises(ValueError, match="all of one dtype"):
        kernel(([p], [p.astype("d")]), (0.1,))
    with pytest.raises(ValueError, match="shorter"):
        kernel(([p], []), (0.1,))
    assert kernel(([], []), (0.1,)) is None
