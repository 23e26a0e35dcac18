"""Writes in place by C: they do, note and refuse what the Python functions behind them do."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import core
from core import Tensor, native
from core.autograd.graph import saved_tensors_hooks
from core.base.source import locate
from core.dispatch.type_errors import guarded
from core.events import observe

pytestmark = pytest.mark.skipif(native.module is None, reason="the C extension is not built")

rng = np.random.default_rng(5)
_data = {
    "float32": rng.standard_normal((4, 6)).astype("f"),
    "float64": rng.standard_normal((4, 6)),
    "int64": rng.integers(-9, 9, (4, 6)),
    "int32": rng.integers(-9, 9, (4, 6)).astype("i"),
    "bool": rng.random((4, 6)) < 0.5,
    "float16": rng.standard_normal((4, 6)).astype("e"),
}
TARGETS = {
    "whole": lambda x: x,
    "turned": lambda x: x.t(),
    "rows": lambda x: x[1:3],
    "columns": lambda x: x[:, ::2],
    "one": lambda x: x[1, 2],
    "none": lambda x: x[2:2],
}
VALUES = [
    0,
    3,
    1.5,
    True,
    -0.0,
    float("nan"),
    float("inf"),
    2**60,
    2**70,
    1e300,
    1e-300,
    "text",
    None,
    np.float32(2),
    [1.0, 2.0],
    core.tensor(2.5),
    core.tensor(3),
    core.tensor([7.0]),
    core.arange(6.0),
    core.arange(4.0),
    core.arange(12.0).reshape(2, 6),
    core.arange(6),
    core.ones(2, 4, 6),
    core.ones(6, dtype=core.float64),
    core.zeros(6).bool(),
]
KEYS = [
    0,
    -1,
    9,
    slice(1, 3),
    (1, slice(None)),
    (slice(None), 2),
    ...,
    None,
    (),
    (..., 0),
    slice(None, None, 2),
    core.tensor([0, -1, 2]),
    core.tensor([[1, 0], [3, 3]]),
    core.tensor([0, 4]),
    core.tensor([], dtype=core.int64),
    core.tensor([True, False, True, False]),
    core.tensor(rng.random((4, 6)) < 0.5),
    core.tensor([True]),
    core.tensor(1),
    [0, 2],
    (core.tensor([0, 1]), 2),
    core.tensor([0.0]),
    True,
]


def _target(dtype: str, view: str) -> tuple[Tensor, Tensor]:
    base = core.from_numpy(_data[dtype].copy())
    return base, TARGETS[view](base)


def _outcome(f, target, *args):
    """What a call gives: the error's class and first line, or whether the target came back and which op is noted."""
    before = target._version
    try:
        with np.errstate(all="ignore"):
            result = f(target, *args)
    except Exception as e:
        return type(e), str(e).split("\n")[0], target._version - before
    storage = target._storage
    return result is target or result is None, target._version - before, storage and storage.write[0]


def _agree(name: str, dtype: str, view: str, *args) -> None:
    face = getattr(Tensor, name)
    assert isinstance(face, native.module.PublicFunction)
    (base, target), (other, same) = _target(dtype, view), _target(dtype, view)
    assert _outcome(face, target, *args) == _outcome(guarded(face.__wrapped__), same, *args)
    assert base._a.tobytes() == other._a.tobytes()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", _data)
def test_fill_copy_and_brackets_are_those_of_python(dtype):
    for view in TARGETS:
        _agree("zero_", dtype, view)
        for value in VALUES:
            _agree("fill_", dtype, view, value)
            _agree("copy_", dtype, view, value)
        for key, value in itertools.product(KEYS, VALUES[::3] if view != "whole" else VALUES):
            if view != "one" or not isinstance(key, tuple | int):
                _agree("__setitem__", dtype, view, key, value)


def test_rows_go_to_a_mask_and_to_an_index():
    mask = core.tensor([True, False, True, False])
    rows, many = core.arange(12.0).reshape(2, 6), core.arange(36.0).reshape(6, 6)
    for key, value in [
        (mask, rows),
        (mask, rows[0]),
        (mask, many),
        (core.tensor([3, 0]), rows),
        (core.tensor([1, 1]), rows),
        (core.tensor([[3, 0], [1, -1]]), many[:4].reshape(2, 2, 6)),
        (core.tensor([0]), rows),
    ]:
        _agree("__setitem__", "float32", "whole", key, value)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("add_", (2,)),
        ("add_", (core.arange(6.0),)),
        ("mul_", (1.5,)),
        ("mul_", (core.ones(4, 6, dtype=core.float64),)),
        ("sub_", (core.ones(2, 4, 6),)),
        ("div_", (3,)),
        ("neg_", ()),
        ("exp_", ()),
        ("lt_", (1,)),
        ("clamp_", (-1, 1)),
        ("pow_", (2,)),
        ("lerp_", (core.zeros(4, 6), 0.25)),
        ("tril_", ()),
        ("masked_fill_", (core.ones(4, 6) > 0, 2)),
        ("index_copy_", (0, core.tensor([1]), core.ones(1, 6))),
        ("add_", ("text",)),
        ("add_", ()),
    ],
)
def test_in_place_forms_are_those_of_python(dtype, name, args):
    for view in ("whole", "columns"):
        _agree(name, dtype, view, *args)


@pytest.mark.parametrize("n", [3, 40000])
def test_into_the_target_itself_large_or_small(n):
    for shape in [(n,), (n, 3)]:
        x = rng.standard_normal(shape)
        for other in (x.copy(), x[:1].copy(), 2.5):
            t, o = core.from_numpy(x.copy()), other if isinstance(other, float) else core.from_numpy(other)
            address = t.data_ptr()
            assert t.mul_(o) is t
            np.testing.assert_array_equal(t.numpy(), x * other)
            assert (t.data_ptr(), t._version) == (address, 1)
        t = core.from_numpy(x.copy())
        t[1:].add_(t[:-1])  # what is read overlaps what is written
        np.testing.assert_array_equal(t.numpy()[1:], x[1:] + x[:-1])
        t = core.from_numpy(x.copy())
        t[1:].copy_(t[:-1])
        np.testing.assert_array_equal(t.numpy()[1:], x[:-1])


@pytest.mark.parametrize("n", [1 << 10, 1 << 18, (1 << 22) + 3])
def test_fills_of_every_size_reach_every_item(n):
    x = core.ones(n + 2)[1:-1]
    assert bool((x.fill_(2.5)._a == 2.5).all())
    assert bool((x.zero_()._a == 0).all())
    mask = core.arange(n) % 3 == 0
    x[mask] = 4.0
    assert np.array_equal(x._a, np.where(mask._a, 4, 0))
    x.masked_fill_(~mask, 1.0)
    assert np.array_equal(x._a, np.where(mask._a, 4, 1))
    assert x._base._a[0] == x._base._a[-1] == 1
    assert np.array_equal(x.copy_(core.arange(float(n)))._a, np.arange(n, dtype="f"))


def test_a_write_notes_its_op_and_its_line():
    x = core.zeros(3)
    for _ in range(2):
        x[0] = 1.0
    assert x._storage.write[0] == "copy_"
    assert locate(*x._storage.write[1]).code == "x[0]"
    x.add_(1)
    assert (x._storage.write[0], locate(*x._storage.write[1]).code, x._version) == ("add_", "x.add_(1)", 3)
    x[core.tensor([1])] = 0.0
    assert x._storage.write[0] == "index_put_"


def test_what_is_saved_hears_of_the_write():
    for write in (
        lambda y: y.zero_(),
        lambda y: y.__setitem__(0, 1.0),
        lambda y: y.mul_(2.0),
        lambda y: y.copy_(y * 2),
    ):
        w, y = core.ones(3, requires_grad=True), core.ones(3)
        z = (w * y).sum()
        write(y)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            z.backward()


@pytest.mark.parametrize(
    "write",
    [
        lambda t: t.zero_(),
        lambda t: t.fill_(1.0),
        lambda t: t.add_(1.0),
        lambda t: t.copy_(core.ones(3)),
        lambda t: t.__setitem__(0, 1.0),
        lambda t: t.__setitem__(t > 0, 1.0),
        lambda t: t.masked_fill_(t > 0, 1.0),
    ],
)
def test_what_is_not_plain_goes_to_python(write):
    leaf = core.ones(3, requires_grad=True)
    for target in (leaf, leaf[:]):
        with pytest.raises(RuntimeError, match=r"a (view of a )?leaf Variable that requires grad"):
            write(target)
    with core.no_grad():
        write(leaf)
    assert (leaf._version, leaf.requires_grad, leaf.grad_fn) == (1, True, None)
    y = leaf * 2
    write(y)
    assert y.grad_fn.name() != "MulBackward0"
    fixed = np.ones(3, "f")
    fixed.flags.writeable = False
    if isinstance(write(core.ones(3)), Tensor):
        with pytest.raises(RuntimeError, match="not writable"):
            write(core.from_numpy(fixed))
    seen = []

    class Listener:
        wants = frozenset()

        def op(self, event):
            seen.append(event)

        def __getattr__(self, name):
            return lambda *args, **kwargs: None

    before, observe.observers = observe.observers, (Listener(),)
    try:
        x = core.ones(3)
        write(x)
    finally:
        observe.observers = before
    assert x._version == 1
    with saved_tensors_hooks(lambda t: t, lambda t: t):
        write(core.ones(3))


def test_over_batches_the_batch_writes():
    def inside(t):
        y = t.clone().zero_().add_(t).mul_(2)
        y[0] = 7.0
        return y

    assert core.func.vmap(inside)(core.tensor([[1.0, 2.0], [3.0, 4.0]])).tolist() == [[7, 4], [7, 8]]


def test_an_operand_with_a_history_gives_it_to_the_target():
    w = core.tensor([1.0, 2.0], requires_grad=True)
    for write in (
        lambda y: y.copy_(w),
        lambda y: y.add_(w),
        lambda y: y.__setitem__(slice(None), w),
        lambda y: y.__setitem__(core.tensor([0, 1]), w),
    ):
        y = core.zeros(2)
        write(y)
        assert y.requires_grad
        w.grad = None
        y.sum().backward()
        assert w.grad.tolist() == [1, 1]


def test_autocast_leaves_the_forms_as_they_are():
    with core.autocast("cpu"):
        x = core.ones(2, 2)
        assert x.add_(1).mul_(2).dtype is core.float32
        x[0] = 1.0
    assert x.tolist() == [[1, 1], [4, 4]]


def test_a_subclass_keeps_its_own_brackets():
    class Mine(Tensor):
        def __setitem__(self, key, value):
            raise KeyError(key)

    mine = Mine()
    mine._a, mine._kind = np.zeros(2, "f"), core.zeros(1)._kind
    with pytest.raises(KeyError):
        mine[0] = 1.0
    x = core.zeros(2)
    with pytest.raises(AttributeError):
        del x[0]
