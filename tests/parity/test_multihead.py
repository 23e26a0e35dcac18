"""Attention of several heads and fractional pooling against PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import core  # noqa: E402

SETTINGS = [
    {}, {"need_weights": False}, {"average_attn_weights": False}, {"mask": "bool"}, {"mask": "float"},
    {"mask": "heads"}, {"padding": True}, {"padding": True, "mask": "bool"}, {"extra": True}, {"zero": True},
    {"extra": True, "zero": True, "mask": "float", "padding": True}, {"separate": True}, {"unbatched": True},
    {"need_weights": False, "mask": "bool", "padding": True}, {"plain": True},
]  # fmt: skip


def _attend(lib: Any, s: dict[str, Any]) -> list[Any]:
    rng = np.random.default_rng(0)
    leaves: list[Any] = []

    def w(*shape: int) -> Any:
        leaves.append(lib.tensor(rng.uniform(-1, 1, shape)).requires_grad_())
        return leaves[-1]

    n, heads, e, length, source = 2, 2, 6, 3, 4
    batch = () if s.get("unbatched") else (n,)
    q, kv = w(length, *batch, e), w(source, *batch, e)
    packed, bias = w(3 * e, e), None if s.get("plain") else w(3 * e)
    mask = None
    if "mask" in s:
        shape = (n * heads, length, source) if s["mask"] == "heads" else (length, source)
        m = rng.uniform(-1, 1, shape)
        mask = lib.tensor(m > 0.5 if s["mask"] == "bool" else m)
    padding = (
        lib.tensor(np.array([[False, False, False, True], [False, False, True, True]])) if s.get("padding") else None
    )
    extra = (w(1, 1, e), w(1, 1, e)) if s.get("extra") else (None, None)
    out, out_bias = w(e, e), None if s.get("plain") else w(e)
    own = {
        "use_separate_proj_weight": True,
        "q_proj_weight": w(e, e),
        "k_proj_weight": w(e, e),
        "v_proj_weight": w(e, e),
    }
    kwargs = own if s.get("separate") else {}
    if not kwargs:
        leaves = leaves[:-3]
    y, weights = lib.nn.functional.multi_head_attention_forward(
        q, kv, kv, e, heads, None if s.get("separate") else packed, bias, *extra, s.get("zero", False), 0.0, out,
        out_bias,
        key_padding_mask=padding, attn_mask=mask, need_weights=s.get("need_weights", True),
        average_attn_weights=s.get("average_attn_weights", True), **kwargs)  # fmt: skip
    total = (y * y).sum() + (0 if weights is None else (weights * weights).sum())
    grads = lib.autograd.grad(total, leaves, allow_unused=True)
    return [None if t is None else t.detach().numpy() for t in (y, weights, *grads)]


@pytest.mark.filterwarnings("ignore:Support for mismatched key_padding_mask")
@pytest.mark.parametrize("s", SETTINGS, ids=str)
def test_attention(s: dict[str, Any]) -> None:
    for want, got in zip(_attend(torch, s), _attend(core, s), strict=True):
        assert (want is None) == (got is None)
        if want is not None:
            np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(("n", "shape", "kernel", "how"), [
    (2, (2, 3, 9, 8), 2, {"output_size": (4, 3)}), (2, (3, 9, 8), (3, 2), {"output_ratio": (0.5, 0.6)}),
    (2, (1, 2, 6, 6), 2, {"output_size": 1}), (3, (1, 2, 6, 5, 7), 2, {"output_size": (3, 2, 4)}),
    (3, (2, 6, 6, 6), (2, 1, 3), {"output_ratio": 0.5}),
])  # fmt: skip
def test_fractional_pooling(n: int, shape: tuple[int, ...], kernel: Any, how: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, shape)
    samples = rng.uniform(0, 1, (shape[0] if len(shape) == n + 2 else 1, shape[-n - 1], n))
    found = []
    for lib in (torch, core):
        t = lib.tensor(x).requires_grad_()
        f = getattr(lib.nn.functional, f"fractional_max_pool{n}d")
        if n == 3 and not isinstance(kernel, tuple):
            kernel = (kernel,) * 3
        y, at = f(t, kernel, return_indices=True, _random_samples=lib.tensor(samples), **how)
        (y * y).sum().backward()
        found.append([v.detach().numpy() for v in (y, at, t.grad)])
    for want, got in zip(*found, strict=True):
        np.testing.assert_array_equal(got, want)
