"""The quick forms of what makes tensors: the same as their functions in Python."""

# ruff: noqa: E501
from __future__ import annotations

import numpy as np
import pytest

import core
from core import native
from core.dispatch.type_errors import guarded

from .outcomes import outcome

pytestmark = pytest.mark.skipif(native.module is None, reason="quick forms are in the extension")
X = core.ones(2, 3)
LIKES = [X, X.double(), X.long(), X.bool(), X.half(), X.t(), core.tensor(1.0), core.ones(0, 2), core.ones(3).to(core.uint8),
         core.ones(2, 2, requires_grad=True), core.ones(2, dtype=core.complex64)]  # fmt: skip
SHAPES = [(2, 3), ((2, 3),), ([4],), (), ((),), (0,), (-1,), (2.0,), (True,), ("a",), (200, 300), (2**40, 2**40), (core.Size([2]),),
          (np.int64(2),), (2, (3,))]  # fmt: skip
WORDS = [{}, {"dtype": core.float64}, {"dtype": core.int64}, {"dtype": core.bool}, {"dtype": core.bfloat16}, {"dtype": None},
         {"dtype": int}, {"dtype": "float"}, {"requires_grad": True}, {"device": "cpu"}, {"size": (2,)}, {"wrong": 1}]  # fmt: skip
NUMBERS = [1.5, 7, True, -3, 2**40, 2**70, -0.0, float("nan"), 1j, "a", None, np.float32(2), X[0, 0]]
CALLS = [
    *[(n, s, k) for n in ("zeros", "ones") for s in SHAPES for k in WORDS if s != (2**40, 2**40) or not k],
    *[(n, (x,), k) for n in ("zeros_like", "ones_like") for x in [*LIKES, 1] for k in WORDS[:-2]],
    *[("full", (s, v), k) for s in [(2, 3), [2], (), 3, (0,), (2, -1)] for v in NUMBERS for k in WORDS[:6]],
    *[("full_like", (x, v), {}) for x in LIKES for v in NUMBERS],
    *[("arange", a, k) for a in [(5,), (0,), (2, 7), (7, 2), (7, 2, -2), (0, 5, 2), (1, 5, 0), (5.0,), (0, 1, 0.25), (True,),
                                 (-3,), (100000,), (2**40,), (2**70,), (3, 3), ("a",), (1, 2, 3, 4)]
      for k in [{}, {"dtype": core.float32}, {"step": 1}]],
    *[("eye", a, k) for a in [(3,), (2, 3), (3, 2), (0,), (-1,), (2.0,), ((2, 3),), (300,)] for k in WORDS[:6]],
    *[("tensor", (d,), k) for d in
      [1.5, 2, True, [1.0, 2.0], [1, 2], [True, False], [1, 2.5], [True, 2], [[1, 2], [3, 4]], [[1.0], [2.0]], [[1, 2], [3]],
       [[1], 2], [1, [2]], [], [[]], ((1, 2), [3, 4]), 2**63 - 1, 2**63, -(2**63), [2**70], 1e300, [1e39, -1e39], 1j, "a", ["a"],
       np.ones(2), [np.float64(1.0)], [X[0, 0]], X, None, [None], range(3), float("nan"), [[[1.0, 2.0]]], [[True]], {1: 2}]
      for k in [{}, {"dtype": core.float64}]],
]  # fmt: skip
METHODS = [(n, (x, *s), k) for n in ("new_zeros", "new_ones") for x in LIKES for s in SHAPES[:5] for k in WORDS[:5]]


def _same(found, expected):
    if not isinstance(expected, core.Tensor):
        assert found == expected
        return
    assert found._kind is expected._kind
    assert found._a.shape == expected._a.shape
    assert found._a.strides == expected._a.strides
    assert found._a.tobytes() == expected._a.tobytes()
    assert found.requires_grad == expected.requires_grad
    assert found.is_leaf
    assert found._a.flags.writeable


@pytest.mark.parametrize("name", sorted({c[0] for c in CALLS}))
@pytest.mark.parametrize("default", ["float32", "float64", "bfloat16"])
def test_a_quick_form_is_its_function(name, default):
    face = getattr(core, name)
    core.set_default_dtype(getattr(core, default))
    try:
        for called, args, kwargs in CALLS:
            if called == name:
                _same(outcome(face, args, kwargs), outcome(guarded(face.__wrapped__), args, kwargs))
    finally:
        core.set_default_dtype(core.float32)


@pytest.mark.parametrize("name", ["new_zeros", "new_ones"])
def test_a_quick_method_is_its_function(name):
    face = getattr(core.Tensor, name)
    for called, args, kwargs in METHODS:
        if called == name:
            _same(outcome(face, args, kwargs), outcome(guarded(face.__wrapped__), args, kwargs))


def test_empty_has_its_shape():
    for args in SHAPES[:6]:
        found, expected = outcome(core.empty, args, {}), outcome(core.empty.__wrapped__, args, {})
        assert found.shape == expected.shape if isinstance(expected, core.Tensor) else found == expected
    assert core.empty_like(X.long()).dtype is core.int64
    assert X.new_empty(3).shape == (3,)


@pytest.mark.parametrize("kind", ["philox", "torch"])
def test_draws_are_the_same_numbers(kind):
    for name in ("rand", "randn", "rand_like", "randn_like"):
        for args in SHAPES[:7] + [(5,), (70,), (1000,)] if not name.endswith("like") else [(x,) for x in LIKES]:
            face = getattr(core, name)
            core.manual_seed(3, kind=kind)
            found = outcome(face, args, {}), core.rand(3)
            core.manual_seed(3, kind=kind)
            expected = outcome(guarded(face.__wrapped__), args, {}), core.rand.__wrapped__(3)
            _same(found[0], expected[0])
            _same(found[1], expected[1])
    core.manual_seed(0)
    given = core.Generator().manual_seed(1)
    a = core.rand(3, generator=given)
    _same(a, core.rand.__wrapped__(3, generator=core.Generator().manual_seed(1)))
    core.manual_seed(0)


def test_nothing_is_shared():
    a = core.zeros(3)
    a += 1
    b = core.zeros(3)
    assert b.tolist() == [0, 0, 0]
    a._a[:] = 5
    del a
    assert core.ones(3).tolist() == [1, 1, 1]
    assert core.arange(3).tolist() == [0, 1, 2]
