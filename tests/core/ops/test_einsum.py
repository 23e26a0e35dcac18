from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core
from core.autograd import gradcheck, gradgradcheck

CASES = [
    ("ij,jk->ik", (2, 3), (3, 4)),
    ("ij,jk", (2, 3), (3, 4)),
    ("ij->", (2, 3)),
    ("ij->ji", (2, 3)),
    ("i,j->ij", (2,), (3,)),
    ("...ij,...jk->...ik", (2, 1, 2, 3), (3, 3, 2)),
    ("ii->i", (3, 3)),
    ("ii", (3, 3)),
    ("iij,j->i", (2, 2, 3), (3,)),
    ("bi,bj,bk->ijk", (2, 2), (2, 3), (2, 2)),
    ("bij,bij->bi", (2, 3, 4), (2, 3, 1)),
    ("b...,b->...", (2, 3, 4), (2,)),
]


@pytest.mark.parametrize("case", CASES, ids=[c[0] for c in CASES])
def test_as_numpy_with_gradients(case: Any) -> None:
    equation, *shapes = case
    rng = np.random.default_rng(0)
    tensors = tuple(core.tensor(rng.uniform(-1, 1, s), requires_grad=True) for s in shapes)
    want = np.einsum(equation, *[t.detach().numpy() for t in tensors])
    np.testing.assert_allclose(core.einsum(equation, *tensors).detach().numpy(), want)
    np.testing.assert_allclose(core.einsum(equation, tensors).detach().numpy(), want)
    gradcheck(lambda *a: core.einsum(equation, *a), tensors)
    gradgradcheck(lambda *a: core.einsum(equation, *a), tensors)


@pytest.mark.parametrize(
    ("equation", "shapes", "phrase"),
    [
        (
            "ij,jk->ik",
            [(2, 3), (2, 3)],
            "subscript j has size 2 for operand 1 which does not broadcast with previously seen size 3",
        ),
        ("ij->k", [(2, 3)], "output subscript k does not appear"),
        ("ij->ii", [(2, 3)], "output subscript i appears more than once"),
        ("ijk->i", [(2, 3)], r"number of subscripts in the equation \(3\) does not match"),
        ("ij,j", [(2, 3)], "fewer operands were provided"),
        ("i", [(2,), (2,)], "more operands were provided"),
        ("i1->i", [(2, 3)], "invalid subscript"),
    ],
)
def test_errors(equation: str, shapes: Any, phrase: str) -> None:
    with pytest.raises(RuntimeError, match=phrase):
        core.einsum(equation, *[core.ones(*s) for s in shapes])


def test_dtypes_must_agree() -> None:
    with pytest.raises(RuntimeError, match="expected scalar type Float but found Double"):
        core.einsum("i,i", core.ones(2), core.ones(2).double())
