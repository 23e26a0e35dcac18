"""The fronts of statistics, products, pooling and losses: what their functions give, record and refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core
from core import native
from core.dispatch.type_errors import guarded
from core.nn import functional as F

from .outcomes import outcome

pytestmark = pytest.mark.skipif(native.module is None, reason="fronts are in the extension")


def t(*shape: int, dtype: str = "float32") -> Any:
    return core.from_numpy(np.random.default_rng(2).standard_normal(shape).astype(dtype))


X, TARGET = t(4, 3), core.tensor([0, 2, 1, 2])
IMAGE, MANY, INFINITE = t(2, 3, 6, 7), t(3, 40), core.tensor([[1.0, float("inf")], [-float("inf"), -float("inf")]])
HOLES = core.tensor([[0.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
CALLS = [
    *(
        (n, (X, *a), k)
        for n in ("var", "std")
        for a, k in [
            ((), {}),
            ((1,), {}),
            ((-2, False), {}),
            (((0, 1),), {"keepdim": True}),
            (([1],), {"correction": 0}),
            ((0, True, True), {}),
            ((True,), {}),
            ((None, None, False), {"correction": 2.5}),
            (((0, 0),), {}),
            ((5,), {}),
            ((), {"correction": None}),
            ((0, None, False, 1), {}),
            ((), {"axis": 0}),
            (("0",), {}),
        ]
    ),
    ("var", (IMAGE, (0, 2, 3)), {}),
    ("var", (IMAGE, (1, 2)), {}),
    ("var", (TARGET,), {}),
    ("std", (IMAGE.permute(1, 0, 2, 3), 0), {}),
    *(
        ("norm", (X, *a), k)
        for a, k in [
            ((), {}),
            ((1,), {}),
            ((2, 1), {}),
            (("fro", 0, True), {}),
            ((3,), {}),
            ((float("inf"),), {}),
            ((0,), {}),
            (("nuc",), {}),
            ((None, (0, 1)), {}),
            ((2, 5), {}),
            ((), {"dtype": core.float64}),
            ((), {"p": 1.0, "dim": 1}),
        ]
    ),
    *(
        (n, (X, *a), k)
        for n in ("logsumexp", "prod", "amax", "amin")
        for a, k in [
            ((), {}),
            ((1,), {}),
            ((-1, True), {}),
            (((0, 1),), {}),
            ((None,), {}),
            ((2,), {}),
            ((), {"dim": 0, "keepdim": True}),
        ]
    ),
    ("logsumexp", (MANY, 1), {}),
    ("logsumexp", (MANY, 0), {}),
    ("logsumexp", (INFINITE, 1), {}),
    ("logsumexp", (INFINITE, 0), {}),
    ("logsumexp", (INFINITE.expand(5, 2, 2), 2), {}),
    ("prod", (HOLES, 1), {}),
    ("prod", (TARGET,), {}),
    ("prod", (t(0, 3),), {}),
    ("nll_loss", (X, TARGET), {}),
    ("nll_loss", (X, TARGET), {"reduction": "sum"}),
    ("nll_loss", (X, TARGET), {"reduction": "none"}),
    ("nll_loss", (X, TARGET), {"ignore_index": 2}),
    ("nll_loss", (X, TARGET, t(3).abs()), {}),
    ("nll_loss", (X, TARGET + 1), {}),
    ("nll_loss", (X, TARGET[:3]), {}),
    ("nll_loss", (X, TARGET - 1), {"reduction": "sum"}),
    ("nll_loss", (IMAGE[0], TARGET), {}),
    *(
        (n, (IMAGE, *a), k)
        for n in ("avg_pool2d", "max_pool2d")
        for a, k in [
            ((2,), {}),
            (((3, 2), 1), {}),
            ((3, (2, 1), 1), {}),
            ((2,), {"ceil_mode": True}),
            ((9,), {}),
            ((2, 0), {}),
            ((2, None, 2), {}),
            ((0,), {}),
            ((True,), {}),
            (([2, 2],), {}),
            ((2.5,), {}),
            ((), {}),
        ]
    ),
    ("avg_pool2d", (IMAGE, 3, 2, 1, False, False), {}),
    ("avg_pool2d", (IMAGE, 2), {"divisor_override": 3}),
    ("avg_pool2d", (IMAGE.permute(0, 1, 3, 2), 2), {}),
    ("avg_pool1d", (IMAGE[0], 3, 2, 1), {}),
    ("avg_pool2d", (X, 2), {}),
    ("max_pool2d", (IMAGE, 3, 1, 1, 2), {}),
    ("max_pool1d", (IMAGE[0], 2), {}),
    ("max_pool2d", (TARGET, 2), {}),
    *(
        ("pad", (X, *a), k)
        for a, k in [
            (((1, 2),), {}),
            (([1, 0, 0, 2], "constant", 3), {}),
            (((-1, 1),), {}),
            (((1,),), {}),
            (((1, 1) * 3,), {}),
            ((1,), {}),
            (((1, 1),), {"value": 0.5}),
            (((0, 1), "circular"), {}),
            (((-9, 1),), {}),
            (((1.0, 1),), {}),
            (((), "constant"), {}),
        ]
    ),
    ("mm", (X, t(3, 2)), {}),
    ("mm", (X, t(3)), {}),
    ("mm", (X, t(2, 2)), {}),
    ("mv", (X, t(3)), {}),
    ("mv", (X, t(4)), {}),
    ("dot", (t(5), t(5)), {}),
    ("dot", (t(5), t(4)), {}),
    ("dot", (t(0), t(0)), {}),
    ("matmul", (t(4), X), {}),
    ("matmul", (t(3), t(3)), {}),
    ("matmul", (X.t(), t(4)), {}),
    ("matmul", (t(8)[::2], X), {}),
    ("matmul", (t(2, 4, 3), t(3)), {}),
    ("bmm", (t(2, 4, 3), t(2, 3, 2)), {}),
    ("bmm", (t(1, 4, 3), t(2, 3, 2)), {}),
    *(
        ("addmm", (t(*s), X, t(3, 2)), k)
        for s in [(2,), (), (4, 1), (4, 2), (3,), (1, 4, 2)]
        for k in [{}, {"beta": 2}]
    ),
    ("addmm", (t(2), X, t(2, 2)), {}),
    ("addmm", (t(2), X, t(3, 2)), {"alpha": 1.0, "beta": 1}),
    ("addmm", (t(2), X, t(3, 2), 1), {}),
    ("addmm", (t(2, dtype="float64"), X, t(3, 2)), {}),
    *(
        ("einsum", (e, *a), {})
        for e, a in [
            ("ij,jk->ik", (X, t(3, 2))),
            ("ij,jk->ki", (X, t(3, 2))),
            ("ij,kj->ik", (X, t(2, 3))),
            ("ij,jk", (X, t(3, 2))),
            ("bij,bjk->bik", (t(2, 4, 3), t(2, 3, 2))),
            ("bij,bjk->ikb", (t(2, 4, 3), t(2, 3, 2))),
            ("ij,j->i", (X, t(3))),
            ("i,j->ij", (t(4), t(3))),
            ("i,i->", (t(4), t(4))),
            ("ij,ij->", (X, X)),
            ("ij,ij->ij", (X, X)),
            ("ij->ji", (X,)),
            ("ij,jk->ik", (X, t(1, 2))),
            ("ij,jk->ik", (X, t(2, 2))),
            ("ii,ij->j", (t(3, 3), t(3, 2))),
            ("ij,jk->il", (X, t(3, 2))),
            ("i j,jk->ik", (X, t(3, 2))),
            ("ij,jk->ii", (X, t(3, 2))),
            ("ij,jk->ik", (X, t(3, 2, dtype="float64"))),
            ("...j,jk->...k", (X, t(3, 2))),
            ("ij,jk->i", (X, t(3, 2))),
            ("ij,jk,kl->il", (X, t(3, 2), t(2, 2))),
            ("", (X,)),
        ]
    ),
]


@pytest.mark.parametrize("k", range(len(CALLS)))
def test_a_front_is_its_function(k: int) -> None:
    name, args, kwargs = CALLS[k]
    face = getattr(core, name, None) or getattr(F, name)
    found, expected = outcome(face, args, kwargs), outcome(guarded(face.__wrapped__), args, kwargs)
    if isinstance(expected, tuple):
        assert found == expected
        return
    assert found.dtype is expected.dtype
    assert found.shape == expected.shape
    assert found._a.tobytes() == expected._a.tobytes()
    assert found._is_view() == expected._is_view()


@pytest.mark.parametrize("k", range(len(CALLS)))
def test_a_front_records_what_its_function_records(k: int) -> None:
    """The same chain of nodes, and the same gradients."""
    name, args, kwargs = CALLS[k]
    face = getattr(core, name, None) or getattr(F, name)
    chains, gradients = [], []
    for call in (face, face.__wrapped__):
        given = [
            a.detach().clone().requires_grad_() if isinstance(a, core.Tensor) and a.is_floating_point() else a
            for a in args
        ]
        y = outcome(call, given, kwargs)
        if not isinstance(y, core.Tensor) or not y.requires_grad:
            return
        chain, node = [], y.grad_fn
        while node is not None and hasattr(node, "op"):
            chain.append((node.name(), y.is_leaf, y._is_view()))
            node = node.next_functions[0][0] if node.next_functions else None
        y.backward(core.ones_like(y))
        chains.append(chain)
        gradients.append([a.grad for a in given if isinstance(a, core.Tensor)])
    assert chains[0] == chains[1]
    for found, expected in zip(*gradients, strict=True):
        assert (found is None) == (expected is None)
        if found is not None:
            np.testing.assert_allclose(found._a, expected._a, rtol=1e-5, atol=1e-6)
