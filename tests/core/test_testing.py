"""`assert_close`: what it lets pass, and what it says of the rest."""

from __future__ import annotations

import numpy as np
import pytest

import core
from core.testing import assert_allclose, assert_close, make_tensor


@pytest.mark.parametrize(("a", "b"), [
    (core.ones(2), core.ones(2) + 1e-6), (1, 1), (1.0, 1.0 + 1e-8), ([1, core.ones(1)], [1, core.ones(1)]),
    ({"a": np.ones(2)}, {"a": np.ones(2)}), (core.tensor([True]), core.tensor([True])), ("x", "x"),
    (core.tensor([float("inf")]), core.tensor([float("inf")])),
])  # fmt: skip
def test_what_is_close_passes(a, b):
    assert_close(a, b)


@pytest.mark.parametrize(("a", "b", "said"), [
    (core.ones(2), core.tensor([1.0, 2.0]), r"Mismatched elements: 1 / 2 \(50.0%\)"),
    (core.ones(2), core.ones(3), "attribute 'shape' do not match"),
    (core.ones(2), core.ones(2).double(), "attribute 'dtype' do not match"),
    (core.tensor([1, 2]), core.tensor([1, 3]), "Tensor-likes are not equal!"),
    (core.tensor([float("nan")]), core.tensor([float("nan")]), "not close"),
    ([1, 2], [1], "length of the sequences mismatch"),
    ({"a": 1}, {"b": 1}, "keys of the mappings do not match"),
    ([core.ones(1)], [core.zeros(1)], r"for item \[0\]"),
    (1.0, 2.0, "Expected 2.0 but got 1.0"),
])  # fmt: skip
def test_what_is_not_close_is_told(a, b, said):
    with pytest.raises(AssertionError, match=said):
        assert_close(a, b)


def test_tolerances_and_checks_are_chosen():
    assert_close(core.ones(1), core.ones(1) + 0.1, rtol=0, atol=0.2)
    assert_close(core.ones(1), core.ones(1).double(), check_dtype=False)
    assert_close(core.tensor([float("nan")]), core.tensor([float("nan")]), equal_nan=True)
    assert_allclose(core.ones(1), [1.0])
    with pytest.raises(AssertionError, match="stride"):
        assert_close(core.ones(2, 2), core.ones(2, 2).t(), check_stride=True) or assert_close(
            core.ones(2, 3), core.ones(3, 2).t(), check_stride=True)  # fmt: skip
    with pytest.raises(AssertionError, match="mine"):
        assert_close(1, 2, msg="mine")
    with pytest.raises(ValueError, match="must both be specified"):
        assert_close(1, 1, rtol=0.1)
    with pytest.raises(TypeError, match="No comparison pair"):
        assert_close(core.ones(1), object())


@pytest.mark.parametrize("dtype", [core.float32, core.bool, core.uint8, core.int64, core.complex64], ids=str)
def test_random_tensors_have_a_dtype_and_bounds(dtype):
    made = make_tensor((2, 3), dtype=dtype)
    assert made.dtype == dtype
    assert made.shape == (2, 3)
    if not dtype.is_complex:
        assert made.double().abs().max() <= 9
