"""What C keeps for the next op (native/binding/types/array_cache.c, native/binding/types/tensor_node_types.c): only
what nobody else knows."""

from __future__ import annotations

import gc
import sys
import weakref

import numpy as np
import pytest

import core
from core import Tensor, native

pytestmark = pytest.mark.skipif(native.module is None, reason="the C extension is not built")


def test_a_small_array_is_used_again_once_nobody_has_it() -> None:
    x = core.ones(3, 5)
    y = x + x
    place = y._a.ctypes.data
    del y
    z = x * 3
    assert z._a.ctypes.data == place
    assert z.tolist() == [[3.0] * 5] * 3


@pytest.mark.parametrize("shape", [(3, 5), (1,), ()])
def test_what_somebody_has_stays_as_it_is(shape: tuple[int, ...]) -> None:
    x = core.ones(shape)
    held = (x + x).numpy()
    view = (x + x).numpy()[...]
    buffer = memoryview((x + x).numpy())
    for _ in range(40):
        x * 7
    assert (held == 2).all()
    assert (view == 2).all()
    assert (np.asarray(buffer) == 2).all()


def test_an_array_with_a_weak_reference_goes() -> None:
    x = core.ones(3, 5)
    y = x + x
    ref = weakref.ref(y._a)
    del y
    assert ref() is None


def test_an_array_that_was_changed_is_not_taken_for_another() -> None:
    x = core.ones(4, 6)
    for change in (lambda a: a.setflags(write=False), lambda a: None):
        y = x + x
        change(y._a)
        del y
        z = x + x
        assert z._a.flags.writeable
        assert z._a.shape == (4, 6)
        assert z._a.strides == (24, 4)
        assert z._a.flags.c_contiguous
        assert z._a.dtype == np.float32


def test_views_are_used_again_and_let_their_memory_go() -> None:
    x = core.arange(24.0).reshape(4, 6).clone()
    before = sys.getrefcount(x._a)
    for _ in range(100):
        y = x[1:3, ::2]
        assert y._a.base is x._a
        assert y.tolist() == [[6.0, 8.0, 10.0], [12.0, 14.0, 16.0]]
        z = x.transpose(0, 1)
        assert z._a.flags.f_contiguous
        assert not z._a.flags.c_contiguous
        assert x[2].tolist() == [12.0, 13.0, 14.0, 15.0, 16.0, 17.0]
        del y, z
    after = sys.getrefcount(x._a)
    assert after == before


def test_a_tensor_made_again_knows_nothing_of_the_last_one() -> None:
    x = core.ones(3, requires_grad=True)
    y = x * 2
    y.note = "mine"  # type: ignore[attr-defined]
    y.retain_grad()
    ref = weakref.ref(y)
    del y
    assert ref() is None
    z = core.ones(3) * 2
    assert z.__dict__ == {}
    assert (z.grad_fn, z.grad, z.requires_grad, z._base, z._storage) == (None, None, False, None, None)
    assert weakref.getweakrefcount(z) == 0


def test_tensors_in_a_ring_are_found_by_the_collector() -> None:
    x = core.ones(3, requires_grad=True)
    refs = []
    for _ in range(20):
        y = x * 2
        y.itself, y.grad_fn.metadata["it"] = y, y  # type: ignore[attr-defined, union-attr]
        refs.append(weakref.ref(y))
    del y
    gc.collect()
    assert [r() for r in refs] == [None] * 20


def test_a_finalizer_of_the_class_and_of_a_subclass_is_called() -> None:
    gone = []

    class Mine(Tensor):
        def __del__(self) -> None:
            gone.append("mine")

    Mine([1.0])
    Tensor.__del__ = lambda self: gone.append("tensor")  # type: ignore[attr-defined]
    try:
        core.ones(2) + 1
    finally:
        del Tensor.__del__  # type: ignore[attr-defined]
    assert gone[0] == "mine"
    assert gone.count("tensor") == 2
