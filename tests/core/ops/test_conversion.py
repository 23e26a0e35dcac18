"""Tensors from numbers, lists, arrays and tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import core


@pytest.mark.parametrize(("data", "dtype"), [
    (1, "int64"), (1.5, "float32"), (True, "bool"), ([1, 2.5], "float32"), ([True, 2], "int64"), ([], "float32"),
    (1j, "complex64"),
    (np.float64(1), "float64"), ([np.float64(1)], "float64"), (np.zeros(2, np.int16), "int16"),
    ([core.tensor(1), 2], "int64"),
    ([core.tensor(1), 2.5], "float32"), ([core.tensor(1.0, dtype=core.float64), 2], "float64"), (range(3), "int64"),
])  # fmt: skip
def test_dtypes(data: Any, dtype: str) -> None:
    assert core.tensor(data).dtype is core.base.dtypes.named(dtype)


@given(
    hnp.arrays(
        st.sampled_from([np.float32, np.int64, bool]), hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)
    )
)
def test_there_and_back(a: Any) -> None:
    np.testing.assert_array_equal(core.tensor(a).numpy(), a)
    np.testing.assert_array_equal(core.tensor(a.tolist()).numpy().reshape(a.shape), a)
    assert core.from_numpy(a).data_ptr() == a.ctypes.data
    assert core.as_tensor(a).numpy().ctypes.data == a.ctypes.data
    assert not a.size or core.tensor(a).data_ptr() != a.ctypes.data


def test_tensors_within_lists() -> None:
    """One of a single value is a number, whatever its dimensions."""
    one, two = core.tensor([1.0]), core.tensor([[2.0]])
    assert core.tensor([[one], [two]]).tolist() == [[1.0], [2.0]]
    assert core.tensor([core.tensor([1, 2]), core.tensor([3, 4])]).tolist() == [[1, 2], [3, 4]]


def test_the_default_dtype_counts() -> None:
    core.base.dtypes.set_default_dtype(core.float64)
    try:
        assert core.tensor(1.5).dtype is core.tensor([]).dtype is core.zeros(1).dtype is core.float64
        assert core.tensor(1j).dtype is core.complex128
    finally:
        core.base.dtypes.set_default_dtype(core.float32)


def test_copies_and_views() -> None:
    x = core.ones(2, requires_grad=True)
    assert core.as_tensor(x) is x
    assert core.asarray(x) is x
    assert not core.tensor(x).requires_grad
    assert core.asarray(x.detach(), copy=True).data_ptr() != x.data_ptr()
    assert core.as_tensor([1, 2], dtype=core.float16).dtype is core.float16


@pytest.mark.parametrize(("make", "error", "phrase"), [
    (lambda: core.tensor([[1, 2], [3]]), ValueError, "expected sequence of length 2 at dim 1 (got 1)"),
    (lambda: core.tensor([[[1], [2]], [[3], [4, 5]]]), ValueError, "expected sequence of length 1 at dim 2 (got 2)"),
    (lambda: core.tensor([[1, 2], 3]), TypeError, "not a sequence"),
    (lambda: core.tensor("a"), TypeError, "invalid data type 'str'"),
    (lambda: core.tensor([1, None]), RuntimeError, "Could not infer dtype of NoneType"),
    (lambda: core.tensor({1: 2}), RuntimeError, "Could not infer dtype of dict"),
    (lambda: core.tensor(2**63), ValueError, "Overflow when unpacking long long"),
    (lambda: core.tensor(2**70), ValueError, "Overflow when unpacking long long"),
    (lambda: core.tensor(300, dtype=core.uint8), RuntimeError, "cannot be converted to type uint8 without overflow"),
    (lambda: core.tensor(float("nan"), dtype=core.int32), RuntimeError, "cannot be converted to type int32 without"),
    (lambda: core.from_numpy([1]), TypeError, "expected np.ndarray (got list)"),
    (lambda: core.from_numpy(np.zeros(3)[::-1]), ValueError, "At least one stride in the given numpy array is"),
    (lambda: core.from_numpy(np.zeros(3, ">f4")), ValueError, "byte order different from the native byte order"),
    (lambda: core.from_numpy(np.zeros(2, [("a", np.int8), ("b", np.float32)])["b"]), ValueError,
     "not a multiple of the element byte"),
    (lambda: core.from_numpy(np.array(["a"])), TypeError, "can't convert"),
    (lambda: core.tensor([1, 2], requires_grad=True), RuntimeError, "can require gradients"),
])  # fmt: skip
def test_errors(make: Any, error: Any, phrase: str) -> None:
    with pytest.raises(error) as e:
        make()
    assert phrase in str(e.value)
