"""`Tensor`: its attributes, its leaving for Python and NumPy, copies, and what it refuses."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import core


def test_what_it_is():
    x = core.ones(2, 3, 4, dtype=core.float64)
    assert x.shape == x.size() == (2, 3, 4)
    assert (x.size(1), x.size(-1), x.ndim, x.dim(), x.numel(), x.nelement(), len(x)) == (3, 4, 3, 3, 24, 24, 2)
    assert (x.element_size(), x.nbytes) == (8, 192)
    assert (x.stride(), x.stride(1)) == ((12, 4, 1), 4)
    assert x.is_contiguous()
    assert not x.permute(2, 0, 1).is_contiguous()
    assert x.is_floating_point()
    assert not x.is_complex()
    assert core.tensor(1 + 2j).is_complex()


def test_sharing_memory_with_numpy():
    a = np.zeros(3, np.float32)
    x = core.from_numpy(a)
    x += 1
    a[0] = 5
    assert x.tolist() == [5, 1, 1]
    assert x.numpy() is a
    assert x.data_ptr() == a.ctypes.data
    assert np.shares_memory(np.asarray(x), a)
    assert np.asarray(x, np.float64).dtype == np.float64
    assert not np.shares_memory(np.array(x), a)
    assert np.shares_memory(np.from_dlpack(x), a)


def test_what_requires_a_gradient_does_not_slip_away():
    x = core.ones(2, requires_grad=True)
    for leave in (lambda: x.numpy(), lambda: np.asarray(x), lambda: (x * 2).numpy()):
        with pytest.raises(RuntimeError, match="Can't call numpy\\(\\) on Tensor that requires grad") as caught:
            leave()
        assert "detach()" in str(caught.value)
    with pytest.raises(BufferError, match="require gradient"):
        np.from_dlpack(x)
    assert x.numpy(force=True).tolist() == x.detach().numpy().tolist() == [1, 1]
    with core.no_grad():
        assert x.numpy() is x._a


def test_numbers():
    assert core.tensor([[2.5]]).item() == 2.5
    assert core.tensor(1.5, dtype=core.bfloat16).item() == 1.5
    assert core.tensor([1.5, 2], dtype=core.bfloat16).tolist() == [1.5, 2]
    assert (float(core.tensor(2)), int(core.tensor(2.9)), bool(core.tensor([0.0]))) == (2.0, 2, False)
    assert [10, 20, 30][core.tensor(1)] == 20
    assert f"{core.tensor(1.23456):.2f} {core.ones(1)}" == "1.23 tensor([1.])"
    with pytest.raises(RuntimeError, match="a Tensor with 2 elements cannot be converted to Scalar") as caught:
        core.ones(2).item()
    assert "op: item" in str(caught.value)
    with pytest.raises(RuntimeError, match="Boolean value of Tensor with more than one value is ambiguous"):
        bool(core.ones(2))
    with pytest.raises(RuntimeError, match="Boolean value of Tensor with no values is ambiguous"):
        bool(core.ones(0))
    with pytest.raises(TypeError, match="only integer tensors of a single element can be converted to an index"):
        [1, 2][core.tensor(1.0)]


def test_as_a_sequence():
    x = core.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    assert [row.tolist() for row in x] == [[1, 2], [3, 4]]
    assert 3.0 in x
    assert 5.0 not in x
    first, second = x
    (first * second).sum().backward()
    assert x.grad.tolist() == [[3, 4], [1, 2]]
    for wrong in (len, iter):
        with pytest.raises(TypeError, match="0-d tensor"):
            wrong(core.tensor(1.0))


def test_as_a_key():
    x, y = core.ones(2), core.ones(2)
    assert {x: 1, y: 2}[x] == 1
    assert len({x, y, x}) == 2


# -- its place in the graph --------------------------------------------------------------------------------------------


def test_leaves():
    x, w = core.ones(2), core.ones(2, requires_grad=True)
    y = x * w
    assert (x.is_leaf, w.is_leaf, y.is_leaf) == (True, True, False)
    assert (x.requires_grad, y.requires_grad) == (False, True)
    assert (x.grad_fn, w.grad_fn) == (None, None)
    assert y.grad_fn.name() == "MulBackward0"
    assert y.output_nr == 0
    assert (w * 2).unbind()[1].output_nr == 1


def test_requires_grad():
    x = core.ones(2)
    assert x.requires_grad_() is x
    x.requires_grad = False
    y = x * core.ones(2, requires_grad=True)
    assert y.requires_grad_() is y
    with pytest.raises(RuntimeError, match="you can only change requires_grad flags of leaf variables"):
        y.requires_grad = False


def test_detach():
    x = core.ones(2, requires_grad=True)
    y = x * 2
    d = y.detach()
    assert (d.requires_grad, d.is_leaf) == (False, True)
    assert d.data_ptr() == y.data_ptr()
    y.detach_()
    assert not y.requires_grad
    with pytest.raises(RuntimeError, match="Can't detach views in-place"):
        (x * 2)[0].detach_()


def test_data():
    x = core.ones(2, requires_grad=True)
    x.data.mul_(3)
    x.data = core.full((3,), 7.0)
    assert x.tolist() == [7, 7, 7]
    assert x.requires_grad


def test_grad_is_checked():
    x = core.ones(2, requires_grad=True)
    x.grad = core.ones(2)
    x.grad = None
    with pytest.raises(TypeError, match="assigned grad expected to be a Tensor or None but got int"):
        x.grad = 3
    with pytest.raises(
        RuntimeError, match=r"attempting to assign a gradient of size '\[3\]' to a tensor of size '\[2\]'"
    ):
        x.grad = core.ones(3)
    with pytest.raises(RuntimeError, match="different type"):
        x.grad = core.ones(2, dtype=core.float64)
    with pytest.raises(RuntimeError, match="different type"):
        x.grad = core.ones(2, device="cuda")
    with pytest.raises(RuntimeError, match="can't assign Variable as its own grad"):
        x.grad = x


def test_views_know_their_base():
    x = core.arange(6).reshape(2, 3)
    v = x[1]
    w = v[1:]
    assert w._base is v._base
    assert w._is_view()
    assert not core.ones(2)._is_view()
    assert w.data_ptr() == x.data_ptr() + 4 * 8


# -- copies ------------------------------------------------------------------------------------------------------------


def test_deepcopy():
    x = core.ones(2, requires_grad=True)
    (x * 3).sum().backward()
    x.register_hook(lambda g: None)
    y = copy.deepcopy(x)
    assert (y.requires_grad, y.is_leaf, y.tolist(), y.grad.tolist()) == (True, True, [1, 1], [3, 3])
    assert not np.shares_memory(x._a, y._a)
    assert not np.shares_memory(x.grad._a, y.grad._a)
    pair = [x, x]
    a, b = copy.deepcopy(pair)
    assert a is b
    with pytest.raises(RuntimeError, match="Only Tensors created explicitly by the user"):
        copy.deepcopy(x * 2)


@pytest.mark.parametrize("dtype", [core.float32, core.bfloat16, core.int64, core.bool])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_pickle(dtype, device):
    x = core.tensor([[1, 0], [0, 1]], dtype=dtype, device=device).t()
    y = pickle.loads(pickle.dumps(x))
    assert (y.dtype, y.device, y.tolist()) == (x.dtype, x.device, x.tolist())


def test_grad_stays_with_a_pickled_leaf_s_flag():
    assert pickle.loads(pickle.dumps(core.ones(2, requires_grad=True))).requires_grad
