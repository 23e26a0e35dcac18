"""Elementwise kernels over dtypes, layouts, numbers, bools and parameters, against float64 NumPy."""

import inspect

import ml_dtypes
import numpy as np
import pytest

from triton_kernels import elementwise
from triton_kernels.elementwise import build, collapse

BF16 = ml_dtypes.bfloat16
DTYPES = [np.float16, BF16, np.float32, np.float64]
RTOL = {np.float16: 1e-3, BF16: 8e-3, np.float32: 2e-7, np.float64: 1e-15}


def axpy():
    return build("axpy", ["x", "y"], ["a"], ["t0 = (x * a)", "t1 = (t0 + y)"], "t1")


def layouts(rng, dtype):
    """The same (3, 4, 5) values in memory orders that a kernel meets."""
    base = rng.standard_normal((3, 4, 5)).astype(dtype)
    yield "contiguous", base
    yield "transposed", base.transpose(2, 0, 1).copy().transpose(1, 2, 0)
    wide = np.zeros((6, 4, 15), dtype)
    wide[::2, :, 1::3] = base
    yield "sliced", wide[::2, :, 1::3]
    yield "reversed", base[::-1, :, ::-1].copy()[::-1, :, ::-1]


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes_and_layouts(dtype, rng):
    y = rng.standard_normal((3, 4, 5)).astype(dtype)
    for layout, x in layouts(rng, dtype):
        for other in (y, y[:, :1], y[0], np.float64(2.5)):
            other = float(other) if np.ndim(other) == 0 else other
            out = np.empty((3, 4, 5), dtype)
            axpy()((x, other), (0.1,), out)
            exact = x.astype("d") * 0.1 + np.asarray(other).astype("d")
            assert np.allclose(out.astype("d"), exact, rtol=RTOL[dtype], atol=RTOL[dtype]), layout


def test_outputs_of_any_layout(rng):
    x, y = rng.standard_normal((2, 6, 7)).astype("f")
    for out in (np.empty((7, 6), "f").T, np.empty((6, 14), "f")[:, ::2], np.empty((12, 7), "f")[::-2]):
        axpy()((x, y), (2.0,), out)
        assert np.allclose(out, x * 2 + y)


def test_zero_dimensions_ones_and_empty_arrays():
    x, out = np.array(3.0, "f"), np.zeros((), "f")
    axpy()((x, x), (2.0,), out)
    assert out == 9
    out = np.zeros((1, 1, 1), "f")
    axpy()((x, np.ones((1, 1), "f")), (2.0,), out)
    assert out == 7
    axpy()((np.empty((0, 3), "f"), np.empty((3,), "f")), (2.0,), np.empty((0, 3), "f"))


def test_seven_dimensions_that_do_not_merge(rng):
    x = rng.standard_normal((2, 3, 2, 3, 2, 3, 2)).astype("f")[::-1, :, ::-1, :, ::-1, :, ::-1]
    y = np.ascontiguousarray(np.swapaxes(x, 0, 6))
    out = np.empty(x.shape, "f")
    axpy()((x, y), (1.5,), out)
    assert np.allclose(out, x * np.float32(1.5) + y)


def test_many_programs_and_given_configs(rng):
    x = rng.standard_normal(5001).astype("f")
    out = np.empty_like(x)
    axpy()((x, x), (1.0,), out, {"BLOCK": 512, "num_warps": 4})
    assert np.array_equal(out, x + x)
    with pytest.raises(ValueError, match="no tunable named WARPS"):
        axpy()((x, x), (1.0,), out, {"WARPS": 4})


def test_float64_parameters_and_numbers_keep_their_digits():
    x = np.array([1.0])
    for arrays, a in (((x, 0.0), 0.1), ((0.1, np.zeros(1)), 1.0)):
        out = np.empty(1)
        axpy()(arrays, (a,), out)
        assert out[0] == 0.1


def test_bool_inputs_and_outputs(rng):
    x, y = rng.standard_normal((2, 5, 6)).astype("f")
    c = x > y
    out = np.empty((5, 6), "f")
    build("pick", ["c", "x", "y"], [], ["t0 = tl.where(c, x, y)"], "t0", bools=["c"])((c.T.copy().T, x, y), (), out)
    assert np.array_equal(out, np.where(c, x, y))
    flags = np.empty((5, 6), bool)
    build("less", ["x", "y"], [], ["t0 = (x < y)", "t1 = (t0 == 0)"], "t1", "bool")((x, y), (), flags)
    assert np.array_equal(flags, ~(x < y))
    build("both", ["c", "d"], [], ["t0 = (c & d)"], "t0", "bool")((c, ~c), (), flags)
    assert not flags.any()
    build("scaled", ["c", "x"], [], ["t0 = (c * x)"], "t0")((c, x), (), out)
    assert np.array_equal(out, c * x)


@pytest.mark.parametrize(
    ("result", "value"), [("0", 0), ("(-2.5)", -2.5), ('float("inf")', np.inf), ("a", 4.0), ("x", 1.0)]
)
def test_results_that_are_no_statement(result, value):
    out = np.zeros(3, "f")
    build("constant", ["x"], ["a"], [], result)((np.ones(3, "f"),), (4.0,), out)
    assert (out == value).all()


def test_numbers_as_arguments_of_calls(rng):
    x = rng.standard_normal(50)
    out = np.empty(50)
    lines = ["t0 = scalar.maximum(x, (-0.3))", 't1 = scalar.minimum(t0, float("inf"))', "t2 = scalar.pow(2, t1)"]
    build("literals", ["x"], [], lines, "t2")((x,), (), out)
    assert np.allclose(out, 2.0 ** np.maximum(x, -0.3), rtol=1e-14)


def test_mixed_dtypes_compute_in_the_widest(rng):
    x, y = rng.standard_normal(20).astype(np.float16), rng.standard_normal(20)
    out = np.empty(20)
    axpy()((x, y), (0.1,), out)
    assert np.allclose(out, x.astype("d") * 0.1 + y, rtol=1e-15)


def test_build_caches_and_the_source_can_be_inspected():
    kernel = axpy()
    assert kernel is axpy()
    jitted = kernel.kernel((), frozenset(), 0)
    assert "t1 = t0 + y" in inspect.getsource(jitted.fn)


def test_errors_say_what_came():
    x = np.ones(3, "f")
    with pytest.raises(TypeError, match=r"axpy takes 2 inputs \(x, y\) and 1 parameters \(a\), got 1 and 0"):
        axpy()((x,), (), x)
    with pytest.raises(ValueError, match=r"shape \(4,\) does not broadcast to the output's \(3,\)"):
        axpy()((x, np.ones(4, "f")), (1.0,), x)
    with pytest.raises(TypeError, match="got x: int64, y: float32, out: float32"):
        axpy()((np.arange(3), x), (1.0,), x)
    with pytest.raises(TypeError, match="out must be bool, not float32"):
        build("less", ["x", "y"], [], ["t0 = (x < y)"], "t0", "bool")((x, x), (), x)
    with pytest.raises(ValueError, match="out_kind"):
        build("odd", ["x"], [], [], "x", "int")


def test_collapse():
    x = np.zeros((4, 5, 6))
    assert collapse((4, 5, 6), [x, x]) == ([120], [(1,), (1,)])
    t = x.transpose(2, 1, 0)
    assert collapse(t.shape, [t, t]) == ([120], [(1,), (1,)])
    assert collapse((4, 5, 6), [x[:, :1], x]) == ([4, 5, 6], [(30, 0, 1), (30, 6, 1)])
    assert collapse((), [np.zeros(()), np.zeros(())]) == ([], [(), ()])


def test_space():
    assert elementwise.SPACE.default in list(elementwise.SPACE.configs())


def test_several_results_are_one_launch(rng):
    lines = ["t0 = (g * b)", "t1 = (g * a)"]
    kernel = elementwise.build("pair", ["g", "b", "a"], [], lines, "t0", more=["t1", "2.0"])
    g, a, b = (
        rng.standard_normal((5, 33)).astype("f"),
        rng.standard_normal((5, 1)).astype("f"),
        np.float32(3) * np.ones(33, "f"),
    )
    outs = [np.empty((5, 33), "f") for _ in range(3)]
    kernel((g, b, a), (), outs[0], more=outs[1:])
    for out, want in zip(outs, (g * b, g * a, np.full((5, 33), 2.0)), strict=True):
        assert np.array_equal(out, want)
    with pytest.raises(ValueError, match="takes 2 more outputs"):
        kernel((g, b, a), (), outs[0], more=outs[1:2])
    with pytest.raises(ValueError, match="of the first one's layout"):
        kernel((g, b, a), (), outs[0], more=[outs[1], outs[2].astype("d")])
