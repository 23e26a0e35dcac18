"""What C picks by index and by mask, and copies in another order: what references and Python's functions give."""

from __future__ import annotations

import numpy as np
import pytest

import core
from core import Tensor, native
from core.backends import declared, rows
from core.declare import op as declarations
from core.dispatch.type_errors import guarded

OPS = (
    "index",
    "gather",
    "scatter",
    "scatter_add",
    "index_put",
    "constant_pad",
    "tril",
    "triu",
    "flip",
    "roll",
    "cumsum",
)

pytestmark = pytest.mark.skipif(native.module is None, reason="the C extension is not built")
rng = np.random.default_rng(6)
_i = core.tensor


def _given(op, dtype):
    """The op's samples and more of them: places that meet, nothing, an axis of one."""
    more = {
        "index": [
            ((rng.standard_normal((3, 4, 2)), rng.integers(-4, 4, (5, 3)), *(None,) * 7), {"where": (False, True)}),
            ((rng.standard_normal((3, 4, 2)), rng.integers(0, 3, 0), *(None,) * 7), {"where": (True,)}),
        ],
        "index_put": [
            (
                (rng.standard_normal((3, 4)), rng.standard_normal((5, 4)), np.array([0, 2, -1, 0, 0]), *(None,) * 7),
                {"where": (True,), "accumulate": a},
            )
            for a in (True, False)
        ],
        "gather": [
            ((rng.standard_normal((3, 4, 5)), rng.integers(0, s, n)), {"dim": d})
            for d, s, n in [(0, 3, (7, 4, 5)), (1, 4, (2, 9, 3)), (2, 5, (3, 4, 8)), (1, 4, (0, 2, 2))]
        ],
        "flip": [((rng.standard_normal(s),), {"dims": d}) for s, d in [((4,), (0,)), ((70, 33), (1,)), ((3, 0), (0,))]],
        "roll": [((rng.standard_normal((3, 5)),), {"shifts": (k,), "dims": (1,)}) for k in (7, -6, 5, 0)],
        "tril": [((rng.standard_normal((2, 3, 5)),), {"diagonal": d}) for d in (-9, 0, 2, 9)],
        "triu": [((rng.standard_normal((2, 5, 3)),), {"diagonal": d}) for d in (-9, 0, 2, 9)],
        "constant_pad": [
            ((rng.standard_normal((3, 4)),), {"border": b, "value": v})
            for b in [((1, 2), (0, 3)), ((-1, 2), (1, -2)), ((0, 0), (-2, -2))]
            for v in (0.0, -1.5, 2)
        ],
        "cumsum": [((rng.standard_normal((3, 70)),), {"dim": d, "reverse": r}) for d in (0, 1) for r in (False, True)],
    }
    more["scatter"] = more["scatter_add"] = [
        ((rng.standard_normal((3, 4, 5)), i, rng.standard_normal(i.shape)), p) for (_, i), p in more["gather"]
    ]
    for arrays, params in [*op.samples(rng), *more[op.name]]:
        yield [a.astype(dtype) if a is not None and a.dtype.kind == "f" else a for a in arrays], {**op.params, **params}


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32", "bool"])
@pytest.mark.parametrize("name", OPS)
def test_entries_give_what_the_reference_gives(name, dtype):
    op, taken = declarations.table[name], 0
    for arrays, params in _given(op, dtype):
        found = native.module.entries[name](*arrays, *(params[n] for n in op.params))
        if found is NotImplemented:
            continue
        taken += 1
        expected = op.forward(np, *arrays, **params)
        assert (found.dtype, found.shape, found.flags.c_contiguous) == (expected.dtype, expected.shape, True)
        if name in ("scatter_add", "index_put") and dtype in ("float32", "float64"):
            np.testing.assert_allclose(found, expected, rtol=1e-5)  # places that meet are added in another order
        else:
            np.testing.assert_array_equal(found, expected)
    assert taken or dtype not in ("float32", "float64")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", OPS)
def test_gradients_are_those_of_the_vjps(name, dtype):
    op, taken = declarations.table[name], 0
    for arrays, params in _given(op, dtype):
        tensors = [None if a is None else core.from_numpy(np.array(a)) for a in arrays]
        for t in tensors:
            if t is not None and t.is_floating_point():
                t.requires_grad_()
        y = core.dispatch.structured.call_operation(op, tuple(tensors), params)
        named = {
            "g": rng.standard_normal(y._a.shape).astype(dtype),
            "needs": tuple(e is not None for e in y._node.edges),
        }
        named |= {**params, **{s.name: v for s, v in zip(op.slots, y._node.saved, strict=False)}}
        found = native.module.entries[f"{name}.backward"](*(named[n] for n in op.row_names))
        if found is NotImplemented:
            continue
        taken += 1
        expected = declared.by_vjps(name, named)
        for a, b in zip(*((r if isinstance(r, tuple) else (r,)) for r in (found, expected)), strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                assert (a.dtype, a.shape) == (b.dtype, b.shape)
                np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6 if dtype == "float32" else 1e-12)
    assert taken


_x, _m = core.tensor(rng.standard_normal((4, 6)).astype("f")), core.tensor(rng.random((4, 6)) < 0.5)
_idx, _rows = _i([[0, 1, 2, 0, 5, 3]]), _i([3, 0, 0])
CALLS = [
    *(
        ("__getitem__", (k,))
        for k in (
            _rows,
            _i([-1, -4]),
            _i([4]),
            _i([-5]),
            _i([[0, 1], [2, 3]]),
            _m,
            _m[0],
            _m[:, 0],
            (slice(None), _rows),
            (_rows, _i([1, 2, 3])),
            (_rows, slice(None)),
            (slice(None), _m[0]),
            (_i([0, 1]), _rows),
            (_rows, 1),
            (_rows, ...),
            (None, _rows),
            (slice(1, 2), _rows),
            _i([], dtype=core.int64),
            _rows.int(),
            _rows.byte(),
            _i(1),
            [0, 1],
            _i([1.0]),
            _i([True]),
            (_rows, _rows, _rows),
            (_m[:, 0], _m[0]),
            _m & False,
        )
    ),
    *(
        ("gather", a)
        for a in (
            (1, _idx),
            (-1, _idx),
            (0, _idx % 4),
            (1, _idx - 1),
            (1, _idx + 1),
            (2, _idx),
            (1, _idx[0]),
            (1, _idx.int()),
        )
    ),
    *(
        ("scatter", a)
        for a in (
            (1, _idx, 2.0),
            (1, _idx, 2),
            (1, _idx, _x),
            (1, _idx, _x[:1]),
            (1, _idx, _x.double()),
            (1, _idx, 1e300),
            (1, _idx + 9, 0.0),
            (1, _idx, None),
        )
    ),
    *(("scatter_add", a) for a in ((1, _idx, _x), (1, _idx, _x[:1]), (0, _idx % 4, _x[:1]), (1, _idx, 2.0))),
    *(
        ("index_select", a)
        for a in ((0, _rows), (1, _rows), (-1, _rows), (2, _rows), (0, _i([-1])), (0, _i([[0]])), (0, _i(2)))
    ),
    *(
        ("index_copy", a)
        for a in ((0, _rows, _x[:3]), (1, _rows, _x[:, :3]), (0, _rows, _x), (0, _i([4, 0, 0]), _x[:3]))
    ),
    *(
        ("index_add", a)
        for a in ((0, _rows, _x[:3]), (1, _rows, _x[:, :3]), (0, _rows, _x), (0, _rows, _x[:3].double()))
    ),
    *(
        ("masked_fill", a)
        for a in ((_m, 2.0), (_m, 2), (_m, True), (_m[0], 1.0), (_m.int(), 1.0), (_m, core.tensor(3.0)), (_m, "x"))
    ),
    *(("tril", a) for a in ((), (1,), (-2,), (1.5,))),
    ("triu", (1,)),
    ("flip", (0,)),
    ("flip", ((0, 1),)),
    ("flip", (0, 1)),
    ("flip", ((0, 0),)),
    ("flip", (2,)),
    ("flip", ((),)),
    ("roll", (1, 0)),
    ("roll", (-8, -1)),
    ("roll", (1,)),
    ("roll", (1, 2)),
    ("roll", ((1, 2), (0, 1))),
    ("cumsum", (0,)),
    ("cumsum", (-1,)),
    ("cumsum", (2,)),
    ("diag", ()),
    ("diag", (2,)),
    ("diag", (-3,)),
    ("diag", (7,)),
    ("trace", ()),
]


def _outcome(f, args):
    try:
        y = f(*args)
    except Exception as e:
        return type(e), str(e).split("\n")[0]
    node = y.grad_fn
    noted = node and (node.name(), node.params, [None if v is None else np.asarray(v).tolist() for v in node.saved])
    return y._a.tobytes(), y._a.shape, y._kind, y.requires_grad, noted


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("layout", ["plain", "turned", "int64", "bool", "float16"])
@pytest.mark.parametrize("grad", [False, True])
def test_functions_are_those_of_python(layout, grad):
    x = core.tensor(_x.t().contiguous().numpy()).t() if layout == "turned" else _x
    x = (_x * 3).to(getattr(core, layout)) if layout in ("int64", "bool", "float16") else x
    x = x.clone() if layout != "turned" else x
    if grad and x.is_floating_point():
        x.requires_grad_()
    for name, args in CALLS:
        face = getattr(Tensor, name)
        assert isinstance(face, native.module.PublicFunction), name
        assert _outcome(face, (x, *args)) == _outcome(guarded(face.__wrapped__), (x, *args)), (name, args)
    for given in ((1, 2), [0, 1, 2, 3], (1,), (1, 2, 3, 4, 5, 6), (-1, 1), ()):
        pad = core.nn.functional.pad
        assert _outcome(pad, (x, given)) == _outcome(pad.__wrapped__, (x, given)), given


@pytest.mark.parametrize(
    "mask", [_m, _m[0], core.zeros(2, 0).bool(), core.ones(2, 1, 3).bool(), core.tensor(True), _m.t()]
)
def test_nonzero_is_that_of_python(mask):
    assert _outcome(Tensor.nonzero, (mask,)) == _outcome(Tensor.nonzero.__wrapped__, (mask,))


def test_second_order_through_picks():
    x = core.tensor(rng.standard_normal((4, 6)), requires_grad=True)
    index = core.tensor(rng.integers(0, 6, (4, 3)))
    for f in (
        lambda x: x[_rows] ** 2,
        lambda x: x[x.detach() > 0] ** 2,
        lambda x: x.gather(1, index) ** 2,
        lambda x: x.scatter(1, index, 1.0) ** 2,
        lambda x: x.index_add(0, _rows, x[:3]) ** 2,
        lambda x: x.tril().roll(1, 0).flip(1).cumsum(0) ** 2,
        lambda x: core.nn.functional.pad(x, (1, 2)) ** 2,
    ):
        assert core.autograd.gradcheck(f, x)
        assert core.autograd.gradgradcheck(f, x)


def test_one_thread_and_two_give_the_same_bits():
    x = core.tensor(rng.standard_normal((300, 400)).astype("f"))
    index, many = core.tensor(rng.integers(0, 400, (300, 700))), core.tensor(rng.integers(0, 300, 5000))
    rows_ = core.tensor(rng.standard_normal((5000, 400)).astype("f"))
    results = []
    before = core.get_num_threads()
    for threads in (1, 2):
        core.set_num_threads(threads)
        results.append(
            [
                x.gather(1, index),
                x.scatter_add(1, index, rows_[:300, :1].expand(300, 700).contiguous()),
                x.index_add(0, many, rows_),
                x.cumsum(0),
                x.cumsum(1),
                x[many],
                x.tril(),
                x.flip(0, 1),
            ]
        )
    core.set_num_threads(before)
    for one, two in zip(*results, strict=True):
        assert one._a.tobytes() == two._a.tobytes()


def test_rows_say_what_they_do_not_take():
    (row,) = rows("index", "cpu")
    none = (None,) * 7
    assert "float16" in row.declines(np.ones((2, 2), "e"), np.array([0]), *none, where=(True,))
    assert "int32" in row.declines(np.ones((2, 2)), np.array([0], "i"), *none, where=(True,))
    for bad in (np.array([2]), np.array([-3])):
        assert native.module.entries["index"](np.ones((2, 2)), bad, *none, (True,)) is NotImplemented
    assert native.module.indices_within(np.array([0, 5]), 0, 6)
    assert native.module.indices_within(np.array([0, 6]), 0, 6) is False
    assert native.module.indices_within(np.array([-1]), 0, 6) is False
    assert native.module.indices_within(np.array([0.5]), 0, 6) is None
