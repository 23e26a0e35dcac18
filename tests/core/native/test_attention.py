"""The attention kernel against the reference: sizes beside tiles and panels, layouts, masks, threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core
from core.backends import attend
from core.native import module as c
from core.ops.attention import _forward

pytestmark = pytest.mark.skipif(c is None, reason="the C extension is not built")


def arrays(dtype: str, *shapes: tuple[int, ...]) -> list[Any]:
    rng = np.random.default_rng(0)
    return [rng.uniform(-1, 1, s).astype(dtype) for s in shapes]


def by_ops(q: Any, k: Any, v: Any, mask: Any, scale: float, causal: bool, g: Any) -> Any:
    """The gradients, from ops in float64."""
    xs = [core.tensor(a.astype("float64"), requires_grad=True) for a in (q, k, v)]
    x = xs[0] @ xs[1].mT * scale
    if mask is not None:
        x = core.where(core.tensor(mask), x, -np.inf) if mask.dtype == bool else x + core.tensor(mask.astype("float64"))
    if causal:
        x = core.where(core.ones(x.shape[-2:], dtype=core.bool).tril(), x, -np.inf)
    y = x.softmax(-1) @ xs[2]
    return [t.numpy() for t in core.autograd.grad(y, xs, core.tensor(g.astype("float64")))]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("lead", "n", "s", "d", "e"), [
    ((2, 3), 1, 1, 1, 1), ((1,), 7, 9, 5, 3), ((), 65, 33, 16, 32), ((2, 2), 64, 128, 64, 40), ((3, 1), 130, 31, 7, 65),
    ((2,), 8, 200, 3, 2), ((2, 1), 100, 100, 33, 31),
])  # fmt: skip
@pytest.mark.parametrize("kind", ["none", "allowed", "added"])
def test_values_and_gradients(dtype: str, causal: bool, lead: Any, n: int, s: int, d: int, e: int, kind: str) -> None:
    q, k, v, g, m = arrays(dtype, (*lead, n, d), (*lead, s, d), (*lead, s, e), (*lead, n, e), (n, s))
    m[:, 0] = 1  # every row sees something, for the ops to compare with
    mask = None if kind == "none" else m > 0 if kind == "allowed" else m
    tolerance = {"rtol": 2e-4, "atol": 2e-5} if dtype == "float32" else {"rtol": 1e-10, "atol": 1e-12}
    y, logs = attend.forward(q, k, v, mask, 0.3, causal)
    for got, want in zip((y, logs), _forward(np, q, k, v, mask, 0.3, causal, 0.0, 0, 0), strict=True):
        np.testing.assert_allclose(got, want, **tolerance)
    grads = attend.backward(g, q, k, v, mask, logs, 0.3, causal, (True, True, True, False))
    for got, want in zip(grads, by_ops(q, k, v, mask, 0.3, causal, g), strict=False):
        np.testing.assert_allclose(got, want, **tolerance)


def test_layouts_of_projections() -> None:
    """Heads that lie side by side in each row, as a layer makes them; what is laid out otherwise is copied."""
    packed, g = arrays("float32", (2, 20, 3, 4, 8), (2, 4, 20, 8))
    q, k, v = (packed[:, :, i].transpose(0, 2, 1, 3) for i in range(3))
    y, logs = attend.forward(q, k, v, None, 0.3, True)
    assert y.transpose(0, 2, 1, 3).flags.c_contiguous
    plain: Any = [np.ascontiguousarray(a) for a in (q, k, v)]
    want, _ = attend.forward(*plain, None, 0.3, True)
    np.testing.assert_array_equal(y, want)
    grads = attend.backward(g, q, k, v, None, logs, 0.3, True, (True, True, True, False))
    others = attend.backward(g, *plain, None, logs, 0.3, True, (True, True, True, False))
    turned = np.ascontiguousarray(g.swapaxes(2, 3)).swapaxes(2, 3)
    again = attend.backward(turned, *plain, None, logs, 0.3, True, (True, True, True, False))
    for a, b, w in zip(grads[:3], others[:3], again[:3], strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(b, w)


def test_rows_that_see_nothing_and_rows_that_are_no_numbers() -> None:
    q, k, v, g = arrays("float32", (1, 1, 3, 4), (1, 1, 5, 4), (1, 1, 5, 4), (1, 1, 3, 4))
    mask = np.ones((3, 5), bool)
    mask[1] = False
    q[0, 0, 2] = np.nan
    y, logs = attend.forward(q, k, v, mask, 0.5, False)
    assert np.isfinite(y[0, 0, 0]).all()
    assert (y[0, 0, 1] == 0).all()
    assert np.isnan(y[0, 0, 2]).all()
    q[0, 0, 2] = 0
    y, logs = attend.forward(q, k, v, mask, 0.5, False)
    gq, gk, gv, _ = attend.backward(g, q, k, v, mask, logs, 0.5, False, (True, True, True, False))
    assert (gq[0, 0, 1] == 0).all()
    assert np.isfinite(gk).all()
    assert np.isfinite(gv).all()


def test_the_same_bits_for_any_number_of_threads() -> None:
    q, k, v, g = arrays("float32", *[(4, 4, 64, 32)] * 4)
    before = core.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 3):
            core.set_num_threads(threads)
            y, logs = attend.forward(q, k, v, None, 0.3, True)
            found.append([y, *attend.backward(g, q, k, v, None, logs, 0.3, True, (True, True, True, False))[:3]])
    finally:
        core.set_num_threads(before)
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_what_the_kernel_leaves_to_others() -> None:
    q, wide = arrays("float32", (2, 3, 4), (2, 2, 2, 3, 4))
    assert "float64, got int64" in str(attend.declines(q.astype("int64"), q, q, None, 0.0))
    assert "at most two dimensions" in str(attend.declines(wide, wide, wide, None, 0.0))
    assert "mask" in str(attend.declines(q, q, q, q.astype("float64"), 0.0))
    assert "empty" in str(attend.declines(q[:0], q[:0], q[:0], None, 0.0))
    assert attend.declines(q, q, q, None, 0.0) is None
    assert "gradient of the mask" in str(
        attend.backward_declines(g=q, q=q, k=q, v=q, mask=q, p=0.0, needs=(True, True, True, True))
    )
    t = core.tensor(q)
    assert core.explain("scaled_dot_product_attention", t, t, t).runs.kernel == "attention_forward"
