"""Nodes: their names, what they point to, what they say; storages and handles."""

from __future__ import annotations

import pytest

import core
from core.graph.node import AccumulateGrad, Node, RemovableHandle, Storage, next_number

X = core.ones(2, 2, requires_grad=True)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: X + 1, "AddBackward0"),
        (lambda: 1 - X, "SubBackward0"),
        (lambda: X / 2, "DivBackward0"),
        (lambda: X**0.5, "PowBackward0"),
        (lambda: X.log_softmax(0), "LogSoftmaxBackward0"),
        (lambda: core.nn.functional.leaky_relu(X), "LeakyReluBackward0"),
        (lambda: X.clamp(0), "ClampBackward0"),
        (lambda: X.sum(), "SumBackward0"),
        (lambda: X.clone().exp_(), "ExpBackward0"),
    ],
)
def test_names_are_pytorchs(make, name):
    assert make().grad_fn.name() == name


def test_the_graph_can_be_walked():
    w = core.ones(2, 2, requires_grad=True)
    y = (X * w).unbind()[1] * 2
    (unbind, nr), (nothing, _) = y.grad_fn.next_functions
    assert (unbind.name(), nr, nothing) == ("UnbindBackward0", 1, None)
    ((mul, _),) = unbind.next_functions
    a, b = (f for f, _ in mul.next_functions)
    assert (a.variable is X, b.variable is w) == (True, True)
    assert a.next_functions == ()
    assert a.name() == "AccumulateGrad"
    assert a == AccumulateGrad(X) != b
    assert len({a, AccumulateGrad(X), b}) == 2
    assert mul.number < unbind.number < y.grad_fn.number


def test_what_a_node_says():
    y = X * 2
    assert (
        repr(y.grad_fn)
        == f"<MulBackward0 at test_node.py line {test_what_a_node_says.__code__.co_firstlineno + 1} (X * 2)>"
    )
    assert repr(y.grad_fn.next_functions[0][0]) == "<AccumulateGrad of (2, 2)>"
    y.grad_fn.metadata["mine"] = 1
    assert y.grad_fn.metadata == {"mine": 1}
    assert (X * 2).grad_fn.metadata == {}


def test_numbers_grow():
    assert next_number() < next_number()


def test_a_storage_remembers_its_last_write():
    s = Storage()
    assert (s.version, s.write) == (0, None)
    s.wrote("add_", None)
    s.wrote("mul_", None)
    assert (s.version, s.write) == (2, ("mul_", None))
    assert Storage().version == 0


def test_freeing_says_who():
    y = X.exp()
    node = y.grad_fn
    place = (test_freeing_says_who.__code__, 0)
    node.free(place)
    assert node.freed == place
    with pytest.raises(RuntimeError, match="second time"):
        node.check()
    nothing_saved = (X + 1).grad_fn
    nothing_saved.free(place)
    nothing_saved.check()


def test_a_node_can_be_made_by_hand():
    node = Node(core.declare.op.table["add"], (X, None), X._kind, None, -1)
    assert node.place is None
    assert repr(node) == "<AddBackward0 at an unknown place>"
    node.check()


def test_handles():
    hooks: dict = {}
    a = RemovableHandle(hooks, print)
    b = RemovableHandle(hooks, len, first=True)
    assert list(hooks.values()) == [len, print]
    a.remove()
    assert list(hooks) == [b.id]
    with pytest.raises(TypeError, match="a hook must be callable, got int"):
        RemovableHandle(hooks, 1)
