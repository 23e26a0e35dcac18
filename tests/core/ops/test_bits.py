"""Bits of integers as NumPy has them, shifts beyond the width, the operators."""

from __future__ import annotations

import numpy as np
import pytest

import core

A, B = np.array([12, -5, 7]), np.array([10, 3, -2])


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor", "gcd", "lcm"])
def test_binary_functions_are_numpys(name: str) -> None:
    got = getattr(core, name)(core.tensor(A), core.tensor(B))
    assert got.tolist() == getattr(np, name)(A, B).tolist()
    assert got.dtype is core.int64


def test_operators() -> None:
    a, b = core.tensor(A), core.tensor(B)
    assert (a & b).tolist() == (A & B).tolist()
    assert (a | 1).tolist() == (A | 1).tolist()
    assert (6 ^ a).tolist() == (6 ^ A).tolist()
    assert (~a).tolist() == (~A).tolist()
    assert (a << 2).tolist() == (A << 2).tolist()
    assert (a >> 1).tolist() == (A >> 1).tolist()
    assert (~core.tensor([True])).tolist() == [False]
    a &= 4
    assert a.tolist() == (A & 4).tolist()


def test_bools_have_the_kernels_of_logic() -> None:
    a, b = core.tensor([True, True, False]), core.tensor([True, False, False])
    assert (a & b).tolist() == [True, False, False]
    assert (a | b).tolist() == [True, True, False]
    assert (a ^ True).tolist() == [False, False, True]
    a &= b
    assert a.tolist() == [True, False, False]
    with pytest.raises(TypeError, match="must be Tensor, not bool"):
        core.bitwise_and(True, False)


def test_shifts_beyond_the_width() -> None:
    a = core.tensor([1, -8], dtype=core.int8)
    assert (a << 9).tolist() == [0, 0]
    assert (a >> 9).tolist() == [0, -1]


def test_dtypes_promote() -> None:
    mixed = core.tensor([7], dtype=core.uint8) & core.tensor([5], dtype=core.int8)
    assert mixed.dtype is core.int16
    assert (core.tensor([True]) | core.tensor([2])).dtype is core.int64


def test_floats_are_refused() -> None:
    for f in (core.bitwise_and, core.gcd):
        with pytest.raises(NotImplementedError, match="not implemented for 'Float'"):
            f(core.ones(2), core.ones(2))
    with pytest.raises(NotImplementedError, match="bitwise_not_cpu"):
        ~core.ones(2)
