"""Attention on the device cuda: one kernel, shared keys without copies, dropout, and gradients as on the CPU."""

from __future__ import annotations

import numpy as np
import pytest

import core
from core import backends
from core.events import observe
from core.nn.functional import scaled_dot_product_attention as attend


class Kernels(observe.Observer):
    def __init__(self) -> None:
        self.names: list[str] = []

    def op(self, event: observe.OpEvent) -> None:
        self.names.append(event.kernel)


def run(where: str, **options):
    rng = np.random.default_rng(0)
    shapes = (2, 4, 7, 16), (2, 2, 9, 16), (2, 2, 9, 16)
    q, k, v = (core.tensor(rng.standard_normal(s).astype("f"), device=where, requires_grad=True) for s in shapes)
    watch = Kernels()
    with observe.observing(watch):
        y = attend(q, k, v, enable_gqa=True, **options)
    grads = core.autograd.grad((y * y).sum(), (q, k, v))
    return [t.detach().cpu().numpy() for t in (y, *grads)], watch.names


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"dropout_p": 0.3}])
def test_shared_keys_and_dropout_as_on_the_cpu(options):
    core.manual_seed(3)
    want, _ = run("cpu", **options)
    core.manual_seed(3)
    got, names = run("cuda", **options)
    assert names == ["attention_kernel"]  # no keys repeated, no weights made
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_a_mask_that_learns_has_its_gradient():
    core.manual_seed(0)
    q = core.randn(1, 2, 5, 16, device="cuda")
    mask = core.zeros(5, 5, device="cuda", requires_grad=True)
    attend(q, q, q, mask).square().sum().backward()
    assert mask.grad.abs().sum().item() > 0


def test_reasons_to_decline():
    (forward,) = backends.rows("attention", "cuda")
    (backward,) = backends.rows("attention.backward", "cuda")

    def why(q, k, v, mask=None):
        return forward.declines(q, k, v, mask, scale=1.0, causal=False, p=0.0, seed=0, offset=0)

    one = np.ones((1, 2, 3, 4), "f")
    assert why(one, one, one) is None
    assert "takes float16, bfloat16, float32" in why(one.astype("d"), one.astype("d"), one.astype("d"))
    assert "at most 256 items" in why(*[np.ones((1, 2, 3, 300), "f")] * 3)
    assert "no empty arrays" in why(one, one[:, :, :0], one[:, :, :0])
    assert "one batch" in why(np.ones((2, 2, 3, 4), "f"), one, one)
    assert "a multiple of them" in why(one, np.ones((1, 3, 3, 4), "f"), np.ones((1, 3, 3, 4), "f"))
    assert "takes a mask of bool or float32" in why(one, one, one, np.ones((3, 3), "d"))
    wide = np.ones((1, 1, 3, 200), "f")
    named = {"g": wide, "q": wide, "k": wide, "v": wide, "mask": None}
    assert backward.declines(**named, needs=(True, True, True, False)) is None
    assert "no gradient of the mask" in backward.declines(**named, needs=(True, True, True, True))
