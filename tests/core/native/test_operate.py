"""The C path of structured ops, forward and backward: it says and keeps what the general way does."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import core
from core import native
from core.base.source import locate
from core.declare.op import Operation, functions, table
from core.dispatch import structured

pytestmark = pytest.mark.skipif(native.module is None, reason="the C extension is not built")


def _same(a, b) -> None:
    if isinstance(a, tuple):
        assert isinstance(b, tuple)
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            _same(x, y)
        return
    assert a.shape == b.shape
    assert a.dtype is b.dtype
    assert a._kind is b._kind
    assert a._nr == b._nr
    assert a.requires_grad == b.requires_grad
    np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())
    n, m = a.grad_fn, b.grad_fn
    assert (n is None) == (m is None)
    if n is not None:
        assert (n.op, n.params, n.kind, n.nrs, n.versions) == (m.op, m.params, m.kind, m.nrs, m.versions)
        assert n.out_meta == m.out_meta
        assert [e is None for e in n.edges] == [e is None for e in m.edges]
        assert [s is None for s in n.storages] == [s is None for s in m.storages]


@pytest.mark.parametrize(
    ("name", "shapes", "params"),
    [("sum", [(3, 4)], {"dim": (1,), "keepdim": False}), ("softmax", [(3, 4)], {"dim": -1}),
     ("view", [(3, 4)], {"shape": (12,)}), ("select", [(3, 4)], {"key": (1, Ellipsis)}),
     ("matmul", [(3, 4), (4, 2)], {}), ("cat", [(1, 4), (2, 4)], {"dim": 0}), ("argmax", [(3, 4)], {}),
     ("cast", [(3, 4)], {"dtype": core.float64}), ("cast", [(3, 4)], {"dtype": core.bfloat16}),
     ("cast", [(3, 4)], {"dtype": core.complex64}), ("cast", [(3, 4)], {"dtype": core.int64}),
     ("all", [(3, 4)], {"dim": (0, 1)}), ("count_nonzero", [(3, 4)], {"dim": (0, 1)}),
     ("prod", [(3, 4)], {"dim": (0, 1)}),
     ("max_dim", [(3, 4)], {"dim": 1}), ("min_dim", [()], {"dim": 0}), ("sort", [(3, 4)], {"dim": 0}),
     ("topk", [(3, 4)], {"dim": 1, "k": 2}), ("cummax", [(3, 4)], {"dim": 1}), ("unique", [(3, 4)], {}),
     ("frexp", [(3, 4)], {}), ("slogdet", [(3, 3)], {}), ("median", [(3, 4)], {"dim": 0}), ("svd", [(3, 4)], {})],
)  # fmt: skip
@pytest.mark.parametrize("grad", [False, True])
def test_the_same_as_the_general_way(name, shapes, params, grad):
    op, rng = table[name], np.random.default_rng(0)
    params = {**op.params, **params}
    tensors = [core.tensor(rng.standard_normal(s)).requires_grad_(grad) for s in shapes]
    _same(
        functions.get("_" + name, native_form(op))(*tensors, **params),
        structured.call_operation(op, tuple(tensors), params),
    )


def native_form(op):
    """The op as dispatch makes it, without the public function around it."""
    found = structured.callable_operation(op)
    assert isinstance(found, native.module.Structured)
    return found


@pytest.mark.parametrize(("name", "params"), [("sum", {"dim": (0,)}), ("softmax", {"dim": 0}), ("cummax", {"dim": 0}),
                                              ("all", {"dim": (1,)}), ("median", {"dim": 1})])  # fmt: skip
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (2, 1, 0)])
def test_results_are_contiguous_in_both_ways(name, params, order):
    op = table[name]
    x = core.randn(3, 4, 5).permute(order).requires_grad_()
    for found in (native_form(op)(x, **{**op.params, **params}),
                  structured.call_operation(op, (x,), {**op.params, **params})):  # fmt: skip
        for y in found if isinstance(found, tuple) else (found,):
            assert y.is_contiguous()
        if name == "softmax":  # which saves its result: that one and no other
            assert any(saved is found._a for saved in found.grad_fn.saved)


@pytest.fixture
def kept_and_its_op():
    """The arrays that an op with contiguous results has made, and the op."""
    made = []

    def forward(xp, x):
        made.append(x + 1)
        return made[-1]

    yield made, Operation("contiguous_op_of_a_test", forward, inputs="x", params={}, outputs="y", returns=1, shape="",
                          over="", vjp=None, view=False, samples=None, doc="", label="", contiguous=True)  # fmt: skip
    for names in (table, functions, structured.declarations.structured):
        names.pop("contiguous_op_of_a_test", None)


def test_what_is_contiguous_is_not_copied(kept_and_its_op):
    made, op = kept_and_its_op
    call = native_form(op)
    assert call(core.ones(2, 3))._a is made[0]
    assert structured.call_operation(op, (core.ones(2, 3),), {})._a is made[1]
    assert call(core.ones(2, 3).t())._a is not made[2]


def test_views_share_the_counter_and_know_the_way():
    x = core.arange(6.0).requires_grad_()
    y = (x * 1).reshape(2, 3)[1]
    assert y._base is not None
    assert y._version == y._base._version == 0
    y._base[3] = 7.0
    assert y._version == 1
    assert y[0].item() == 7.0
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [0, 0, 0, 0, 1, 1])


def test_the_line_is_the_users():
    y = core.ones(2, 3, requires_grad=True).reshape(6)
    assert locate(*y.grad_fn.place).code == "core.ones(2, 3, requires_grad=True).reshape(6)"


def test_a_write_to_what_was_saved_is_noticed():
    a, b = core.ones(2, 2, requires_grad=True), core.ones(2, 2)
    y = a @ b
    b.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_what_was_saved_is_let_go():
    a = core.ones(2, 2, requires_grad=True)
    b = core.ones(2, 2) * 2
    gone = weakref.ref(b._a)
    y = (a @ b).sum()
    del b
    y.backward()
    gc.collect()
    assert gone() is None
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.backward()


def test_parameters_that_do_not_exist_are_an_error():
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        native_form(table["softmax"])(core.ones(2), dims=0)


def test_sums_of_gradients_in_any_order_of_arrival():
    x = core.ones(3, requires_grad=True)
    parts = [x * k for k in range(5)]
    sum(p.sum() for p in reversed(parts)).backward()
    np.testing.assert_array_equal(x.grad.numpy(), [10, 10, 10])
    p, q = (x * 1).split([1, 2])
    (p.sum() + q.exp().sum() + p.sum()).backward()
    np.testing.assert_allclose(x.grad.numpy(), [12, 10 + np.e, 10 + np.e], rtol=1e-6)
