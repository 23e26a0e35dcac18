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


def test_numbers_and_tensors_of_no_dimension_do_not_widen() -> None:
    small, wide = core.tensor([1, 2], dtype=core.int8), core.tensor(3, dtype=core.int64)
    for y in (small & wide, wide & small, small & 3, 3 & small):
        assert y.dtype is core.int8
    assert (core.tensor(3, dtype=core.int8) & wide).dtype is core.int64
    assert (core.tensor([True]) & core.tensor(True)).dtype is core.bool
    assert (core.tensor([True]) & core.tensor(3)).dtype is core.int64


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64"])
def test_shifts_of_every_width(dtype: str) -> None:
    bits = np.dtype(dtype).itemsize * 8
    values = [1, 3, 100] if dtype == "uint8" else [1, -3, 100]
    a = core.tensor(values, dtype=getattr(core, dtype)).reshape(3, 1)
    by = core.tensor([0, 1, 3, bits - 1, bits, bits + 1], dtype=getattr(core, dtype))
    for k, n in enumerate(by.tolist()):
        left = [int(np.array(v << n & (1 << bits) - 1, np.uint64).astype(np.dtype(dtype))) if n < bits else 0
                for v in values]  # fmt: skip
        right = [v >> min(n, bits - 1) for v in values]
        assert (a << by)[:, k].tolist() == left
        assert (a >> by)[:, k].tolist() == right
