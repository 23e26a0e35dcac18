"""The quick forms of casts, extremes, truth and order: the same as their functions in Python."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import core
from core import native
from core.dispatch.type_errors import guarded
from core.events import observe

from .outcomes import outcome

pytestmark = pytest.mark.skipif(native.module is None, reason="quick forms are in the extension")


def _t(*shape: int, dtype: str = "float32"):
    return core.from_numpy(np.asarray(np.random.default_rng(2).standard_normal(shape) * 3).astype(dtype))


X, L, M = _t(4, 3), _t(4, 3, dtype="int64"), _t(4, 3) > 0
NAN = core.tensor([[1.0, float("nan"), 2.0], [3.0, 3.0, -1.0]])
KINDS = [core.bool, core.int64, core.int32, core.float16, core.bfloat16, core.float32, core.float64, core.uint8,
         core.complex64]  # fmt: skip
CALLS = [
    *[("to", (x, d), {}) for x in (X, L, M, X.double(), X.t(), core.tensor(1.5), X[:0]) for d in KINDS],
    *[("to", (X,), {"dtype": d}) for d in KINDS],
    ("to", (X, M), {}), ("to", (M, X), {}), ("to", (X, None), {}), ("to", (X, "cpu"), {}), ("to", (X, float), {}),
    ("to", (X, 1.5), {}), ("to", (X,), {}), ("to", (X, core.float64, True), {}),
    ("to", (X, core.float32, False, True), {}),
    ("to", (X, core.float64), {"copy": True}), ("to", (X, "meta"), {}), ("to", (X,), {"dtype": None}),
    ("to", (X,), {"other": L}), ("type_as", (M, X), {}), ("type_as", (M, 1), {}), ("type_as", (M,), {"other": X}),
    *[(n, (x,), {}) for n in ("float", "double", "half", "bool", "bfloat16", "long", "int") for x in (X, L, M, NAN)],
    ("float", (M, None), {}), ("float", (M,), {"memory_format": None}), ("float", (M, 1, 2), {}),
    *[(n, (x, *a), k) for n in ("max", "min") for x in (X, L, NAN, M, core.tensor(2.0), X.t(), X[:0], X.double())
      for a, k in [((), {}), ((0,), {}), ((-1, True), {}), ((), {"dim": 1}), ((), {"dim": 0, "keepdim": True}),
                   ((2,), {}),
                   ((), {"axis": 0}), ((None,), {}), ((), {"keepdim": True})]],
    ("max", (X, X), {}), ("max", (X, 1, 0), {}), ("max", (X, 1.5), {}), ("max", (X, (0, 1)), {}),
    ("max", (X,), {"other": X}),
    *[(n, (x, *a), k) for n in ("amax", "amin") for x in (X, L, NAN, M, core.tensor(2.0), X[:0])
      for a, k in [((), {}), ((0,), {}), (((0, 1), True), {}), (((),), {}), ((), {"dim": -1}), ((5,), {}),
                   (("a",), {})]],
    *[(n, (x, *a), k) for n in ("argmax", "argmin") for x in (X, L, NAN, M, core.tensor(2.0), X.t(), X[:0])
      for a, k in [((), {}), ((0,), {}), ((1, True), {}), ((), {"dim": -1}), ((3,), {}), ((None, True), {})]],
    *[(n, (x, *a), k) for n in ("all", "any") for x in (X, L, NAN, M, core.tensor(0.0), X[:0], M.to(core.uint8), M.t())
      for a, k in [((), {}), ((0,), {}), ((1, True), {}), ((), {"dim": -1}), ((3,), {}), (((0, 1),), {})]],
    *[("sum", (x, *a), k) for x in (L, M, M.to(core.uint8), core.tensor(True), M[:0], L.t())
      for a, k in [((), {}), ((0,), {}), ((1, True), {}), ((), {"dim": -1}), ((3,), {}),
                   ((), {"dtype": core.float32})]],
    *[(n, (x, *a), k) for n in ("sort", "argsort") for x in (X, L, NAN, M, core.tensor(2.0), X.t(), X[:0], _t(2, 100))
      for a, k in [((), {}), ((0,), {}), ((0, True), {}), ((), {"descending": True}), ((3,), {}),
                   ((), {"stable": True}), ((), {"dim": 0})]],
    *[("topk", (x, *a), k) for x in (X, L, NAN, core.tensor(2.0), X.t(), _t(2, 100))
      for a, k in [((2,), {}), ((0,), {}), ((9,), {}), ((2, 0), {}), ((1, -1, False), {}), ((1,), {"largest": False}),
                   ((1,), {"sorted": False}), ((1,), {"dim": 0}), ((), {"k": 2}), ((-1,), {}), ((1, 4), {})]],
]  # fmt: skip


def _same(a, b):
    if isinstance(b, tuple):
        assert type(a) is type(b)
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            _same(x, y)
    elif not isinstance(b, core.Tensor):
        assert a == b
    else:
        assert a._kind is b._kind
        assert a._a.shape == b._a.shape
        assert a.is_meta or a._a.tobytes() == b._a.tobytes()
        assert (a.requires_grad, a._nr, a._base is None) == (b.requires_grad, b._nr, b._base is None)
        n, m = a.grad_fn, b.grad_fn
        assert (n is None) == (m is None)
        if n is not None:
            assert (n.op, n.name(), n.params, n.out_meta) == (m.op, m.name(), m.params, m.out_meta)


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("name", sorted({c[0] for c in CALLS}))
def test_a_quick_form_is_its_function(name, grad):
    face = getattr(core.Tensor, name)
    for called, args, kwargs in CALLS:
        if called != name:
            continue
        x = args[0].detach().clone() if args[0].is_contiguous() else args[0].detach()
        if grad and (not x.is_floating_point() or "meta" in args[1:]):  # no gradient comes back from there
            continue
        args = (x.requires_grad_(grad), *args[1:])
        found, expected = outcome(face, args, kwargs), outcome(guarded(face.__wrapped__), args, kwargs)
        _same(found, expected)
        if isinstance(expected, core.Tensor) and expected is args[0]:
            assert found is expected
        with core.no_grad():
            _same(outcome(face, args, kwargs), outcome(guarded(face.__wrapped__), args, kwargs))
        for y in found if isinstance(found, tuple) else (found,):
            if getattr(y, "requires_grad", False) and y is not args[0] and y.is_floating_point() and y.numel():
                y.sum().backward()
                quick, args[0].grad = args[0].grad, None
                z = guarded(face.__wrapped__)(*args, **kwargs)
                (z[y._nr] if isinstance(z, tuple) else z).sum().backward(create_graph=True)
                np.testing.assert_array_equal(quick.numpy(), args[0].grad.detach().numpy())
                args[0].grad = None


def test_namespaces_and_pickles():
    found = core.max(X, 1)
    assert type(found) is type(X.max(1)) is core.return_types.max
    assert pickle.loads(pickle.dumps(found)).indices.tolist() == found.indices.tolist()
    out = core.empty(3), core.empty(3, dtype=core.int64)
    core.max(X, 0, out=out)
    assert out[1].tolist() == X.argmax(0).tolist()


def test_observers_and_batches_hear_of_them():
    class Ear(observe.Observer):
        def __init__(self):
            self.heard = []

        def op(self, event):
            self.heard.append((event.op, event.kernel))

        def cut(self, event):
            self.heard.append(("left", None))

    ear = Ear()
    with observe.observing(ear):
        X.max(-1), M.any(), X.double(), X.sort(), X.detach().requires_grad_().long()
    names = [name for name, _ in ear.heard]
    assert names[:4] == ["max_dim", "any", "cast", "sort"]
    assert "left" in names
    x = _t(2, 4, 3)
    y = core.vmap(lambda t: t.max(-1).values + t.double().amax(-1).float())(x)
    np.testing.assert_array_equal(y.numpy(), 2 * x.numpy().max(-1))


def test_a_view_whose_base_was_written_is_cast_with_its_history():
    base = core.zeros(2, 2)
    view = base[0]
    w = core.ones(2, requires_grad=True)
    base.mul_(1.0)
    base[0] = w * 3
    assert view.double().requires_grad
    view.double().sum().backward(retain_graph=True)
    assert w.grad.tolist() == [3.0, 3.0]
    w.grad = None
    view.max(-1).values.backward()
    assert w.grad.sum().item() == 3.0


def test_autocast_decides_first():
    with core.autocast("cpu"):
        assert X.to(core.float64).dtype is core.float64
        assert X.sum().dtype is core.float32
        assert X.max(-1).values.dtype is core.float32
