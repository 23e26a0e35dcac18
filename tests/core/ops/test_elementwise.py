"""Integers divided by zero: refused by every form, layout and dtype, as PyTorch does it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import core

FORMS: dict[str, Callable[[Any, Any], Any]] = {
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "floor_divide": core.floor_divide,
    "remainder": core.remainder,
    "fmod": core.fmod,
    "div floor": lambda a, b: core.div(a, b, rounding_mode="floor"),
    "div trunc": lambda a, b: core.div(a, b, rounding_mode="trunc"),
    "floor_divide_": lambda a, b: a.clone().floor_divide_(b),
    "remainder_": lambda a, b: a.clone().remainder_(b),
    "fmod_": lambda a, b: a.clone().fmod_(b),
}
EXPECTED = {"//": [-4, 3], "%": [1, 1], "fmod": [-1, 1], "trunc": [-3, 3]}
DTYPES = ["uint8", "int8", "int16", "int32", "int64"]


def quotient(form: str) -> list[int]:
    key = "trunc" if "trunc" in form else "fmod" if "fmod" in form else "%" if "%" in form or "rem" in form else "//"
    return EXPECTED[key]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", FORMS)
def test_integers_by_zero(form: str, dtype: str) -> None:
    d = getattr(core, dtype)
    x = core.tensor([7, 5], dtype=d)
    strided = core.tensor([[1, 2], [3, 0]], dtype=d)[:, 1]
    for divisor in (0, core.tensor(0, dtype=d), core.tensor([0, 2], dtype=d), core.tensor([2, 0], dtype=d), strided):
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            FORMS[form](x, divisor)


@pytest.mark.parametrize(
    "form", [f for f in FORMS if not f.endswith("_") and f != "fmod"]
)  # which takes no number first
def test_a_number_by_a_zero(form: str) -> None:
    for divisor in (core.tensor([1, 0]), core.tensor([0])):
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            FORMS[form](5, divisor)


@pytest.mark.parametrize("n", [3, 2000, 100_000])
def test_a_zero_anywhere_is_found(n: int) -> None:
    divisor = core.ones(n, dtype=core.int64)
    divisor[-1] = 0
    for form in ("//", "%", "floor_divide_"):
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            FORMS[form](core.arange(n), divisor)
        assert FORMS[form](core.arange(n), divisor + 2).shape == (n,)


@pytest.mark.parametrize("form", FORMS)
def test_other_quotients_are_as_before(form: str) -> None:
    assert FORMS[form](core.tensor([-7, 7]), 2).tolist() == quotient(form)
    assert FORMS[form](core.tensor([-7, 7]), core.tensor(2)).tolist() == quotient(form)
    empty = core.zeros(0, dtype=core.int64)
    assert FORMS[form](empty, 0).shape == (0,)
    assert FORMS[form](empty, core.tensor([0])).shape == (0,)
    assert not FORMS[form](core.ones(2), 0.0).isfinite().any()


def test_a_refused_write_leaves_its_target() -> None:
    x = core.tensor([7, 5])
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        x.floor_divide_(core.tensor([1, 0]))
    assert x.tolist() == [7, 5]
    assert x._version == 0


def test_truncated_quotients_are_exact_beyond_float32() -> None:
    assert core.div(core.tensor([2**40 + 1, -(2**40) - 1]), 2, rounding_mode="trunc").tolist() == [2**39, -(2**39)]


def test_truncated_quotients_of_floats_may_be_infinite() -> None:
    """They are quotients of floats: integers go another way, which takes a remainder first."""
    a = core.tensor([1.0, -1.0, 7.0])
    assert core.div(a, core.tensor([0.0, 0.0, 2.0]), rounding_mode="trunc").tolist() == [math.inf, -math.inf, 3.0]
    assert core.div(core.tensor([7, -7]), 0.0, rounding_mode="trunc").tolist() == [math.inf, -math.inf]


@pytest.mark.parametrize("decimals", [-2, -1, 0, 1, 3])
def test_rounding_to_decimals_as_numpy(decimals: int) -> None:
    x = np.array([123.456, -55.55, 0.5, 1.5, 250.0, 350.0, -0.0012])
    np.testing.assert_allclose(core.round(core.tensor(x), decimals=decimals).numpy(), np.round(x, decimals))
    if decimals:
        with pytest.raises(NotImplementedError, match="\"round_cpu\" not implemented for 'Long'"):
            core.round(core.tensor([1]), decimals=decimals)
    else:
        assert core.round(core.tensor([1]), decimals=decimals).tolist() == [1]


def test_powers_of_integers() -> None:
    x = core.tensor([1, 2, -3])
    for n in (0, 1, 2, 3, 5):
        got = x**n
        assert (got.dtype, got.tolist()) == (core.int64, [v**n for v in (1, 2, -3)])
    for n in (-1, -2):
        with pytest.raises(RuntimeError, match="Integers to negative integer powers are not allowed"):
            x**n
    np.testing.assert_allclose((core.tensor([1j, 2.0]) ** -1).numpy(), [-1j, 0.5])
    np.testing.assert_allclose((x.double() ** -2).numpy(), [1, 0.25, 1 / 9])
