"""deepcopy and pickle: values, what is shared, strides, gradients; DLPack there and back."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import core


def test_views_of_one_memory_stay_so():
    x = core.arange(6.0).reshape(2, 3)
    again, row, column = copy.deepcopy([x, x[1], x[:, 0]])
    again[1, 0] = 9
    assert row[0] == 9
    assert column[1] == 9
    assert x[1, 0] == 3
    assert row._version == again._version == 1


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "bool", "int64", "complex64"])
def test_strides_and_dtypes_stay(dtype):
    x = core.ones(2, 3).to(getattr(core, dtype)).t()
    y = copy.deepcopy(x)
    assert (y.stride(), y.dtype, y.tolist()) == (x.stride(), x.dtype, x.tolist())
    z = pickle.loads(pickle.dumps(x))
    assert (z.dtype, z.tolist()) == (x.dtype, x.tolist())


def test_gradients_and_identity():
    x = core.ones(3, requires_grad=True)
    (x * 2).sum().backward()
    both = copy.deepcopy({"a": x, "b": x})
    assert both["a"] is both["b"]
    assert both["a"].grad.tolist() == [2.0] * 3
    assert both["a"].grad is not x.grad
    assert both["a"].requires_grad
    with pytest.raises(RuntimeError, match="Only Tensors created explicitly by the user"):
        copy.deepcopy(x * 2)


def test_empty_and_zero_dimensional():
    assert copy.deepcopy(core.empty(0, 3)).shape == (0, 3)
    assert copy.deepcopy(core.tensor(3.0)).item() == 3.0
    assert copy.deepcopy(core.ones(3).expand(2, 3)).stride() == (0, 1)


def test_dlpack_there_and_back():
    x = core.arange(3.0)
    a = np.from_dlpack(x)
    a_again = core.from_dlpack(np.arange(3.0))
    assert a.ctypes.data == x.data_ptr()
    assert a_again.tolist() == [0.0, 1.0, 2.0]
    with pytest.raises(BufferError, match="require gradient"):
        np.from_dlpack(x.requires_grad_())
