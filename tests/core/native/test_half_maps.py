"""Elementwise kernels of bfloat16 and float16 that widen block by block: the bits of widening everything first."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
import pytest

TYPES = {True: np.dtype(ml_dtypes.bfloat16), False: np.dtype(np.float16)}


def given(kernels: ModuleType, n: int, seed: int, bfloat: bool) -> Any:
    """Return numbers of a half-precision type, with NaN, infinities, zeros and subnormals among them."""
    a = np.random.default_rng(seed).standard_normal(n).astype("f") * 3
    a[: min(n, 6)] = np.float32([np.nan, np.inf, -np.inf, -0.0, 1e-40, 6e-8])[: min(n, 6)]
    return kernels.narrow(a, bfloat)


@pytest.mark.parametrize("bfloat", [True, False])
@pytest.mark.parametrize("n", [1, 7, 1023, 1024, 1025, 5000, 70000])
@pytest.mark.parametrize("op", ["relu", "exp", "gelu_erf", "gelu_erf_backward", "mul", "sin", "lerp"])
def test_the_bits_of_widening_first(op: str, n: int, bfloat: bool, kernels: ModuleType) -> None:
    run = kernels.maps[op, "f"]
    arrays = [given(kernels, n, k, bfloat) for k in range(len(run.in_types))]
    found = run.half(bfloat, *arrays)
    assert found.dtype == TYPES[bfloat]
    right = kernels.narrow(run(*[kernels.widen(a) for a in arrays]), bfloat)
    np.testing.assert_array_equal(found.view(np.uint16), right.view(np.uint16))


@pytest.mark.parametrize("bfloat", [True, False])
def test_numbers_conditions_and_parameters(bfloat: bool, kernels: ModuleType) -> None:
    a, b = (given(kernels, 3000, k, bfloat).reshape(30, 100) for k in (1, 2))
    wide, chosen = kernels.widen, np.random.default_rng(3).random((30, 100)) < 0.5
    for found, right in (
        (kernels.maps["mul", "f"].half(bfloat, a, 0.3), kernels.maps["mul", "f"](wide(a), 0.3)),
        (kernels.maps["add", "f"].half(bfloat, 2, a), kernels.maps["add", "f"](2, wide(a))),
        (kernels.maps["where", "f"].half(bfloat, chosen, a, b), np.where(chosen, wide(a), wide(b))),
        (kernels.maps["pow_scalar", "f"].half(bfloat, a, 3.0), kernels.maps["pow_scalar", "f"](wide(a), 3.0)),
    ):
        assert found.shape == (30, 100)
        np.testing.assert_array_equal(found.view(np.uint16), kernels.narrow(right, bfloat).view(np.uint16))


def test_what_is_left_to_the_whole_copies(kernels: ModuleType) -> None:
    add, a = kernels.maps["add", "f"], given(kernels, 12, 1, True).reshape(3, 4)
    for arrays in (
        (a, a.T),
        (a.T, a.T),
        (a, a[0]),
        (a, a.astype("f")),
        (a, given(kernels, 12, 1, False).reshape(3, 4)),
        (a, np.float32(2)),
        (1.0, 2.0),
        (a[:0], a[:0]),
    ):
        assert add.half(True, *arrays) is NotImplemented
    assert kernels.maps["isnan", "f"].half(True, a) is NotImplemented  # gives bools
    assert kernels.maps["add", "d"].half(True, a, a) is NotImplemented
    for wrong in ((True, a), (1, a, a), ()):
        with pytest.raises(TypeError, match=r"half takes"):
            add.half(*wrong)
    with pytest.raises(OverflowError):
        add.half(True, a, 10**400)
