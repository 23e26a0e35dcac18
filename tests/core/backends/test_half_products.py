"""Products of bfloat16 in C: convolutions of one place beside float64, and what such rows decline."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core
import core.nn.functional as F
from core.backends import half, half_products
from core.dispatch.explain import explain

pytestmark = pytest.mark.skipif(not half_products.there, reason="this processor does not multiply bfloat16")

# samples, channels in and out, sides, stride
CASES = [
    (3, 5, 7, (6, 5), 1),
    (2, 40, 33, (9, 8), 2),
    (4, 16, 64, (7,), 3),
    (2, 8, 8, (4, 4), (2, 1)),
    (1, 4, 4, (1, 1), 1),
    (2, 3, 4, (2, 3, 4), 2),
]


def both_ways(function: Any, x: Any, w: Any, g: Any, dtype: Any) -> list[Any]:
    """Return a function's result and its gradients of x and w, in one type, from numbers that bfloat16 has."""
    x, w = (core.tensor(a).to(core.bfloat16).to(dtype).requires_grad_() for a in (x, w))
    y = function(x, w)
    y.backward(core.tensor(g).to(core.bfloat16).to(dtype))
    return [t.detach().to(core.float64).numpy() for t in (y, x.grad, w.grad)]


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_convolutions_of_one_place(case: Any, transposed: bool, rng: np.random.Generator) -> None:
    n, ins, outs, sides, stride = case
    name = f"conv{'_transpose' if transposed else ''}{len(sides)}d"
    shape = (ins, outs) if transposed else (outs, ins)
    x, w = rng.standard_normal((n, ins, *sides)), rng.standard_normal((*shape, *(1,) * len(sides)))
    more = {"output_padding": tuple(min(1, s - 1) for s in stride) if isinstance(stride, tuple) else min(1, stride - 1)}

    def function(x: Any, w: Any) -> Any:
        return getattr(F, name)(x, w, stride=stride, **(more if transposed else {}))

    out = function(core.tensor(x), core.tensor(w)).shape
    g = rng.standard_normal(tuple(out))
    found, right = (both_ways(function, x, w, g, dtype) for dtype in (core.bfloat16, core.float64))
    for a, b in zip(found, right, strict=True):
        assert a.shape == b.shape
        assert np.abs(a - b).max() <= 2**-7 * np.abs(b).max()


@pytest.mark.parametrize("k", [1, 2, 15, 16, 17, 511, 512, 513, 1025, 4096, 4097, 5003])
@pytest.mark.parametrize(("m", "n"), [(96, 32), (97, 33), (13, 100), (1, 1), (12, 64)])
def test_products_of_any_depth(m: int, n: int, k: int, rng: np.random.Generator) -> None:
    """Sums that are kept between depths and spans, rows and columns at the edges of tiles, both factors both ways."""
    a, b = (core.tensor(rng.standard_normal(s)).to(core.bfloat16) for s in ((m, k), (k, n)))
    bias = rng.standard_normal(n).astype("f")
    right = a.double().numpy() @ b.double().numpy() + bias
    for left in (a, a.t().contiguous().t()):
        for other in (b, b.t().contiguous().t()):
            found = half.c.gemm_bf16(left.numpy(), other.numpy(), bias).astype("d")
            np.testing.assert_allclose(found, right, rtol=2**-8, atol=1e-5 * k**0.5)


def test_which_convolutions_are_products() -> None:
    x = core.zeros(2, 4, 6, 6, dtype=core.bfloat16)
    one, three = (core.zeros(8, 4, k, k, dtype=core.bfloat16) for k in (1, 3))
    assert explain("conv", x, one).runs[0] == "conv_bf16"
    assert explain("conv", x, three).runs[0] != "conv_bf16"
    grouped = core.zeros(8, 2, 1, 1, dtype=core.bfloat16)
    assert explain("conv", x, grouped, groups=2).runs[0] != "conv_bf16"
    assert explain("conv", x, one, core.zeros(8, dtype=core.bfloat16)).runs[0] != "conv_bf16"
    assert explain("conv", x, one, padding=(1, 1)).runs[0] != "conv_bf16"


def test_the_bias_of_linear_is_added_up_in_float32(rng: np.random.Generator) -> None:
    """A running sum of bfloat16 would stay at 256."""
    x, w, b = (core.zeros(*s, dtype=core.bfloat16).requires_grad_() for s in ((3000, 4), (5, 4), (5,)))
    F.linear(x, w, b).backward(core.ones(3000, 5, dtype=core.bfloat16))
    assert b.grad.tolist() == [float(core.tensor(3000.0).to(core.bfloat16))] * 5
