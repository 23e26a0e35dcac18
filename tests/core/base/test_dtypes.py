"""Data types: PyTorch's promotion, in the table and in what ops really give."""

from __future__ import annotations

import copy
import itertools
import pickle

import ml_dtypes
import numpy as np
import pytest

import core
from core.base import dtypes

B, U8, I8, I16, I32, I64 = core.bool, core.uint8, core.int8, core.int16, core.int32, core.int64
F16, BF, F32, F64, C64, C128 = core.float16, core.bfloat16, core.float32, core.float64, core.complex64, core.complex128

# PyTorch's promote_types, the upper half; rows and columns in the order of dtypes.all_dtypes
TABLE = """
bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128
     uint8 int16 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128
           int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128
                int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128
                      int32 int64 float16 bfloat16 float32 float64 complex64 complex128
                            int64 float16 bfloat16 float32 float64 complex64 complex128
                                  float16 float32 float32 float64 complex64 complex128
                                          bfloat16 float32 float64 complex64 complex128
                                                   float32 float64 complex64 complex128
                                                           float64 complex128 complex128
                                                                   complex64 complex128
                                                                             complex128
"""


def pairs():
    rows = [line.split() for line in TABLE.strip().splitlines()]
    for i, row in enumerate(rows):
        for j, name in enumerate(row):
            yield dtypes.all_dtypes[i], dtypes.all_dtypes[i + j], dtypes.named(name)


@pytest.mark.parametrize(("a", "b", "expected"), list(pairs()))
def test_promote_types(a, b, expected):
    assert core.promote_types(a, b) is expected
    assert core.promote_types(b, a) is expected


REAL = [B, U8, I8, I16, I32, I64, F16, BF, F32, F64]


@pytest.mark.parametrize(("a", "b"), list(itertools.combinations_with_replacement(REAL, 2)))
def test_what_ops_give(a, b):
    x, y = core.ones(3, dtype=a), core.ones(3, dtype=b)
    assert (x + y).dtype is core.promote_types(a, b)
    assert (x * y).dtype is core.promote_types(a, b)
    assert (x < y).dtype is B
    quotient = core.promote_types(a, b)
    assert (x / y).dtype is (quotient if quotient.is_floating_point else F32)
    assert core.where(core.ones(3, dtype=B), x, y).dtype is core.promote_types(a, b)


@pytest.mark.parametrize(
    ("dimmed", "other", "expected"),
    [
        (F32, core.tensor(1.0, dtype=F64), F32),
        (F16, core.tensor(1.0, dtype=F32), F16),
        (I32, core.tensor(1, dtype=I64), I32),
        (U8, core.tensor(-1, dtype=I64), U8),
        (I64, core.tensor(1.0, dtype=F16), F16),
        (B, core.tensor(1, dtype=U8), U8),
        (F32, core.tensor(1, dtype=I64), F32),
        (I32, 1, I32),
        (U8, 1, U8),
        (B, 1, I64),
        (B, True, B),
        (I8, True, I8),
        (I32, 1.5, F32),
        (F64, 1.5, F64),
        (F16, 1.5, F16),
        (BF, 2, BF),
        (I32, np.float64(1.5), F32),
        (I32, np.int64(1), I32),
        (F32, np.float64(1.5), F32),
    ],
)
def test_zero_dim_tensors_and_numbers_weigh_less(dimmed, other, expected):
    x = core.ones(3, dtype=dimmed)
    assert (x + other).dtype is expected
    assert (other + x).dtype is expected
    assert core.add(x, other).dtype is expected


def test_zero_dim_tensors_among_themselves_and_against_numbers():
    a, b = core.tensor(1.0, dtype=F32), core.tensor(1.0, dtype=F64)
    assert (a + b).dtype is F64
    assert (a + 1).dtype is F32
    assert (core.tensor(1) + 1.5).dtype is F32


def test_the_default_dtype():
    assert core.get_default_dtype() is F32
    try:
        core.set_default_dtype(F64)
        assert core.tensor(1.5).dtype is F64
        assert (core.ones(2, dtype=I64) / 2).dtype is F64
        assert core.tensor([1, 2]).dtype is I64
    finally:
        core.set_default_dtype(F32)
    for wrong in (I64, "float32", np.float32):
        with pytest.raises(TypeError, match="only floating-point types"):
            core.set_default_dtype(wrong)


def test_numbers_wrap_around_in_integer_tensors():
    assert (core.tensor([1], dtype=U8) + 300).tolist() == [45]
    assert (core.tensor([1], dtype=U8) + -1).tolist() == [0]
    assert (core.tensor([1], dtype=I8) - 130).tolist() == [127]
    assert (core.tensor([200], dtype=U8) < 300).tolist() == [True]
    assert (core.tensor([200], dtype=U8) == -56).tolist() == [False]


def test_half_types_keep_numbers_exact_inside():
    for dtype in (F16, BF):
        x = core.tensor([1e-3], dtype=dtype)
        assert (x * 1e5).item() == pytest.approx(100, rel=1e-2)
        assert (x * 1e5 / 1e5).dtype is dtype


def test_mixed_dtypes_on_the_graph():
    x, y = core.ones(2, dtype=F32, requires_grad=True), core.ones(2, dtype=F64, requires_grad=True)
    (x * y * core.ones(2, dtype=I32)).sum().backward()
    assert (x.grad.dtype, y.grad.dtype) == (F32, F64)
    assert x.grad.tolist() == [1, 1]


def test_a_dtype():
    assert repr(F32) == "core.float32"
    assert (F32.itemsize, BF.itemsize, B.itemsize, C128.itemsize) == (4, 2, 1, 16)
    assert F16.is_floating_point
    assert not I32.is_floating_point
    assert C64.is_complex
    assert not U8.is_signed
    assert I8.is_signed
    assert pickle.loads(pickle.dumps(BF)) is copy.deepcopy(BF) is BF
    assert (core.float, core.double, core.half, core.long, core.int) == (F32, F64, F16, I64, I32)


def test_from_numpy():
    assert dtypes.from_numpy(np.float64) is F64
    assert dtypes.from_numpy(np.dtype(">i4")) is I32
    assert dtypes.from_numpy(ml_dtypes.bfloat16) is BF
    assert dtypes.from_numpy(np.uint16) is dtypes.uint16
    for unknown in ("f2,f4", "U3", object, "datetime64[s]"):
        with pytest.raises(TypeError, match="the supported types are"):
            dtypes.from_numpy(unknown)


def test_what_is_no_number():
    with pytest.raises(TypeError, match="expected a number, got str"):
        dtypes.of_number("1")
