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


@pytest.mark.parametrize("name", ["float8_e5m2", "float8_e4m3fn", "bfloat16"])
def test_views_stay_so_in_types_that_numpy_does_not_know(name):
    x = core.ones(2, 3).to(getattr(core, name))
    again, view = copy.deepcopy([x, x.t()])
    again[0, 1] = 4.0
    assert view[1, 0].float().item() == 4.0


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "bool", "int64", "complex64"])
def test_strides_and_dtypes_stay(dtype):
    x = core.ones(2, 3).to(getattr(core, dtype)).t()
    y = copy.deepcopy(x)
    assert (y.stride(), y.dtype, y.tolist()) == (x.stride(), x.dtype, x.tolist())
    z = pickle.loads(pickle.dumps(x))
    assert (z.dtype, z.tolist()) == (x.dtype, x.tolist())


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_what_was_written_on_a_tensor_goes_along(again):
    x = core.ones(2, requires_grad=True)
    x.note = ["kept"]
    (x * 3).sum().backward()
    y = again(x)
    assert y.note == ["kept"]
    assert (y.note is x.note) == (again is copy.copy)
    assert y.requires_grad
    assert y.is_leaf
    assert (y.data_ptr() == x.data_ptr()) == (again is copy.copy)
    p = core.nn.Parameter(core.ones(2))
    p.note = "kept"
    assert type(again(p)) is core.nn.Parameter
    assert getattr(again(p), "note", None) == ("kept" if again is not copy.deepcopy else None), "as PyTorch has it"


def test_pickles_keep_strides_and_hold_each_element_once():
    dense = [core.ones(2, 3).t(), core.ones(2, 3, 4).permute(2, 0, 1), core.ones(1, 3).expand(1000, 3)]
    for x in (*dense, core.ones(4)[::2], core.ones(2, 3, 4)[:, 1], core.empty(0, 3), core.tensor(1.0)):
        data = pickle.dumps(x)
        y = pickle.loads(data)
        assert len(data) < 1000
        assert y.tolist() == x.tolist()
        if any(x is d for d in dense):
            assert y.stride() == x.stride()
    assert len(pickle.dumps(core.ones(10_000)[:2])) < 500


def test_a_computed_tensor_is_pickled_as_a_leaf():
    x = core.ones(2, requires_grad=True) * 2
    for y in (pickle.loads(pickle.dumps(x)), copy.copy(x)):
        assert y.is_leaf
        assert y.requires_grad
        assert y.tolist() == [2, 2]


def test_modules_optimizers_and_schedules_are_pickled_whole():
    torch = core
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    model.add_module("tied", model[0])
    optimizer = torch.optim.Adam(model.parameters())
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    model(torch.ones(3, 2)).sum().backward()
    optimizer.step()
    for again in (copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))):
        m, o, s = again([model, optimizer, schedule])
        assert m[0] is m.tied
        assert o.param_groups[0]["params"][0] is m[0].weight
        assert s.optimizer is o
        x = torch.ones(3, 2)
        for parts in ((model, optimizer), (m, o)):
            parts[1].zero_grad()
            parts[0](x).square().sum().backward()
        assert (m[0].weight.grad == model[0].weight.grad).all()
        assert m[0].weight.data_ptr() != model[0].weight.data_ptr()


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
