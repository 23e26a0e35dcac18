"""Clipping gradients: in one call over all of them, of any kind, and what was promised about odd values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import core
from core import native, nn
from core.nn import utils


def params(dtype: Any, sizes: Any = ((3, 4), (5,), (), (0,), (9000,)), device: str = "cpu") -> list[Any]:
    rng = np.random.default_rng(0)
    made = []
    for size in sizes:
        p = nn.Parameter(core.zeros(size, dtype=dtype, device=device))
        p.grad = core.tensor(rng.normal(size=size), dtype=dtype, device=device)
        made.append(p)
    return made


def flat(many: list[Any]) -> Any:
    return np.concatenate([p.grad.detach().cpu().to(core.float64).numpy().reshape(-1) for p in many])


@pytest.mark.parametrize("norm", [2.0, 1.0, math.inf, 3.0])
@pytest.mark.parametrize("kind", ["cpu float32", "cpu float64", "cpu bfloat16", "cuda float32", "cuda bfloat16"])
def test_the_common_norm_is_that_of_one_vector(kind: str, norm: float) -> None:
    device, dtype = kind.split()
    sizes = ((3, 4), (5,), (1,), (700,)) if norm not in (1.0, 2.0) else ((3, 4), (5,), (), (0,), (9000,))
    many = params(getattr(core, dtype), sizes, device)
    before = flat(many)
    expected = np.linalg.norm(before, norm)
    rtol = {"float32": 1e-5, "float64": 1e-12, "bfloat16": 2e-2}[dtype]
    assert utils.get_total_norm([p.grad for p in many], norm).item() == pytest.approx(expected, rel=rtol)
    total = utils.clip_grad_norm_(many, 0.5, norm)
    assert total.item() == pytest.approx(expected, rel=rtol)
    assert total.dtype is getattr(core, dtype)
    np.testing.assert_allclose(flat(many), before * 0.5 / (expected + 1e-6), rtol=rtol, atol=rtol * 1e-2)


@pytest.mark.skipif(not native.available, reason="the extension is not built")
def test_the_sum_does_not_depend_on_the_threads() -> None:
    grads = [np.random.default_rng(0).normal(size=n).astype("f") for n in (100_001, 3, 50_000)]
    before = native.module.get_num_threads()
    try:
        found = set()
        for threads in (1, 2, 3):
            native.module.set_num_threads(threads)
            found |= {tuple(native.module.total(grads, kind) for kind in (0, 1, 2))}
    finally:
        native.module.set_num_threads(before)
    assert len(found) == 1
    wide = np.concatenate(grads).astype("d")
    assert found.pop() == pytest.approx(((wide**2).sum(), abs(wide).sum(), abs(wide).max()), rel=1e-12)
    assert native.module.total([grads[0], grads[1].astype("d")], 0) is None
    assert native.module.total([grads[0][::2]], 0) is None
    assert native.module.total([np.ones(3, np.int64)], 0) is None
    assert math.isnan(native.module.total([np.array([1.0, np.nan, 3.0])], 2))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_values_are_clipped(device: str) -> None:
    many = params(core.float32, ((3, 4), (70,)), device)
    before = flat(many)
    version = many[0].grad._version
    utils.clip_grad_value_(many, 0.5)
    np.testing.assert_array_equal(flat(many), before.clip(-0.5, 0.5))
    assert many[0].grad._version == version + 1


def test_small_gradients_and_odd_ones() -> None:
    many = params(core.float32)
    before = flat(many)
    utils.clip_grad_norm_(many, 1e9)
    np.testing.assert_array_equal(flat(many), before)
    many[0].grad[0, 0] = math.inf
    assert utils.clip_grad_norm_(many, 1.0).item() == math.inf
    assert math.isnan(many[0].grad[0, 0].item())
    assert many[1].grad.abs().max().item() == 0.0
    with pytest.raises(RuntimeError, match="is non-finite, so it cannot be clipped"):
        utils.clip_grad_norm_(many, 1.0, error_if_nonfinite=True)
    assert utils.clip_grad_norm_([], 1.0).item() == 0.0


def test_gradients_of_other_layouts_and_kinds() -> None:
    p, z, w = nn.Parameter(core.zeros(4, 3)), core.zeros(2, dtype=core.complex64), nn.Parameter(core.zeros(2).double())
    z.requires_grad_()
    p.grad = core.tensor(np.arange(24.0, dtype="f").reshape(3, 8))[:, ::2].t()
    z.grad = core.tensor([3 + 4j, 0j], dtype=core.complex64)
    w.grad = core.tensor([1.0, -1.0], dtype=core.float64)
    expected = [g.detach().numpy() * 2.0 for g in (p.grad, z.grad, w.grad)]
    utils.clip_grads_with_norm_([p, z, w], 4.0, core.tensor(8.0))
    for g, e in zip((p.grad, z.grad, w.grad), expected, strict=True):
        np.testing.assert_allclose(g.detach().numpy(), e / 4, rtol=1e-6)


def test_on_cuda_all_gradients_are_clipped_in_three_launches(monkeypatch: Any) -> None:
    from triton_kernels import runtime

    launched: list[str] = []
    call = runtime.Launch.__call__

    def noted(launch: Any, *args: Any, **kwargs: Any) -> None:
        launched.append(launch.name)
        call(launch, *args, **kwargs)

    monkeypatch.setattr(runtime.Launch, "__call__", noted)
    many = params(core.float32, device="cuda")
    before, version = flat(many), many[0].grad._version
    utils.clip_grad_norm_(many, 0.5)
    assert launched == ["norm_share_kernel", "norm_total_kernel", "norm_scale_kernel"]
    np.testing.assert_allclose(np.linalg.norm(flat(many)), 0.5, rtol=1e-5)
    assert many[0].grad._version == version + 1
    many[0].grad = core.tensor(before[:12].astype("f").reshape(4, 3)).to("cuda").t()  # not contiguous
    utils.clip_grad_norm_(many, 0.5)
    np.testing.assert_allclose(np.linalg.norm(flat(many)), 0.5, rtol=1e-5)
    launched.clear()
    utils.clip_grad_value_(many[1:], 1e-3)
    assert launched == ["clip_step_kernel"]
