"""The dtypes of tensors beside NumPy's numbers, as in PyTorch."""

from __future__ import annotations

import operator

import numpy as np
import pytest
import torch

import core

pytestmark = pytest.mark.filterwarnings("ignore:ComplexHalf")

# without np.bool_ and np.complex64, which PyTorch reads as floats: here they are a truth and a complex number
NUMBERS = [np.float64(2), np.float32(2), np.float16(2), np.int64(2), np.int8(2), np.uint8(2), np.complex128(2j)]
DTYPES = ["bool", "uint8", "int8", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64"]


def outcome(lib, run):
    try:
        found = run(lib)
    except (TypeError, RuntimeError, ValueError, NotImplementedError) as e:
        return type(e).__name__
    kind = str(found.dtype).rpartition(".")[2]
    return kind, tuple(found.shape), isinstance(found, lib.Tensor)


@pytest.mark.parametrize("op", [operator.add, operator.mul, operator.truediv, operator.sub, operator.pow, operator.eq])
@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes_beside_numpys_numbers(op, dtype):
    for number in NUMBERS:
        for shape in ((2,), ()):
            for run in (
                lambda lib, n=number, s=shape: op(lib.ones(s, dtype=getattr(lib, dtype)), n),
                lambda lib, n=number, s=shape: op(n, lib.ones(s, dtype=getattr(lib, dtype))),
            ):
                theirs = outcome(torch, run)
                if theirs[0] == "complex32" or isinstance(theirs, str):
                    continue  # half precision of complex numbers, and differences of truths, are not refused here
                assert outcome(core, run) == theirs, (number.dtype, shape)
