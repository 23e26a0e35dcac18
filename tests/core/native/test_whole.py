"""Kernels of int64 and of bools (native/emit.py): they give what NumPy gives, at the ends of the range too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core
from core.backends import cpu, reference
from core.base import dtypes
from core.base.device import kind
from core.declare.op import Elementwise, table
from core.native.emit import TRUTHS, WHOLE

ENDS = np.array([0, 1, -1, 2, -2, 7, -7, 2**63 - 1, -(2**63), 2**62, -(2**62), 3, 2**31, -(2**31) - 1])
A, B = (a.copy() for a in np.meshgrid(ENDS, ENDS))


def pair(name: str, dtype: Any) -> tuple[Any, Any]:
    op = table[name]
    assert isinstance(op, Elementwise)
    found = cpu.map(op.program, kind(dtype))
    assert not isinstance(found, str)
    return found.run, reference.numpy_backend.map(op.program, kind(dtype)).run


def agree(runs: tuple[Any, Any], *operands: Any) -> None:
    found, expected = (run(*operands) for run in runs)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", WHOLE)
def test_whole_numbers_are_numpys(name: str) -> None:
    divides = name in ("floor_divide", "remainder")
    runs, arrays = pair(name, dtypes.int64), [A, np.where(B == 0, 3, B) if divides else B][: len(table[name].inputs)]
    before = [A > B] if name == "where" else []
    agree(runs, *before, *arrays)
    agree(runs, *(a[::2, ::-1].T for a in (*before, *arrays)))
    if len(arrays) == 1:
        return
    for number in (0, 1, -1, 5, 2**63, 2**64 + 3, -(2**63) - 1):
        if number or not divides:
            agree(runs, *before, A, number)
        agree(runs, *before, number, arrays[1])


@pytest.mark.parametrize("name", ["floor_divide", "remainder"])
def test_whole_numbers_are_not_divided_by_zero(name: str) -> None:
    for run in pair(name, dtypes.int64):
        for divisor in (B, 0):
            with pytest.raises(ZeroDivisionError):
                run(A, divisor)


@pytest.mark.parametrize("name", TRUTHS)
def test_bools_are_compared_and_chosen(name: str) -> None:
    a, b = A > 0, B > 0
    agree(pair(name, dtypes.bool_), *([a ^ b] if name == "where" else []), a, b)
    agree(pair(name, dtypes.bool_), *([a ^ b] if name == "where" else []), a, 1)


def test_a_tensor_keeps_its_type_and_its_words() -> None:
    x = core.tensor([5, -5, 0])
    assert ((x + 2**63).tolist(), (x == 2**63).tolist()) == ([5 - 2**63, -5 + 2**63, -(2**63)], [False] * 3)
    assert [(x // 2).tolist(), (x % -2).tolist()] == [[2, -3, 0], [-1, -1, 0]]
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        x // 0
    assert (x.to(core.int32) + x.to(core.int32)).dtype == core.int32
    with pytest.raises(RuntimeError, match="must match the size"):
        x + core.tensor([1, 2])
