"""Lazy modules; tests/parity/test_lazy.py has every one of them."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import core
from core import nn


def test_shapes_come_from_the_first_input() -> None:
    model = nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(2))
    optimizer = core.optim.SGD(model.parameters(), 0.1)
    copies = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    for m in (model, *copies):
        assert m(core.ones(2, 3, 6, 6)).shape == (2, 2)
        assert [type(x).__name__ for x in m] == ["Conv2d", "BatchNorm2d", "Flatten", "Linear"]
        assert not any(x._forward_pre_hooks for x in m)
    model(core.ones(2, 3, 6, 6)).sum().backward()
    optimizer.step()  # the parameters are the objects that it was given


def test_conversions_wait() -> None:
    layer = nn.LazyLinear(3).double()
    assert layer.weight.dtype is core.float64
    assert layer(core.ones(1, 2, dtype=core.float64)).dtype is core.float64


def test_use_before_the_first_input() -> None:
    p: Any = nn.LazyLinear(3).weight
    x = core.ones(3)
    for use in (lambda: p + 1, lambda: x * p, lambda: p.exp(), lambda: x @ p, lambda: p.fill_(1), lambda: p.numel(),
                lambda: core.cat([x, p]), lambda: p.data):  # fmt: skip
        with pytest.raises(ValueError, match="Attempted to use an uninitialized parameter"):
            use()
    with pytest.raises(RuntimeError, match="Can't access the shape of an uninitialized parameter"):
        _ = p.shape


def test_several_devices_are_refused() -> None:
    with pytest.raises(RuntimeError, match="one device"):
        nn.DataParallel(nn.Linear(1, 1), device_ids=[0, 1])
