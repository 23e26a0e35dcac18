"""The optimizers' steps against PyTorch's formulas in float64 NumPy."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

SHAPES = [(3,), (4, 5), (), (0,), (100, 300), (17, 1000)]


@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize("maximize", [False, True])
@pytest.mark.parametrize("decoupled", [False, True])
def test_adamw(decoupled: bool, maximize: bool, dtype: str, kernels: ModuleType, rng: np.random.Generator) -> None:
    lr, beta1, beta2, eps, decay = 1e-2, 0.9, 0.99, 1e-8, 0.1
    p = [np.asarray(rng.standard_normal(s)).astype(dtype) for s in SHAPES]
    p[1] = np.asfortranarray(p[1])
    m, v = [np.zeros_like(a) for a in p], [np.zeros_like(a) for a in p]
    exact = [(a.astype("d"), np.zeros(a.shape), np.zeros(a.shape)) for a in p]
    for step in (1, 2, 3):
        g = [np.asarray(rng.standard_normal(s)).astype(dtype) for s in SHAPES]
        g[4] = np.asfortranarray(g[4])
        kernels.adamw_step(p, g, m, v, step, lr, beta1, beta2, eps, decay, maximize=maximize, decoupled=decoupled)
        for i, (a, m1, v1) in enumerate(exact):
            h = -g[i].astype("d") if maximize else g[i].astype("d")
            a = a * (1 - lr * decay) if decoupled else a
            h = h if decoupled else h + decay * a
            m1, v1 = m1 + (1 - beta1) * (h - m1), beta2 * v1 + (1 - beta2) * h * h
            denominator = np.sqrt(v1) / np.sqrt(1 - beta2**step) + eps
            exact[i] = (a - lr / (1 - beta1**step) * m1 / denominator, m1, v1)
    for found, wanted in zip(zip(p, m, v, strict=True), exact, strict=True):
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4 if dtype == "f" else 1e-12, atol=1e-6 if dtype == "f" else 1e-13)


@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize(
    ("momentum", "dampening", "nesterov"), [(0, 0, False), (0.9, 0, False), (0.9, 0.3, False), (0.9, 0, True)]
)
@pytest.mark.parametrize("maximize", [False, True])
def test_sgd(
    momentum: float,
    dampening: float,
    nesterov: bool,
    maximize: bool,
    dtype: str,
    kernels: ModuleType,
    rng: np.random.Generator,
) -> None:
    lr, decay = 0.1, 0.01
    p = [np.asarray(rng.standard_normal(s)).astype(dtype) for s in SHAPES]
    buffers = [np.full_like(a, np.nan) for a in p]  # `first` does not read them
    exact = [(a.astype("d"), np.zeros(a.shape)) for a in p]
    for step in range(3):
        g = [np.asarray(rng.standard_normal(s)).astype(dtype) for s in SHAPES]
        kernels.sgd_step(
            p, g, buffers if momentum else None, lr, momentum, dampening, decay, nesterov, maximize, step == 0
        )
        for i, (a, b) in enumerate(exact):
            h = (-1 if maximize else 1) * g[i].astype("d") + decay * a
            if momentum:
                b = h if step == 0 else momentum * b + (1 - dampening) * h
                h = h + momentum * b if nesterov else b
            exact[i] = (a - lr * h, b)
    for a, (b, _) in zip(p, exact, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4 if dtype == "f" else 1e-12, atol=1e-6 if dtype == "f" else 1e-13)


def test_mixed_types_and_threads(kernels: ModuleType, rng: np.random.Generator) -> None:
    results = []
    for threads in (1, 3):
        kernels.set_num_threads(threads)
        p = [np.ones(50_000, "f"), np.ones(70_000, "d"), np.ones(3, "f")]
        g = [np.linspace(-1, 1, a.size).astype(a.dtype) for a in p]
        state = [[np.zeros_like(a) for a in p] for _ in range(2)]
        kernels.adamw_step(p, g, *state, 1, 0.1, 0.9, 0.999, 1e-8, 0.0)
        results.append(b"".join(a.tobytes() for a in p))
    assert results[0] == results[1]


def test_refusals(kernels: ModuleType) -> None:
    p = np.ones((2, 3), "f")
    rest = (1, 0.1, 0.9, 0.999, 1e-8, 0.0)
    with pytest.raises(ValueError, match="lists differ in length"):
        kernels.adamw_step([p], [], [p], [p], *rest)
    with pytest.raises(ValueError, match="parameter 0 and its gradient or state differ in shape"):
        kernels.adamw_step([p], [p[:1]], [p], [p], *rest)
    with pytest.raises(ValueError, match="laid out alike"):
        kernels.adamw_step([p], [p], [p.T.copy().T], [p], *rest)
    with pytest.raises(ValueError, match="writeable"):
        kernels.sgd_step([np.broadcast_to(np.float32(1), (2, 3))], [p], None, 0.1)
    with pytest.raises(TypeError, match="int64"):
        kernels.sgd_step([np.ones(3, np.int64)], [np.ones(3, np.int64)], None, 0.1)
    assert kernels.adamw_step([], [], [], [], *rest) is None
