"""Fields that C reads are what C takes them for, whatever Python sets, deletes, calls or copies."""

from __future__ import annotations

import contextlib
import copy
import gc
import os
import pickle

import numpy as np
import pytest

import core
from core import native
from core.native import bases

WRONG = [None, True, -1, 2**70, 1.5, float("nan"), "text", b"bytes", (), (None,), (1, 2), [], {}, object(), int, os,
         len, slice(None), np.zeros(2), np.float32(1), lambda: None, ..., bases.NodeBase(),
         bases.TensorBase()]  # fmt: skip


def graph():
    x = core.ones(2, 3, requires_grad=True)
    base = x * 2
    y = base[0].exp().mul(core.ones(2, 3))
    a, b = (y + x).split(1)
    return x, y, (a * b).sum()


def nodes(t):
    stack, found = [t.grad_fn], []
    while stack:
        node = stack.pop()
        if isinstance(node, core.graph.node.Node) and node not in found:
            found.append(node)
            stack.extend(node.edges)
    return found


ADDRESSES = ("point", "make", "run_loops")  # of compiled functions: they take addresses, as ctypes does


def things():
    """One of each kind of what C has a type for, and has a name for in Python."""
    x, y, loss = graph()
    storage = core.graph.node.Storage()
    made = [x, y, loss, x[0], core.nn.Parameter(core.ones(2)), *nodes(loss), storage, core.exp, core.relu,
            core.softmax, core.add, core.no_grad(), core.inference_mode(), core.set_grad_enabled(True)]  # fmt: skip
    if native.module is not None:
        made += [next(iter(native.module.maps.values())), next(iter(native.module.updates.values())),
                 native.module.Quiet(), native.module.TensorBase(), native.module.NodeBase(),
                 native.module.StorageBase(), *(f for name, f in vars(native.module).items() if callable(f) and not
                   name.startswith(("connect", "register", "set_", "watch_")) and name not in ADDRESSES)]  # fmt: skip
    return made


def settable(thing):
    return [
        name
        for cls in type(thing).__mro__
        for name, d in vars(cls).items()
        if hasattr(type(d), "__set__") and not name.startswith("__")
    ]


def used(loss, x):
    """Whatever may be asked of a graph."""
    for ask in (loss.backward, lambda: repr(x), lambda: loss.grad_fn.next_functions, lambda: x.add_(1), lambda: x + 1,
                lambda: x[0].exp(), lambda: copy.copy(x), lambda: x.grad, lambda: loss.backward()):  # fmt: skip
        with contextlib.suppress(Exception):
            ask()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("value", WRONG, ids=lambda v: type(v).__name__)
def test_any_value_in_any_field_is_refused_or_harmless(value):
    x, y, loss = graph()
    count = len(nodes(loss))
    fields = [(k, name) for k in range(count) for name in settable(nodes(loss)[k])]
    fields += [(tensor, name) for tensor in ("x", "y", "loss") for name in settable(x)]
    for where, name in fields:
        x, y, loss = graph()
        thing = nodes(loss)[where] if isinstance(where, int) else {"x": x, "y": y, "loss": loss}[where]
        with contextlib.suppress(Exception):
            setattr(thing, name, value)
        used(loss, x)
        with contextlib.suppress(Exception):
            delattr(thing, name)
        used(loss, x)
    gc.collect()


@pytest.mark.filterwarnings("ignore")
def test_wrong_calls_and_copies_raise_and_break_nothing():
    with core.set_grad_enabled(True):
        for thing in things():
            for call in (thing, getattr(type(thing), "__init__", None), getattr(type(thing), "__new__", None),
                         getattr(thing, "__setstate__", None), copy.copy, copy.deepcopy, pickle.dumps, hash, repr,
                         getattr(thing, "__reduce__", None), getattr(thing, "__exit__", None),
                         getattr(thing, "begin", None), getattr(thing, "end", None), getattr(thing, "_set", None),
                         getattr(thing, "into", None)):  # fmt: skip
                for args in ((), (thing,), (None,), (object(),), (type(thing),), ("a", 1), (1, 2, 3), (type(thing), 1),
                             (None,) * 5, ([1], {}, ()), (np.zeros(2), "x"), ((None,), -1, 2**70)):  # fmt: skip
                    if callable(call):
                        with contextlib.suppress(Exception):
                            call(*args)
                        with contextlib.suppress(Exception):
                            call(*args, unknown=1)
    gc.collect()
    x = core.ones(3, requires_grad=True)
    (x * x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 2.0]


@pytest.mark.skipif(not native.available, reason="Python's own fields hold anything, and nothing reads them unchecked")
@pytest.mark.parametrize(("name", "needed"), [("_node", "a node or None"), ("_base", "a tensor or None"),
                                              ("_grad", "a tensor or None"), ("_kind", "a kind"),
                                              ("_storage", "a version counter")])  # fmt: skip
def test_the_error_names_field_and_need(name, needed):
    x = core.ones(2)
    with pytest.raises(TypeError, match=rf"^{name} of Tensor must be {needed}.*, not int$"):
        setattr(x, name, 5)
    with pytest.raises(TypeError, match=f"{name} of Tensor cannot be deleted"):
        delattr(x, name)


@pytest.mark.skipif(not native.available, reason="as above")
@pytest.mark.parametrize(("name", "value"), [("edges", (5,)), ("edges", 5), ("nrs", ("a",)), ("nrs", (-1,)),
                                             ("saved", 5),
                                             ("versions", (1.5,)), ("out_meta", (5,)), ("in_shapes", 5), ("code", 5),
                                             ("storages", 5), ("kind", 5)])  # fmt: skip
def test_a_node_keeps_its_forms(name, value):
    node = core.ones(2, requires_grad=True).exp().grad_fn
    before = getattr(node, name)
    with pytest.raises(TypeError, match=f"{name} of Node must be"):
        setattr(node, name, value)
    assert getattr(node, name) is before


def test_subclasses_may_have_fields_of_these_names():
    class Lazy(core.Tensor):
        @property
        def _rule(self):
            return "mine"

        @_rule.setter
        def _rule(self, value):
            self.told = value

    t = Lazy([1.0])
    t._rule = 5
    assert t.told == 5
    assert t._rule == "mine"
