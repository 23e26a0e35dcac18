"""The forms in C of the view functions, of cat and of stack: they give, note and keep what the Python functions do."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import core
from core import Tensor, native
from core.base.source import locate

pytestmark = pytest.mark.skipif(native.module is None, reason="the C extension is not built")

VIEWS = {
    "reshape": [(6, 4), ((4, -1),), ([24],), (-1,), (1, 24, 1)],
    "view": [(6, 4), ((2, 3, 4),)],
    "flatten": [(), (1,), (0, 1), (-2,)],
    "transpose": [(0, 1), (-1, 0), (2, 2)],
    "permute": [(2, 0, 1), ((-1, 0, 1),), (0, 1, 2)],
    "squeeze": [(), (1,), (-1,)],
    "unsqueeze": [(0,), (3,), (-1,), (1,)],
    "expand": [(2, 3, 4), (5, -1, 3, 4), ((2, -1, -1),)],
    "__getitem__": [(1,), (-1,), (None,), (Ellipsis,), (slice(None),), (slice(1, None),), ((0, slice(None, None, 2)),),
                    ((Ellipsis, 1),), ((slice(None), None, 1),), ((1, 2, 3),), ((slice(5, 2), slice(-2, 99)),), ((),),
                    ((slice(None), 1, Ellipsis, slice(0, -1)),)],
}  # fmt: skip


def _known(face: object) -> object:
    assert isinstance(face, native.module.PublicFunction)
    return face.__wrapped__


def _same_node(n, m) -> None:
    assert (n is None) == (m is None)
    if n is not None:
        assert (n.op, n.kind, n.nrs, n.saved, n.storages, n.versions) == (m.op, m.kind, m.nrs, m.saved, m.storages,
                                                                          m.versions)  # fmt: skip
        assert n.params.keys() == m.params.keys()
        assert n.edges == m.edges


def _same(quick: Tensor, plain: Tensor) -> None:
    a, b = quick._a, plain._a
    assert a.shape == b.shape
    assert [s for s, k in zip(a.strides, a.shape, strict=True) if k > 1 or not b.size] == [
        s for s, k in zip(b.strides, b.shape, strict=True) if k > 1 or not b.size
    ]
    assert not a.size or a.__array_interface__["data"] == b.__array_interface__["data"]
    assert a.flags.writeable == b.flags.writeable
    assert quick._kind is plain._kind
    assert quick.requires_grad == plain.requires_grad
    assert quick._base is plain._base
    assert quick._storage is plain._storage
    assert (quick._rule, quick._version, quick._view_version) == (plain._rule, plain._version, plain._view_version)
    assert len(quick._way) == len(plain._way)
    again = quick._base
    for step in quick._way:
        again = step(again)
    np.testing.assert_array_equal(again._a, b)
    _same_node(quick.grad_fn, plain.grad_fn)


@pytest.mark.parametrize(("name", "args"), [(n, a) for n, many in VIEWS.items() for a in many])
@pytest.mark.parametrize("way", ["leaf", "computed", "view", "written", "no_grad"])
def test_a_view_is_what_python_makes_of_it(name: str, args: tuple, way: str) -> None:
    face = vars(Tensor)[name]
    x = core.randn(2, 3, 4) if name not in ("squeeze", "expand") else core.randn(2 if name == "squeeze" else 1, 3, 4)
    x.requires_grad_(way != "written")
    if way == "computed":
        x = x * 2
    elif way == "view":
        x = (x * 2).reshape(x.shape)
    elif way == "written":
        x.add_(1)
    with core.set_grad_enabled(way != "no_grad"):
        quick, plain = face(x, *args), _known(face)(x, *args)
    _same(quick, plain)
    if plain.requires_grad:
        leaf = x.grad_fn is None and x
        g = core.randn(plain.shape)
        for y in (quick, plain):
            got, want = core.autograd.grad(y, x, g, retain_graph=True)[0], _by_python(y, x, g)
            np.testing.assert_array_equal(got.numpy(), want.numpy())
            if leaf is x:
                x.grad = None
                y.backward(g, retain_graph=True)
                np.testing.assert_array_equal(x.grad.numpy(), want.numpy())


def _by_python(y: Tensor, x: Tensor, g: Tensor) -> Tensor:
    return core.autograd.grad(y, x, g, retain_graph=True, create_graph=True)[0].detach()


@pytest.mark.parametrize("name", ["cat", "stack"])
@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("layout", ["rows", "columns"])
def test_joins_are_what_python_makes_of_them(name: str, dim: int, layout: str) -> None:
    face, leaves = getattr(core, name), [core.randn(3, 3).requires_grad_(k != 1) for k in range(3)]
    many = [t if layout == "rows" else t.t() for t in leaves]
    quick, plain = face(many, dim), _known(face)(many, dim=dim)
    np.testing.assert_array_equal(quick.detach().numpy(), plain.detach().numpy())
    assert quick.is_contiguous()
    if layout == "rows":
        _same_node(quick.grad_fn, plain.grad_fn)
        assert quick.grad_fn.params == plain.grad_fn.params
    g = core.randn(quick.shape)
    quick.backward(g)
    for t, w in zip((leaves[0], leaves[2]), core.autograd.grad(plain, [leaves[0], leaves[2]], g), strict=True):
        np.testing.assert_array_equal(t.grad.numpy(), w.numpy())


def test_pieces_of_unlike_sizes_are_joined() -> None:
    a, b = core.ones(2, 1, requires_grad=True), core.ones(2, 3, requires_grad=True)
    y = core.cat((a, b), dim=1)
    assert y.shape == (2, 4)
    (y * core.arange(8.0).reshape(2, 4)).sum().backward()
    np.testing.assert_array_equal(a.grad.numpy(), [[0], [4]])
    np.testing.assert_array_equal(b.grad.numpy(), [[1, 2, 3], [5, 6, 7]])


_edge = st.one_of(st.none(), st.integers(-5, 5))
_slice = st.builds(slice, _edge, _edge, st.one_of(st.none(), st.integers(1, 3)))
_item = st.one_of(st.integers(-4, 4), st.none(), st.just(Ellipsis), _slice)


@given(st.one_of(_item, st.lists(_item, max_size=5).map(tuple)), st.permutations(range(3)))
def test_brackets_are_read_as_numpy_reads_them(index: object, order: list[int]) -> None:
    a = np.arange(24.0).reshape(2, 3, 4).transpose(order)
    x = core.from_numpy(a)
    try:
        want = np.asarray(a[index])
    except IndexError:
        if not (isinstance(index, tuple) and index.count(Ellipsis) > 1):  # PyTorch takes several
            with pytest.raises(IndexError):
                x[index]
        return
    np.testing.assert_array_equal(x[index].numpy(), want)
    assert np.shares_memory(x[index].numpy(), a) == bool(want.size)


@given(st.lists(st.integers(-2, 4), min_size=1, max_size=4), st.sampled_from([(2, 3, 2), (0, 3), (1,), ()]))
def test_shapes_are_read_as_python_reads_them(sizes: list[int], shape: tuple[int, ...]) -> None:
    x = core.zeros(shape)
    for name in ("reshape", "expand", "permute"):
        face = vars(Tensor)[name]
        assert _said(face, x, sizes) == _said(_known(face), x, sizes)


def _said(function: object, x: Tensor, sizes: list[int]) -> object:
    """The shape that comes, or the error."""
    try:
        return function(x, *sizes).shape
    except (RuntimeError, IndexError, ValueError) as e:
        return type(e), str(e)


def test_the_line_and_the_words_of_errors_are_the_users() -> None:
    x = core.ones(2, 3, requires_grad=True)
    y = x[1]
    assert locate(*y.grad_fn.place).code == "x[1]"
    assert locate(*core.cat([x, x]).grad_fn.place).code == "core.cat([x, x])"
    with pytest.raises(IndexError, match="out of bounds for dimension 0 with size 2"):
        x[2]
    with pytest.raises(RuntimeError, match="zero-dimensional tensor"):
        core.cat([core.tensor(1.0)])


def test_a_write_through_a_quick_view_moves_the_base_on() -> None:
    x = core.zeros(4, requires_grad=True)
    y = x * 1
    z = y.reshape(2, 2).t()[0]
    z.add_(y.sum())
    assert (y._version, z._version) == (1, 1)
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [3, 3, 3, 3])


def test_a_node_keeps_no_tensor_alive_that_its_gradient_needs_not() -> None:
    x = core.ones(3, requires_grad=True)
    y = x * 2
    gone = weakref.ref(y)
    z = y.reshape(3, 1) * 3
    del y
    gc.collect()
    assert gone() is None
    z.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [6, 6, 6])


def test_a_way_of_many_views_is_taken_apart() -> None:
    x = core.ones(2, 2)
    for _ in range(50_000):
        x = x.t()
    assert len(x._way) == 50_000
    del x


def test_hooks_observers_and_batches_take_pythons_way() -> None:
    x, seen = core.ones(2, 2, requires_grad=True), []
    y = (x * 1).t()
    y.register_hook(lambda g: seen.append(g.shape) or g * 2)
    y.sum().backward()
    assert seen == [(2, 2)]
    np.testing.assert_array_equal(x.grad.numpy(), 2 * np.ones((2, 2)))
    assert core.vmap(lambda t: t.t().reshape(4)[1:3])(core.ones(3, 2, 2)).shape == (3, 2)
    with core.autograd.graph.save_on_cpu():
        assert x.reshape(4).requires_grad
