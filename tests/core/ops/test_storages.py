"""Memory by PyTorch's names, subclasses over it, and the older ways to make tensors."""

from __future__ import annotations

import numpy as np
import pytest

import core


def test_views_share_a_storage():
    x = core.arange(6.0).reshape(2, 3)
    whole = x.untyped_storage()
    assert whole == x[1].untyped_storage() == x.t().untyped_storage()
    assert hash(whole) == hash(x[1].untyped_storage())
    assert whole != core.arange(6.0).untyped_storage()
    assert whole != 3
    assert (whole.nbytes(), len(whole), whole.size(), whole.element_size()) == (24, 24, 24, 1)
    assert whole.data_ptr() == x.data_ptr() == whole._cdata
    assert x[1].data_ptr() - x[1].untyped_storage().data_ptr() == 12
    assert (whole.device, whole.is_cuda) == (core.device("cpu"), False)
    assert "of size 24" in repr(whole)


def test_bytes_and_elements():
    x = core.tensor([1.0, 2.0])
    assert bytes(x.untyped_storage().tolist()) == np.array([1, 2], "f4").tobytes()
    assert list(x.untyped_storage())[3] == x.untyped_storage()[3] == 0x3F
    held = x[1:].storage()
    assert list(held) == held.tolist() == [1.0, 2.0]
    assert (held[1], len(held), held.nbytes(), held.element_size(), held.dtype) == (2.0, 2, 8, 4, core.float32)
    assert held.untyped() == x.untyped_storage()
    assert held.data_ptr() == x.data_ptr()
    assert held.device == core.device("cpu")
    assert "core.float32" in repr(held)
    assert core.UntypedStorage(5).nbytes() == 5


def test_a_clone_is_another_memory_and_no_memory_changes_its_size():
    held = core.ones(2).untyped_storage()
    assert held.clone() != held
    assert held.clone().tolist() == held.tolist()
    assert held.resize_(8) is held
    with pytest.raises(NotImplementedError, match=r"resize_; came: 4 bytes; needed: 8"):
        held.resize_(4)


def test_what_a_storage_is():
    x = core.ones(2)
    assert core.is_storage(x.storage())
    assert core.is_storage(x.untyped_storage())
    assert not core.is_storage(x)


class Points(core.Tensor):
    pass


def test_a_subclass_keeps_memory_and_history():
    w = core.ones(3, requires_grad=True)
    p = (w * 2).as_subclass(Points)
    assert type(p) is Points
    p.sum().backward()
    assert w.grad.tolist() == [2, 2, 2]
    leaf = w.as_subclass(Points)
    leaf.sum().backward()
    assert w.grad.tolist() == [3, 3, 3]
    x = core.zeros(2)
    x.as_subclass(Points).fill_(4)
    assert x.tolist() == [4, 4]
    with pytest.raises(TypeError, match="as_subclass"):
        x.as_subclass(int)


def test_a_subclass_that_is_a_leaf():
    x = core.ones(2)
    p = core.Tensor._make_subclass(Points, x, True)
    assert p.is_leaf
    assert p.requires_grad
    assert not core.Tensor._make_subclass(Points, x).requires_grad
    assert p.data_ptr() == x.data_ptr()


def test_the_older_ways():
    x = core.ones(2, dtype=core.float64)
    assert x.new([1, 2]).tolist() == [1, 2]
    assert x.new([1]).dtype is core.float64
    assert x.new(2, 3).shape == (2, 3)
    try:
        core.set_default_tensor_type("torch.DoubleTensor")
        assert core.ones(1).dtype is core.float64
        core.set_default_tensor_type(core.HalfTensor)
        assert core.ones(1).dtype is core.float16
    finally:
        core.set_default_dtype(core.float32)
    for wrong in (core.LongTensor, "torch.Nothing", 3):
        with pytest.raises(TypeError, match="only floating-point types are supported as the default type"):
            core.set_default_tensor_type(wrong)


@pytest.mark.parametrize("form", [None, core.contiguous_format, core.channels_last])
def test_contiguous_in_an_order(form):
    x = core.ones(2, 3, 4, 5)
    assert x.is_contiguous(memory_format=form) is (form is not core.channels_last)
    last = x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
    assert last.is_contiguous(memory_format=form) is (form is core.channels_last)


def test_a_device_as_a_block():
    before = core.get_default_device()
    with core.device("cpu") as place, core.device("cpu"):
        assert core.get_default_device() is place
        assert core.ones(2).device is place
    assert core.get_default_device() is before


@pytest.mark.parametrize("cut", [lambda x: x, lambda x: x.detach(), lambda x: x.data])
def test_what_is_expanded_and_not_stretched_may_be_written(cut):
    x = core.arange(4)
    cut(x.expand((1, -1))).zero_()
    assert x.tolist() == [0, 0, 0, 0]
    with pytest.raises(RuntimeError):
        cut(core.arange(4).expand((2, -1))).add_(1)
