"""The entries of rows and the fronts of public functions: the same as the rows and the functions in Python."""

from __future__ import annotations

import numpy as np
import pytest

import core
from core import native
from core.backends import Row, forget, register, rows
from core.declare import op as declarations
from core.dispatch.type_errors import guarded
from core.events import observe
from core.nn import functional as F

from .outcomes import outcome

pytestmark = pytest.mark.skipif(native.module is None, reason="entries are in the extension")
ENTRIES = sorted(native.module.entries) if native.module is not None else []
MORE = {
    "linear": [((3, 2, 4), (5, 4), (5,)), ((1, 4), (5, 4), (5,)), ((3, 4), (1, 4), None)],
    "matmul": [((1, 3), (3, 4)), ((3, 1), (1, 4)), ((2, 3, 4), (2, 4, 5))],
    "softmax": [((0, 3),), ((3, 4, 5),)],
}

# entries that leave some of what their row takes to it: several index arrays, vectors, volumes, dimensions but the
# last, modes, stacks that are repeated, more columns than rows
NARROWER = {"fft_c2c", "fft_c2r", "fft_of_real", "fft_r2c", "index", "index_put", "linear", "logsumexp", "lstsq",
            "max_pool", "prod", "qr", "roll", "scatter_add", "scatter_reduce", "solve_triangular", "std",
            "var"}  # fmt: skip


def _sets(name: str, dtype: str):
    """The op's own samples and the shapes above: arrays in `dtype` and parameters."""
    rng = np.random.default_rng(0)
    op = declarations.table[name]
    made = [(tuple(None if s is None else rng.standard_normal(s) for s in shapes), dict(op.params))
            for shapes in MORE.get(name, [])]  # fmt: skip
    if name == "cast":
        x = rng.uniform(-99, 99, (3, 5))
        made += [
            ((x.astype(own),), {"dtype": to})
            for own in ("bool", "uint8", "int32", "int64", dtype)
            for to in (core.bool, core.int32, core.int64, core.float32, core.float64, core.float16, core.bfloat16)
        ]
    for arrays, params in [*op.samples(rng), *made]:
        params = {**op.params, **params}
        yield tuple(a.astype(dtype) if a is not None and a.dtype.kind == "f" else a for a in arrays), params


def _same(a, b) -> bool:
    if isinstance(a, tuple):
        return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))
    if a is None or b is None:
        return a is b
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def _calls(name: str, dtype: str):
    """The arguments by name that the row of an op, or of its gradients, is called with, in the op's order."""
    stem = name.removesuffix(".backward")
    op = declarations.table[stem]
    rng = np.random.default_rng(1)
    for arrays, params in _sets(stem, dtype):
        if stem == name:
            yield arrays, {n: params.get(n, d) for n, d in op.params.items()}
            continue
        if name == "cast.backward" and (arrays[0].dtype.kind != "f" or not params["dtype"].is_floating_point):
            continue
        floats = [k for k, a in enumerate(arrays) if a is not None and a.dtype.kind == "f"]
        for wanted in (floats, floats[:1], floats[-1:]):
            tensors = [None if a is None else core.from_numpy(a.copy()) for a in arrays]
            for k in wanted:
                tensors[k].requires_grad_()
            y = core.dispatch.structured.call_operation(op, tuple(tensors), params)
            outs = y if isinstance(y, tuple) else (y,)
            grads = [np.asarray(rng.standard_normal(t._a.shape).astype(t._a.dtype)) if t.requires_grad else None
                     for t in outs]  # fmt: skip
            y = outs[0]
            needs = tuple(e is not None for e in y._node.edges)
            named = {"g": tuple(grads) if len(outs) > 1 else grads[0], "needs": needs, **y._node.params}
            named |= {s.name: v for s, v in zip(op.slots, y._node.saved, strict=False)}
            yield (), {n: named.get(n) for n in op.row_names}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ENTRIES)
def test_an_entry_gives_what_its_row_gives(name, dtype):
    (row,) = [r for r in rows(name, "cpu") if r.entry is not None]
    taken = left = 0
    for arrays, named in _calls(name, dtype):
        found = row.entry(*arrays, *named.values())
        if found is NotImplemented:
            if name.removesuffix(".backward") not in NARROWER:
                assert row.declines(*arrays, **named) is not None
                left += 1
            continue
        assert row.declines(*arrays, **named) is None
        needs = named.get("needs")
        expected = row.run(*arrays, **named)
        if isinstance(expected, tuple) and needs is not None:  # what nobody wants need not be there
            found, expected = (tuple(x for x, n in zip(r, needs, strict=True) if n) for r in (found, expected))
        assert _same(found, expected)
        taken += 1
    assert taken or (left and dtype == "float64")  # a kernel of float32 alone


def _halved(a):
    if isinstance(a, tuple):
        return tuple(_halved(x) for x in a)
    if isinstance(a, np.ndarray) and a.dtype.kind == "c":
        return a.astype(np.clongdouble)
    return a.astype(np.float16) if isinstance(a, np.ndarray) and a.dtype.kind == "f" else a


@pytest.mark.parametrize("name", [n for n in ENTRIES if not n.startswith(("cast", "count_nonzero"))])
def test_an_entry_leaves_what_its_row_declines(name):
    (row,) = [r for r in rows(name, "cpu") if r.entry is not None]
    for arrays, named in _calls(name, "float64"):
        floats = name.endswith(".backward") or any(a is not None and a.dtype.kind in "fc" for a in arrays)
        arrays = tuple(_halved(a) if floats or a is None else a.astype(np.int32) for a in arrays)
        named = {k: _halved(v) for k, v in named.items()}
        assert row.entry(*arrays, *named.values()) is NotImplemented
    assert row.entry() is NotImplemented


ODD = [float("nan"), -0.0, 0.0, float("inf"), -float("inf"), 1e-40, 1.0, 1.0, float("nan"), -3.0, 1e30, 2.5]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "bool", "uint8", "int32"])
@pytest.mark.parametrize(
    ("name", "params"),
    [("sort", {"dim": 1, "descending": d}) for d in (False, True)]
    + [("topk", {"dim": d, "k": k, "largest": m}) for d, k, m in [(1, 1, True), (1, 4, False), (0, 2, True)]]
    + [("kthvalue", {"dim": 1, "k": k}) for k in (1, 3)]
    + [("median", {"dim": d, "ignore_nan": i}) for d, i in [(1, False), (1, True), (0, False)]]
    + [("mode", {"dim": 1}), ("max_dim", {"dim": 1, "keepdim": True}), ("min_dim", {"dim": 0, "keepdim": False})]
    + [(n, {"dim": d, "keepdim": k}) for n in ("all", "any", "amax", "amin", "sum")
       for d, k in [((0, 1), False), ((1,), True), ((0,), False)]]
    + [("argmax", {"dim": 1, "keepdim": False}), ("count_nonzero", {"dim": (1,)})]
    + [("cast", {"dtype": d}) for d in (core.bool, core.int64, core.float32, core.float64, core.bfloat16, core.uint8)],
)  # fmt: skip
def test_an_entry_gives_what_the_reference_gives(name, params, dtype):
    op = declarations.table[name]
    reference = core.backends.reference_kernel(op, "cpu").run
    (row,) = [r for r in rows(name, "cpu") if r.entry is not None]
    rng, taken = np.random.default_rng(0), 0
    with np.errstate(all="ignore"):
        for values in (ODD, rng.integers(0, 3, 12), np.zeros(12), np.ones(12), rng.permutation(12)):
            x = np.asarray(values, "float64").astype(dtype).reshape(3, 4)
            found = row.entry(x, *params.values())
            if name not in ("sum", "amax", "amin", "argmax"):
                for other in (x.T, x[:, ::2], x.astype(">f4"), x[:0]):
                    assert row.entry(other, *params.values()) is NotImplemented or (name, other.size) == ("cast", 0)
            if found is not NotImplemented:
                expected = reference(x, **params)
                expected = expected if isinstance(expected, tuple) else np.asarray(expected)
                assert _same(found, expected)
                taken += 1
    assert taken or dtype not in ("float32", "float64") or params.get("dtype") in (core.uint8, getattr(core, dtype),
                                                                                    core.bfloat16)  # fmt: skip


def _t(*shape: int, dtype: str = "float32"):
    return core.from_numpy(np.random.default_rng(2).standard_normal(shape).astype(dtype))


_x, _target = _t(4, 3), core.tensor([0, 2, 1, 2])
CALLS = [
    ("sum", (_x,), {}), ("sum", (_x, 1), {}), ("sum", (_x, -1, True), {}), ("sum", (_x,), {"dim": 0, "keepdim": True}),
    ("sum", (_x, (0, 1)), {}), ("sum", (_x,), {"axis": 0}), ("sum", (_x, 0), {"dtype": core.float64}),
    ("sum", (_target,), {}), ("sum", (core.tensor(2.0),), {}), ("sum", (core.tensor(2.0), 0), {}),
    ("sum", (_x, 2), {}), ("sum", (_x, 0, 1), {}), ("sum", (_x, 0), {"dim": 0}), ("sum", ([1.0],), {}),
    ("mean", (_x,), {}), ("mean", (_x, 0), {}), ("mean", (_target,), {}), ("mean", (_t(0, 3),), {}),
    ("softmax", (_x, -1), {}), ("softmax", (_x,), {"dim": 0}), ("softmax", (_x, 5), {}), ("softmax", (_target, 0), {}),
    ("softmax", (_x, 1, core.float64), {}), ("softmax", (core.tensor(1.0), 0), {}), ("log_softmax", (_x, True), {}),
    ("matmul", (_x, _t(3, 2)), {}), ("matmul", (_x, _t(3)), {}), ("matmul", (_x, _t(4, 2)), {}),
    ("matmul", (_x, _t(3, 2, dtype="float64")), {}), ("matmul", (_x, _t(5, 3, 2)), {}), ("matmul", (_x, 2), {}),
    ("linear", (_x, _t(5, 3), _t(5)), {}), ("linear", (_x, _t(5, 3)), {"bias": _t(1)}), ("linear", (_x, _t(3)), {}),
    ("linear", (_x, _t(5, 2)), {}), ("linear", (_x, _t(5, 3), _t(4)), {}), ("linear", (_t(3), _t(5, 3)), {}),
    ("linear", (_x, _t(5, 3, dtype="float64")), {}),
    ("layer_norm", (_x, (3,), _t(3), _t(3)), {}), ("layer_norm", (_x, [4, 3]), {"eps": 1e-3}),
    ("layer_norm", (_x, (4,)), {}), ("layer_norm", (_x, 3), {}), ("layer_norm", (_x, (3,), _t(4)), {}),
    ("layer_norm", (_x, (3,)), {"bias": _t(3)}), ("layer_norm", (_x, ()), {}),
    ("cross_entropy", (_x, _target), {}), ("cross_entropy", (_x, _target), {"reduction": "sum"}),
    ("cross_entropy", (_x, _target), {"reduction": "none"}), ("cross_entropy", (_x, _target), {"ignore_index": 2}),
    ("cross_entropy", (_x, _target), {"ignore_index": 2, "reduction": "sum"}),
    ("cross_entropy", (_x, _target, _t(3).abs()), {}), ("cross_entropy", (_x, _target), {"label_smoothing": 0.1}),
    ("cross_entropy", (_x, _t(4, 3)), {}), ("cross_entropy", (_x, _target[:3]), {}),
    ("cross_entropy", (_x, _target + 1), {}), ("cross_entropy", (_x, _target), {"reduction": "all"}),
    ("cross_entropy", (_t(0, 3), _target[:0]), {}), ("cross_entropy", (_x, _target, None, None, 2**80), {}),
]  # fmt: skip


@pytest.mark.parametrize("k", range(len(CALLS)))
def test_a_front_is_its_function(k):
    name, args, kwargs = CALLS[k]
    face = getattr(core, name, None) or getattr(F, name)
    found, expected = outcome(face, args, kwargs), outcome(guarded(face.__wrapped__), args, kwargs)
    if isinstance(expected, tuple):
        assert found == expected
    else:
        assert found.dtype is expected.dtype
        assert _same(found._a, expected._a)


def test_a_front_notes_the_users_line_and_saves_what_its_function_saves():
    x = _t(4, 3).requires_grad_()
    front, function = x.softmax(-1), core.softmax.__wrapped__(x, -1)
    assert front._node.place[0] is function._node.place[0]
    assert front._node.params == function._node.params
    assert [type(v) for v in front._node.saved] == [type(v) for v in function._node.saved]


def test_an_observer_hears_of_a_front_as_of_its_function():
    heard = []

    class Ear(observe.Observer):
        def op(self, event):
            heard.append((event.op, event.kernel, event.backend))

    ear = Ear()
    with observe.observing(ear):
        F.cross_entropy(_x, _target)
    first = list(heard)
    heard.clear()
    with observe.observing(ear):
        F.cross_entropy.__wrapped__(_x, _target)
    assert first == heard
    assert [h[0] for h in heard] == ["cross_entropy", "mean"]


def test_a_row_of_the_users_comes_before_an_entry():
    assert _x.sum().item() != 7
    register(
        "sum", "cpu", Row("sevens", "Python", lambda x, dim, keepdim: np.asarray(7, x.dtype), lambda *a, **k: None)
    )
    try:
        assert _x.sum().item() == 7
    finally:
        forget("sum")
    assert _x.sum().item() != 7


def test_autocast_is_heard_before_a_front():
    with core.amp.autocast("cpu"):
        assert (_x @ _t(3, 2)).dtype is core.bfloat16
        assert F.linear(_x, _t(5, 3)).dtype is core.bfloat16
    assert (_x @ _t(3, 2)).dtype is core.float32


def test_without_grad_a_front_records_nothing():
    x = _t(4, 3).requires_grad_()
    with core.no_grad():
        assert x.sum()._node is None
    with core.inference_mode():
        assert F.cross_entropy(x, _target)._node is None
    assert F.cross_entropy(x, _target).grad_fn.name() == "MeanBackward0"
