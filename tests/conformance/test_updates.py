"""Every optimizer's step, from its declaration: C, Triton and the reference do what the formula says in float64."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from core import native
from core.optim import kernels, updates  # noqa: F401 - the updates are declared
from core.optim.update import Variant, table

VARIANTS = {v.name: v for u in table.values() for v in u.variants.values()}
SHAPES = [(3, 5), (7,), (), (0, 2), (64, 129)]
SETTINGS = {"step": 3.0, "lr": 0.02, "beta1": 0.9, "beta2": 0.99, "eps": 1e-8, "weight_decay": 0.1, "maximize": False,
            "decoupled": False, "momentum": 0.9, "dampening": 0.1, "nesterov": False, "mu": 0.9, "mu_next": 0.91,
            "mu_product": 0.7, "rectification": 0.4, "lr_decay": 0.1, "rho": 0.9, "alpha": 0.9, "eta_minus": 0.5,
            "eta_plus": 1.2, "smallest": 1e-6, "largest": 50.0, "eta": 0.01, "lambd": 0.01, "weight": 0.2,
            "factor": 0.3, "bound": 0.7}  # fmt: skip
TURNED = SETTINGS | {"maximize": True, "decoupled": True, "nesterov": True, "dampening": 0.0}
TOLERANCE = {"float64": 1e-12, "float32": 4e-6, "float16": 2e-3, "bfloat16": 1.6e-2}


def samples(v: Variant, dtype: Any, rng: np.random.Generator, order: str = "C") -> list[list[Any]]:
    """Parameters, gradients and state; what is rooted is positive, and a mean's square below the mean square."""

    def one(name: str, shape: tuple[int, ...]) -> Any:
        a = np.asarray(rng.normal(size=shape))
        if name not in ("p", "g", "prev", "exp_avg", "momentum_buffer", "ax"):
            a = abs(a) + 0.5 if name != "grad_avg" else a * 0.1
        return np.asarray(a.astype(dtype), order=order)

    return [[one(name, s) for s in SHAPES] for name in v.arrays]


def exact(v: Variant, numbers: tuple[float, ...], given: list[list[Any]]) -> list[list[Any]]:
    """The formula on the values as they are stored, in float64."""
    wide = [[a.astype(np.float64) for a in many] for many in given]
    kernels.candidates(v, "cpu", wide)[-1][0].run(numbers, wide)
    return wide


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("settings", [SETTINGS, TURNED], ids=["plain", "turned"])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("name", VARIANTS)
def test_a_step_does_what_its_formula_says(
    name: str, device: str, settings: dict[str, Any], dtype: str, rng: np.random.Generator
) -> None:
    v = VARIANTS[name]
    given = samples(v, ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype, rng)
    numbers = v.scalars(**{k: settings[k] for k in v.settings})
    wanted = exact(v, numbers, given)
    kernel = next(k for k, reason in kernels.candidates(v, device, given) if reason is None)
    half = dtype in ("float16", "bfloat16")
    expected = "Triton" if device == "cuda" else "NumPy" if half or not native.available else "C"
    assert kernel.backend == expected
    suffix = {"Triton": "_kernel", "NumPy": "_reference", "C": "_f32" if dtype == "float32" else "_f64"}[expected]
    assert kernel.name == name + suffix
    grads = [g.copy() for g in given[1]]
    assert kernel.run(numbers, given) is None
    for mine, reference in zip(given, wanted, strict=True):
        for a, b in zip(mine, reference, strict=True):
            np.testing.assert_allclose(a.astype(np.float64), b, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
    for before, after in zip(grads, given[1], strict=True):
        assert np.array_equal(before, after)


@pytest.mark.parametrize("name", VARIANTS)
def test_a_gradient_laid_out_otherwise_is_the_same(name: str, rng: np.random.Generator) -> None:
    v = VARIANTS[name]
    numbers = v.scalars(**{k: SETTINGS[k] for k in v.settings})
    given = samples(v, "float32", rng, "F")
    given[1] = [np.ascontiguousarray(g).reshape(g.shape) for g in given[1]]
    wanted = exact(v, numbers, given)
    for kernel, reason in kernels.candidates(v, "cpu", given):
        if reason is None:
            assert kernel.run(numbers, given) is None
            break
    assert kernel.backend == ("C" if native.available else "NumPy")
    for mine, reference in zip(given, wanted, strict=True):
        for a, b in zip(mine, reference, strict=True):
            np.testing.assert_allclose(a, b, rtol=4e-6, atol=4e-6)
