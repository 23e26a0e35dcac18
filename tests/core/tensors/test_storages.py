"""Storages: the memory that tensors share, in bytes and in elements."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import core
from core.tensors.tensor import from_array


def test_views_share_a_storage_and_copies_do_not() -> None:
    x = core.arange(6).view(2, 3)
    s = x.untyped_storage()
    assert s.nbytes() == len(s) == s.size() == 48
    assert s.data_ptr() == x[1:].untyped_storage().data_ptr() == x.T.untyped_storage().data_ptr() == x.data_ptr()
    assert s._cdata != x.clone().untyped_storage()._cdata
    assert s.device == core.device("cpu")
    assert not s.is_cuda
    assert s.untyped() is s
    assert s.cpu() is s


def test_elements_are_read_and_written_and_autograd_sees_it() -> None:
    x = core.ones(3, requires_grad=True)
    y = x * 2
    z = (y * y).sum()
    s = y.storage()
    assert (s.size(), len(s), s.dtype, s[0], s.tolist(), s.element_size()) == (3, 3, core.float32, 2.0, [2.0] * 3, 4)
    s[1] = 7.0
    assert y.tolist() == [2.0, 7.0, 2.0]
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()


def test_bytes_are_copied_filled_and_cloned() -> None:
    s = core.UntypedStorage(4)
    assert s.fill_(3).tolist() == [3] * 4
    kept = s.clone()
    assert s.copy_(core.UntypedStorage([1, 2, 3, 4]))[1] == 2
    assert kept.tolist() == [3] * 4
    assert list(s[1:3]) == [2, 3]
    with pytest.raises(RuntimeError, match="size does not match"):
        s.copy_(core.UntypedStorage(3))
    assert s.resize_(4) is s
    with pytest.raises(NotImplementedError, match="smaller or larger"):
        s.resize_(0)
    assert copy.deepcopy(s).tolist() == pickle.loads(pickle.dumps(s)).tolist() == s.tolist()


def test_classes_of_dtypes() -> None:
    s = core.FloatStorage([1, 2])
    assert s.tolist() == [1.0, 2.0]
    assert isinstance(s, core.FloatStorage)
    assert not isinstance(s, core.DoubleStorage)
    assert isinstance(core.ones(2).double().storage(), core.DoubleStorage)
    assert isinstance(s, core.TypedStorage)
    assert core.is_storage(s)
    assert core.is_storage(s.untyped())
    assert not core.is_storage(core.ones(1))
    assert s.type(core.float64).tolist() == [1.0, 2.0]
    assert s.type() == "core.FloatStorage"
    assert core.LongStorage(3).tolist() == [0, 0, 0]
    assert core.BFloat16Storage([1.5]).tolist() == [1.5]


def test_a_tensor_is_set_to_a_storage() -> None:
    x = core.arange(6.0)
    y = core.tensor([]).set_(x.untyped_storage(), 1, (2, 2), (2, 1))
    assert y.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    y[0, 0] = 9.0
    assert x[1].item() == 9.0
    assert core.tensor([]).set_(x.storage()).tolist() == x.tolist()
    with pytest.raises(RuntimeError, match="out of bounds for storage of size 24"):
        core.tensor([]).set_(x.storage(), 0, (7,))


def test_memory_that_may_not_be_written() -> None:
    a = np.ones(3, np.float32)
    a.flags.writeable = False
    with pytest.raises(RuntimeError, match="not writable"):
        from_array(a).storage()[0] = 2.0
