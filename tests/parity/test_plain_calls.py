"""Calls that go straight from arrays to an array where no gradient is wanted, and their gradients, beside PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import core
from core.rng.philox import Philox

RNG = np.random.default_rng(0)
X, Y = (RNG.standard_normal((8, 6)).astype(np.float32) for _ in range(2))
IMAGE = RNG.standard_normal((2, 8, 6, 4)).astype(np.float32)
VOLUME = RNG.standard_normal((1, 2, 7, 6, 5)).astype(np.float32)
MASK, PLACES, FEW = X > 0.3, IMAGE[:, :3, :, :2].copy(), IMAGE[:, :3].copy()
WHOLE, ROWS, COLUMNS = RNG.integers(-3, 6, (8, 6)), RNG.integers(0, 6, 5), RNG.integers(0, 6, (8, 6))
LABELS = [np.array([[1, 2], [2, 2], [1, 0]]), np.array([4, 3, 4]), np.array([2, 1, 1])]


def _set(x: Any, index: Any, value: Any) -> Any:
    x[index] = value
    return x


CALLS: dict[str, Callable[..., Any]] = {
    "pixel_shuffle": lambda t, f: t.pixel_shuffle(f(IMAGE), 2),
    "pixel_unshuffle": lambda t, f: t.pixel_unshuffle(f(IMAGE), 2),
    "channel_shuffle": lambda t, f: t.channel_shuffle(f(IMAGE), 4),
    **{
        f"pad {mode}": lambda t, f, mode=mode: t.nn.functional.pad(f(IMAGE), (1, 2, 3, 0), mode=mode)
        for mode in ("reflect", "replicate", "circular")
    },
    "diag": lambda t, f: t.diag(f(X[0]), -2),
    "diag_embed": lambda t, f: t.diag_embed(f(X), 1),
    "diagonal": lambda t, f: t.diagonal(f(IMAGE), -1, 3, 1).clone(),
    "block_diag": lambda t, f: t.block_diag(f(X), f(Y[0]), f(Y)),
    "index_fill": lambda t, f: t.index_fill(f(X), 1, f(ROWS), 2.5),
    "a number beside an index": lambda t, f: f(X)[f(ROWS), -2],
    "an index between numbers": lambda t, f: f(IMAGE)[1, f(ROWS), 2],
    "masked_select": lambda t, f: t.masked_select(f(X), f(MASK)),
    "masked_scatter": lambda t, f: t.masked_scatter(f(X), f(MASK), f(Y)),
    "index_put": lambda t, f: f(X).index_put((f(ROWS), f(ROWS)), f(np.array(0.5))),
    "index_put of rows": lambda t, f: f(X).index_put((f(np.arange(5)),), f(Y[:5]), accumulate=True),
    "take_along_dim": lambda t, f: t.take_along_dim(f(X), f(COLUMNS), 1),
    "kron": lambda t, f: t.kron(f(X), f(Y)),
    "outer": lambda t, f: t.outer(f(X[0]), f(Y[:, 0].copy())),
    "inner": lambda t, f: t.inner(f(X), f(Y)),
    "a stack by a matrix": lambda t, f: f(IMAGE) @ f(X[:4, :5].copy()),
    "complex": lambda t, f: t.complex(f(X), f(Y)).real,
    "diff": lambda t, f: t.diff(f(IMAGE), dim=1),
    "prelu": lambda t, f: t.nn.functional.prelu(f(IMAGE), f(X[:, 0].copy())),
    "nansum": lambda t, f: t.nansum(f(np.where(MASK, np.nan, X)), 1),
    "cube": lambda t, f: f(X) ** 3,
    "ldexp": lambda t, f: t.ldexp(f(X), f(COLUMNS)),
    "einsum of equal letters": lambda t, f: t.einsum("ij,ij->j", f(X), f(Y)),
    "max_pool1d": lambda t, f: t.nn.functional.max_pool1d(f(X), 2),
    "max_pool3d": lambda t, f: t.nn.functional.max_pool3d(f(VOLUME), (2, 3, 2), (1, 2, 1), 1),
    "avg_pool3d": lambda t, f: t.nn.functional.avg_pool3d(f(VOLUME), 2, (1, 2, 1), (1, 0, 1)),
    "unfold": lambda t, f: t.nn.functional.unfold(f(IMAGE), (2, 3), (1, 2), (1, 2), (2, 1)),
    "fold": lambda t, f: t.nn.functional.fold(f(IMAGE.reshape(2, 12, 16)), (5, 5), 2, padding=0, stride=1),
    "fft": lambda t, f: t.fft.fft(f(X)),
    "fft of complex numbers": lambda t, f: t.fft.fft(t.complex(f(X), f(Y)), dim=0),
    "ifft": lambda t, f: t.fft.ifft(f(VOLUME)) * 1,
    "rfft": lambda t, f: t.fft.rfft(f(X), norm="ortho"),
    "rfft of odd rows": lambda t, f: t.fft.rfft(f(VOLUME), norm="forward"),
    "irfft": lambda t, f: t.fft.irfft(t.complex(f(X), f(Y))),
    "irfft to odd rows": lambda t, f: t.fft.irfft(t.complex(f(X), f(Y)), n=11),
    "fft2": lambda t, f: t.view_as_real(t.fft.fft2(f(IMAGE))),
    "lstsq": lambda t, f: t.linalg.lstsq(f(X), f(Y)).solution,
    "ctc_loss": lambda t, f: t.nn.functional.ctc_loss(f(X.reshape(4, 3, 4)).log_softmax(-1), *map(f, LABELS)),
    "ctc_loss of each": lambda t, f: t.nn.functional.ctc_loss(f(X.reshape(4, 3, 4)).log_softmax(-1), *map(f, LABELS),
                                                              blank=3, reduction="none", zero_infinity=True),
    "batch_norm": lambda t, f: t.nn.functional.batch_norm(f(IMAGE), None, None, f(X[:, 0].copy()), training=True),
    "group_norm": lambda t, f: t.nn.functional.group_norm(f(IMAGE), 4, f(X[:, 0].copy()), f(Y[:, 0].copy())),
    "adaptive_avg_pool2d": lambda t, f: t.nn.functional.adaptive_avg_pool2d(f(IMAGE), (3, 2)),
    "adaptive_max_pool2d": lambda t, f: t.nn.functional.adaptive_max_pool2d(f(np.tile(IMAGE, (1, 1, 2, 3))), (3, 2)),
    "logcumsumexp": lambda t, f: t.logcumsumexp(f(X), 1), "logcumsumexp down": lambda t, f: t.logcumsumexp(f(X), 0),
    "bilinear": lambda t, f: t.nn.functional.bilinear(f(X), f(Y), f(VOLUME.reshape(-1)[:180].reshape(5, 6, 6).copy())),
    "median": lambda t, f: t.median(f(X)), "combinations": lambda t, f: t.combinations(f(X[0])),
    "a mask set": lambda t, f: _set(f(X) * 1, f(MASK), 0.5), "rows set": lambda t, f: _set(f(X) * 1, f(ROWS), -1.5),
    "rows masked": lambda t, f: _set(f(IMAGE) * 1, f(MASK[:2].repeat(2, 1)[:, :8].copy()), 2.0),
    "gather": lambda t, f: t.gather(f(X), 1, f(COLUMNS)), "gather down": lambda t, f: t.gather(f(X), 0, f(COLUMNS)),
    "scatter": lambda t, f: t.scatter(f(X), 0, f(COLUMNS[:1]), f(Y[:1])),
    "scatter_add": lambda t, f: t.scatter_add(f(X), 0, f(COLUMNS), f(Y)),
    "attention": lambda t, f: t.nn.functional.scaled_dot_product_attention(f(X), f(Y), f(X + Y), is_causal=True),
    "grid_sample of few channels": lambda t, f: t.nn.functional.grid_sample(f(FEW), f(PLACES), align_corners=True),
    "grid_sample": lambda t, f: t.nn.functional.grid_sample(f(IMAGE), f(PLACES), align_corners=False),
}  # fmt: skip
WHOLES: dict[str, Callable[..., Any]] = {
    "and": lambda t, f: f(WHOLE) & 3, "or": lambda t, f: f(WHOLE) | f(COLUMNS),
    "gcd": lambda t, f: t.gcd(f(WHOLE), f(COLUMNS)),
    "unique": lambda t, f: t.unique(f(WHOLE)), "unique far apart": lambda t, f: t.unique(f(WHOLE * 10**12)),
    "bincount": lambda t, f: t.bincount(f(ROWS), minlength=9), "isin": lambda t, f: t.isin(f(WHOLE), f(ROWS)),
    "isin far apart": lambda t, f: t.isin(f(WHOLE * 10**9), f(ROWS * 10**9)), "histc": lambda t, f: t.histc(f(X), 7),
    "tril_indices": lambda t, f: t.tril_indices(4, 7, 1), "triu_indices": lambda t, f: t.triu_indices(5, 3, -2),
    "truths": lambda t, f: f(np.tile(MASK, (50, 3))).sum(), "sums": lambda t, f: f(np.tile(WHOLE, (50, 3))).sum(1),
    "argwhere": lambda t, f: t.argwhere(f(MASK)),
}  # fmt: skip


def results(call: Callable[..., Any], lib: Any, layout: str, dtype: Any) -> tuple[Any, list[Any]]:
    """What a call gives, and with "grad" the gradients of its floats."""
    leaves: list[Any] = []

    def f(a: Any) -> Any:
        t = lib.from_numpy((a.astype(dtype) if a.dtype.kind == "f" else a).copy())
        if layout == "turned" and t.ndim > 1:
            t = t.mT.contiguous().mT
        if layout == "grad" and a.dtype.kind == "f":
            leaves.append(t.requires_grad_())
        return t

    y = call(lib, f)
    if layout == "grad" and y.requires_grad:
        y.backward(lib.ones_like(y) * 2)
    return y.detach().numpy(), [t.grad.numpy() for t in leaves if t.grad is not None]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("name", "layout"),
    [
        *((n, w) for n in CALLS for w in ("plain", "turned", "grad")),
        *((n, w) for n in WHOLES for w in ("plain", "turned")),
    ],
)
def test_a_call_gives_what_pytorch_gives(name: str, layout: str, dtype: Any) -> None:
    call = CALLS.get(name) or WHOLES[name]
    (mine, grads), (other, wanted) = (results(call, lib, layout, dtype) for lib in (core, torch))
    assert mine.dtype == other.dtype
    np.testing.assert_allclose(mine, other, rtol=2e-5, atol=2e-5)
    for got, want in zip(grads, wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)


def test_drawn_orders_are_those_of_their_keys() -> None:
    for n in (2, 3, 1000):
        core.manual_seed(5)
        drawn = core.randperm(n).numpy()
        engine = Philox(5)
        np.testing.assert_array_equal(drawn, engine.permutation(np, n))
