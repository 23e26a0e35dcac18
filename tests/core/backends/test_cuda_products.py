"""The rows of products on the device cuda: gradients against float64, which kernel ran, and the precision's setting."""

from __future__ import annotations

import numpy as np
import pytest

import core
from core import backends

BF16 = core.bfloat16.numpy
LIMIT = {np.dtype(np.float32): 1e-5, np.dtype(np.float16): 1e-2, BF16: 6e-2}


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def close(got, want):
    assert got.shape == want.shape
    limit = LIMIT[got.dtype]
    np.testing.assert_allclose(got.astype("d"), want, rtol=limit, atol=limit * max(1.0, float(np.abs(want).max())))


def row(name, *arrays, **named):
    (found,) = backends.rows(name, "cuda")
    assert found.backend == "Triton"
    assert found.declines(*arrays, **named) is None
    return found.run(*arrays, **named)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, BF16])
def test_gradients_of_linear(dtype, rng):
    g, weight, x = (rng.standard_normal(s).astype(dtype) for s in ((3, 7, 5), (5, 33), (3, 7, 33)))
    gx, gw, gb = row("linear.backward", g=g, weight=weight, x=x, needs=(True, True, True))
    g, weight, x = g.astype("d"), weight.astype("d"), x.astype("d")
    close(gx, g @ weight)
    close(gw, g.reshape(-1, 5).T @ x.reshape(-1, 33))
    close(gb, g.sum((0, 1)))


def test_only_what_is_needed(rng):
    g, x = rng.standard_normal((7, 5)).astype("f"), rng.standard_normal((7, 3)).astype("f")
    (found,) = backends.rows("linear.backward", "cuda")
    gx, gw, gb = found.run(g=g, weight=None, x=x, needs=(False, True, False))
    assert gx is None
    assert gb is None
    close(gw, g.T.astype("d") @ x)


@pytest.mark.parametrize(
    ("a_shape", "b_shape"), [((7, 33), (33, 5)), ((2, 3, 4, 5), (2, 3, 5, 6)), ((2, 7, 5), (5, 3)), ((1, 7, 5), (5, 3))]
)
def test_gradients_of_matmul(a_shape, b_shape, rng):
    a, b = rng.standard_normal(a_shape).astype("f"), rng.standard_normal(b_shape).astype("f")
    g = rng.standard_normal((*a_shape[:-1], b_shape[-1])).astype("f")
    ga, gb = row("matmul.backward", g=g, b=b, a_shape=a.shape, a=a, b_shape=b.shape, needs=(True, True))
    close(ga, g.astype("d") @ b.astype("d").swapaxes(-1, -2))
    whole = a.astype("d").swapaxes(-1, -2) @ g.astype("d")
    close(gb, whole.sum(tuple(range(whole.ndim - 2))) if b.ndim == 2 else whole)


def test_stacks_that_broadcast_are_declined():
    (found,) = backends.rows("matmul.backward", "cuda")
    shapes = {"a_shape": (1, 2, 3), "b_shape": (4, 3, 2), "g": np.ones((4, 2, 2), "f")}
    ones = {"a": np.ones((1, 2, 3), "f"), "b": np.ones((4, 3, 2), "f"), "needs": (True, True)}
    assert "no stacks that broadcast" in found.declines(**shapes, **ones)
    (found,) = backends.rows("matmul", "cuda")
    assert "three batch dimensions" in found.declines(np.ones((1,) * 6, "f"), np.ones((1, 1), "f"))


def test_the_setting_is_one_under_all_its_names():
    from triton_kernels import runtime

    setting, x = core.backends.cuda.matmul, core.ones(2, 2, device="cuda")

    def precision():
        x @ x
        return runtime.latest.constexprs["PRECISION"]

    assert (setting.allow_tf32, setting.fp32_precision, precision()) == (False, "ieee", "ieee")
    try:
        setting.allow_tf32 = True
        assert (core.get_float32_matmul_precision(), setting.fp32_precision, precision()) == ("high", "tf32", "tf32")
        core.set_float32_matmul_precision("medium")
        assert (setting.allow_tf32, precision()) == (True, "tf32")
        setting.fp32_precision = "ieee"
        assert (core.get_float32_matmul_precision(), precision()) == ("highest", "ieee")
        with pytest.raises(RuntimeError, match="Invalid fp32_precision 'bf16'"):
            setting.fp32_precision = "bf16"
    finally:
        core.set_float32_matmul_precision("highest")


def test_is_built():
    assert core.backends.cuda.is_built() is True
