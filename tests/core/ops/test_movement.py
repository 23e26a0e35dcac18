"""Casts, copies and fills."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core
from core.events import observe


@pytest.mark.parametrize(("name", "dtype"), [
    ("float", "float32"), ("double", "float64"), ("half", "float16"), ("bfloat16", "bfloat16"), ("long", "int64"),
    ("int", "int32"), ("short", "int16"), ("char", "int8"), ("byte", "uint8"), ("bool", "bool"),
])  # fmt: skip
def test_casts(name: str, dtype: str) -> None:
    x = core.tensor([0.0, 1.0, 2.0])
    y = getattr(x, name)()
    assert y.dtype is core.base.dtypes.named(dtype)
    assert y.double().tolist() == ([0, 1, 1] if name == "bool" else [0, 1, 2])
    assert getattr(y, name)() is y


def test_a_cast_among_floats_is_on_the_graph_and_one_to_integers_is_not() -> None:
    x = core.tensor([1.5, 2.5], requires_grad=True)
    y = x.double() * 2
    y.sum().backward()
    assert x.grad.dtype is core.float32
    assert x.grad.tolist() == [2, 2]
    assert not x.long().requires_grad
    assert not x.bool().requires_grad


def test_a_cast_to_integers_is_told_as_a_cut() -> None:
    class Cuts(observe.Observer):
        def __init__(self) -> None:
            self.kinds: list[str] = []

        def cut(self, event: Any) -> None:
            self.kinds.append(event.kind)

    cuts = Cuts()
    with observe.observing(cuts):
        core.tensor([1.5], requires_grad=True).long()
        core.tensor([1]).to(core.int8)
    assert cuts.kinds == ["cast"]


def test_to_takes_dtypes_devices_and_tensors() -> None:
    x = core.tensor([1, 2])
    assert x.to(float).dtype is core.float64
    assert x.to("cpu", core.float32).dtype is core.float32
    assert x.to(core.ones(1)).dtype is core.float32
    assert x.to(core.int64, False, True) is not x
    assert x.to(copy=True) is not x
    assert x.to(device="cpu") is x
    assert x.type(core.float32).dtype is core.float32
    assert x.type() == "core.LongTensor"
    with pytest.raises(TypeError, match=r"invalid combination of arguments - got \(dict\)"):
        x.to({})
    with pytest.raises(RuntimeError, match="at start of device string"):
        x.to("nowhere")


def test_there_and_back_to_the_device_cuda() -> None:
    x = core.tensor([1.0, 2.0], requires_grad=True)
    y = x.cuda()
    assert (y.device.type, y.cpu().device.type) == ("cuda", "cpu")
    (y * y).cpu().sum().backward()
    assert x.grad.device.type == "cpu"
    assert x.grad.tolist() == [2, 4]
    (g,) = core.autograd.grad((x.cuda() ** 3).cpu().sum(), x, create_graph=True)
    assert core.autograd.grad(g.sum(), x)[0].tolist() == [6, 12]
    assert y.cuda() is y
    assert x.to("cuda").is_cuda
    assert core.zeros(2, device="cuda").new_ones(3).is_cuda


def test_copies_have_their_own_memory() -> None:
    x = core.ones(2, 3).t()
    for y in (x.clone(), x.contiguous()):
        assert not np.shares_memory(x._a, y._a)
        assert y.is_contiguous()
    z = core.ones(2)
    assert z.contiguous() is z


def test_writing_broadcasts_and_casts() -> None:
    x = core.zeros(2, 3, dtype=core.int64)
    assert x.copy_(core.tensor([1.9, 2.0, 3.0])).tolist() == [[1, 2, 3]] * 2
    assert x.fill_(7).tolist() == [[7] * 3] * 2
    assert x.fill_(core.tensor(2.5)).tolist() == [[2] * 3] * 2
    assert x.zero_().sum() == 0
    assert x._version == 4
    with pytest.raises(RuntimeError, match="must match the size of tensor b"):
        x.copy_(core.ones(2))
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        x.copy_(core.ones(2, 2, 3))
    with pytest.raises(RuntimeError, match="only supports 0-dimension value tensor"):
        x.fill_(core.ones(1))
    with pytest.raises(TypeError, match="must be Tensor, not int"):
        x.copy_(1)


def test_masked_fill() -> None:
    x, mask = core.tensor([[1, 2], [3, 4]]), core.tensor([True, False])
    assert x.masked_fill(mask, 9.7).tolist() == [[9, 2], [9, 4]]
    assert x.float().masked_fill(mask, -float("inf")).tolist()[0] == [-float("inf"), 2]
    assert x.masked_fill(mask, core.tensor(5.0)).dtype is core.int64
    x.masked_fill_(mask, 0)
    assert x.tolist() == [[0, 2], [0, 4]]
    with pytest.raises(RuntimeError, match="only supports boolean masks"):
        x.masked_fill(x, 1)
    with pytest.raises(RuntimeError, match="0-dimensional value tensor"):
        x.masked_fill(mask, core.ones(1))


def test_new_tensors_take_after_the_old_one() -> None:
    x = core.zeros(1, dtype=core.float64)
    for y in (
        x.new_zeros(2, 3),
        x.new_ones((2, 3)),
        x.new_empty(2, 3),
        x.new_full((2, 3), 4),
        x.new_tensor([[1, 2, 3]] * 2),
    ):
        assert (tuple(y.shape), y.dtype) == ((2, 3), core.float64)
    assert x.new_zeros(2, dtype=core.int8).dtype is core.int8
