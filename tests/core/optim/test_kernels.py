"""The kernels of a step: which one runs, and that all of them do the same as the reference."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from core import native
from core.optim import kernels

ADAM = {"step": 3.0, "lr": 0.02, "beta1": 0.9, "beta2": 0.99, "eps": 1e-8, "weight_decay": 0.1, "maximize": False,
        "decoupled": True, "amsgrad": False}  # fmt: skip
SGD = {"lr": 0.02, "momentum": 0.9, "dampening": 0.1, "weight_decay": 0.1, "nesterov": False, "maximize": False,
       "first": False}  # fmt: skip
CASES = {
    "adamw": ("adamw_step", ADAM, 3),
    "adam": ("adam_step", ADAM | {"decoupled": False}, 3),
    "first adamw": ("adamw_step", ADAM | {"step": 1.0}, 3),
    "adamw upwards": ("adamw_step", ADAM | {"maximize": True, "weight_decay": 0.0}, 3),
    "adam upwards with decay": ("adam_step", ADAM | {"maximize": True, "decoupled": False}, 3),
    "sgd": ("sgd_step", SGD | {"momentum": 0.0}, 1),
    "sgd momentum": ("sgd_step", SGD, 2),
    "sgd first": ("sgd_step", SGD | {"first": True}, 2),
    "sgd nesterov": ("sgd_step", SGD | {"nesterov": True, "dampening": 0.0}, 2),
    "sgd upwards": ("sgd_step", SGD | {"maximize": True}, 2),
}
SHAPES = [(3, 5), (7,), (), (0, 2), (64, 129)]
C = "C" if native.available else "NumPy"


def arrays(rng: np.random.Generator, dtype: Any, lists: int) -> list[list[Any]]:
    """Parameters, gradients and state; the state's squares are positive."""
    many = [[rng.normal(size=s).astype(dtype) for s in SHAPES] for _ in range(lists + 1)]
    return [*many[:3], [np.asarray(a * a) for a in many[3]]] if lists == 3 else many


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_every_kernel_does_what_the_reference_does(
    device: str, name: str, dtype: str, rng: np.random.Generator
) -> None:
    op, settings, lists = CASES[name]
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    given = arrays(rng, kind, lists)
    expected = [[a.copy() for a in many] for many in given]
    rows = kernels.candidates(op, device, given[0], tuple(given[1:]), settings)
    kernel = next(k for k, reason in rows if reason is None)
    half = dtype in ("float16", "bfloat16")
    assert kernel.backend == ("Triton" if device == "cuda" else "NumPy" if half else C)
    kernel.run(given[0], tuple(given[1:]), settings)
    rows[-1][0].run(expected[0], tuple(expected[1:]), settings)
    rtol = {"float64": 1e-12, "float32": 2e-6, "float16": 2e-3, "bfloat16": 1.6e-2}[dtype]
    for mine, reference in zip(given, expected, strict=True):
        for a, b in zip(mine, reference, strict=True):
            np.testing.assert_allclose(a.astype(np.float64), b.astype(np.float64), rtol=rtol, atol=rtol)


def test_a_kernel_says_why_it_declines(rng: np.random.Generator) -> None:
    def reason(dtype: str = "float32", device: str = "cpu", order: str = "C", **settings: Any) -> str | None:
        held = [[np.asarray(rng.normal(size=(3, 4)).astype(dtype), order=order)] for _ in range(4)]  # type: ignore[call-overload]
        return kernels.candidates("adamw_step", device, held[0], tuple(held[1:]), ADAM | settings)[0][1]

    assert reason(device="cuda") is None
    assert reason(device="cuda", amsgrad=True) == "takes no amsgrad"
    assert reason(device="cuda", order="F") == "takes contiguous arrays"
    if native.available:
        assert reason() is None
        assert reason(amsgrad=True) == "takes no amsgrad"
        assert reason("float16") == "takes float32 and float64, got float16"
        assert reason(order="F") == "takes parameters and state that are contiguous"


def test_without_the_extension_the_reference_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "module", None)
    monkeypatch.setattr(native, "reason", "it was not built")
    rows = kernels.candidates("sgd_step", "cpu", [np.ones(2)], ([np.ones(2)],), SGD | {"momentum": 0.0})
    assert rows[0][1] == "it was not built"
    assert rows[1][0][1:] == ("sgd_step_reference", "NumPy")


def test_amsgrad_keeps_the_largest_square() -> None:
    p, g, m, v, top = ([np.array([x])] for x in (1.0, 0.1, 0.0, 0.5, 2.0))
    kernels.reference_adam(p, (g, m, v, top), ADAM | {"amsgrad": True})
    assert top[0] == 2.0
    v[0][:] = 3.0
    kernels.reference_adam(p, (g, m, v, top), ADAM | {"amsgrad": True})
    assert top[0] == pytest.approx(3.0 * 0.99 + 0.0001)
