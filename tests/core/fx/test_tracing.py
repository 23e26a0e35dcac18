"""Tracing: what is done with a value that has none becomes nodes; what needs a value is refused."""

from __future__ import annotations

import math
from math import sqrt

import pytest

import core
import core.nn.functional as F
from core import fx, nn


def halved(x):
    if x.sum() > 0:
        return x / 2
    return x


core.fx.wrap("halved")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
        self.scale = nn.Parameter(core.ones(3))
        self.register_buffer("shift", core.arange(3.0))

    def forward(self, x, *, flag: bool = False):
        n, d = x.shape
        y = self.layers(x) * self.scale + self.shift
        return {"y": F.softmax(y.view(n, -1), dim=-1), "sizes": [n, d]}


def listed(graph):
    return [(n.op, n.target if isinstance(n.target, str) else n.target.__name__) for n in graph.nodes]


def test_a_module_is_its_leaves_parameters_and_functions():
    model = Net()
    traced = fx.symbolic_trace(model)
    assert listed(traced.graph) == [
        ("placeholder", "x"), ("placeholder", "flag"), ("call_function", "getattr"), ("call_function", "getitem"),
        ("call_function", "getitem"), ("call_module", "layers.0"), ("call_module", "layers.1"),
        ("get_attr", "scale"), ("call_function", "mul"), ("get_attr", "shift"), ("call_function", "add"),
        ("call_method", "view"), ("call_function", "softmax"), ("output", "output"),
    ]  # fmt: skip
    x = core.randn(2, 4)
    ours, theirs = traced(x), model(x)
    assert ours["sizes"] == [2, 4]
    assert core.equal(ours["y"], theirs["y"])
    ours["y"][0, 0].backward()
    assert model.scale.grad is not None
    assert traced.graph.find_nodes(op="call_function", target=F.softmax)
    traced.graph.lint()


def test_leaves_by_name_by_module_and_by_class():
    class Keeps(fx.Tracer):
        def is_leaf_module(self, m, name):
            return isinstance(m, nn.Sequential)

    assert ("call_module", "layers") in listed(Keeps().trace(Net()))
    traced = fx.symbolic_trace(lambda x: halved(x) + math.floor(x.shape[0]) + sqrt(x.shape[1]))
    assert [n.target.__name__ for n in traced.graph.nodes if n.op == "call_function"] == [
        "halved", "getattr", "getitem", "floor", "add", "getattr", "getitem", "sqrt", "add"]  # fmt: skip
    assert traced(core.ones(2, 4)).tolist() == [[4.5] * 4] * 2
    assert math.floor(2.5) == 2
    assert halved(core.tensor([-1.0])).tolist() == [-1.0]
    with pytest.raises(NotImplementedError, match="wrap must be called at the top level of a module"):
        fx.wrap("halved")
    with pytest.raises(RuntimeError, match="Unsupported type for global function"):
        fx.wrap(3)


@pytest.mark.parametrize(("fn", "error", "phrase"), [
    (lambda x: x if x.sum() > 0 else -x, fx.proxy.TraceError, "cannot be used as inputs to control flow"),
    (lambda x: [y + 1 for y in x], fx.proxy.TraceError, "Proxy object cannot be iterated"),
    (lambda x: len(x), RuntimeError, "'len' is not supported in symbolic tracing by default"),
    (lambda x: 1 in x, fx.proxy.TraceError, "control flow"),
    (lambda x: core.relu(x, object()), NotImplementedError, "argument of type"),
])  # fmt: skip
def test_what_needs_a_value_is_refused_and_leaves_no_trace(fn, error, phrase):
    with pytest.raises(error, match=phrase):
        fx.symbolic_trace(fn)
    assert not fx.is_fx_tracing()
    assert nn.Linear(2, 1)(core.ones(1, 2)).shape == (1, 1)


def test_given_arguments_are_branched_on_and_asserted():
    def f(x, double: bool, other=None):
        y = x * 2 if double else x
        return y if other is None else y + other

    traced = fx.symbolic_trace(f, concrete_args={"double": True, "other": None})
    assert traced(core.tensor(3.0), True).item() == 6
    with pytest.raises(AssertionError, match="double has been specialized"):
        traced(core.tensor(3.0), False)
    with pytest.raises(AssertionError, match="other has been specialized"):
        traced(core.tensor(3.0), True, 1)
    with pytest.raises(NotImplementedError, match="open places"):
        fx.symbolic_trace(lambda xs: xs[0], concrete_args={"xs": [fx.PH]})


def test_shapes_of_parameters_may_be_numbers():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(core.ones(3))

        def forward(self, x):
            return x * self.w if self.w.shape[0] == 3 and self.w.dim() == 1 and self.w.numel() == 3 else x

    with pytest.raises(fx.proxy.TraceError):
        fx.symbolic_trace(Scaled())
    model = Scaled()
    graph = fx.Tracer(param_shapes_constant=True).trace(model)
    assert listed(graph)[1:3] == [("get_attr", "w"), ("call_function", "mul")]


def test_tensors_of_the_program_and_modules_from_outside():
    traced = fx.symbolic_trace(lambda x: x + core.ones(2))
    assert [n.target for n in traced.graph.nodes if n.op == "get_attr"] == ["_tensor_constant0"]
    assert traced(core.zeros(2)).tolist() == [1, 1]
    stranger = nn.Linear(1, 1)
    with pytest.raises(NameError, match="module is not installed as a submodule"):
        fx.symbolic_trace(lambda x: stranger(x))


def test_stars_operators_and_methods():
    def f(x, *args, **kwargs):
        x = 1 - x
        x @= x
        return abs(-x) ** 2 // 3, x[..., 1:, None], x.float().to(core.float64).T

    traced = fx.symbolic_trace(f)
    x = core.arange(4.0).view(2, 2)
    for a, b in zip(traced(x, 1, k=2), f(x), strict=True):
        assert core.equal(a, b)


def test_functions_of_the_neural_kind_are_nodes_of_their_own():
    names = ("relu", "elu", "silu", "mish", "hardtanh", "relu6", "hardswish", "log_softmax", "softmin", "gelu")
    for name in names:
        graph = fx.symbolic_trace(lambda x, name=name: getattr(F, name)(x), {"name": name}).graph
        assert [n for n in graph.nodes if n.op == "call_function" and n.target is getattr(F, name)], name
    pixels = fx.symbolic_trace(lambda x: F.pixel_shuffle(x, 2))
    assert pixels(core.ones(1, 4, 1, 1)).shape == (1, 1, 2, 2)
