"""``_foreach_*`` of core beside PyTorch's: every function, with numbers, tensors and lists, new and in place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import core
from core.base.foreach_names import EVERY, ONE, THREE, TWO

A = [np.array([[0.25, 0.5], [0.75, 0.125]], np.float32), np.array([0.5, 0.375, 0.625], np.float32)]
B = [a * 0.5 + 0.25 for a in A]
C = [a + 0.125 for a in A]


def _lists(library: Any) -> Any:
    return [[library.tensor(a.tolist()) for a in arrays] for arrays in (A, B, C)]


def _same(name: str, call: Any) -> None:
    found = []
    for library in (core, torch):
        a, b, c = _lists(library)
        result = call(getattr(library, f"_foreach_{name}"), a, b, c, library)
        if name.endswith("_"):
            assert all(x is y for x, y in zip(a, result, strict=True))
        found.append([t.tolist() for t in result])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize("name", [op + end for op in ONE for end in ("", "_")])
def test_of_one_list(name: str) -> None:
    _same(name, lambda f, a, b, c, t: f(a))


@pytest.mark.parametrize("name", [op + end for op in TWO for end in ("", "_")])
def test_of_two(name: str) -> None:
    _same(name, lambda f, a, b, c, t: f(a, b))
    _same(name, lambda f, a, b, c, t: f(a, 2.0))
    _same(name, lambda f, a, b, c, t: f(a, [2.0, 3.0]))
    if name in ("add", "mul", "div", "add_", "mul_", "div_"):
        _same(name, lambda f, a, b, c, t: f(a, t.tensor(2.0)))
    if name in ("add", "sub", "add_", "sub_"):
        _same(name, lambda f, a, b, c, t: f(a, b, alpha=3))


@pytest.mark.parametrize("name", [op + end for op in THREE for end in ("", "_")])
def test_of_three(name: str) -> None:
    _same(name, lambda f, a, b, c, t: f(a, b, c))
    _same(name, lambda f, a, b, c, t: f(a, b, c, value=0.5))
    _same(name, lambda f, a, b, c, t: f(a, b, c, [0.5, 2.0]))
    _same(name, lambda f, a, b, c, t: f(a, b, c, scalars=[0.5, 2.0]))
    _same(name, lambda f, a, b, c, t: f(a, b, c, t.tensor([0.5, 2.0])))


def test_the_others() -> None:
    for end in ("", "_"):
        _same(f"lerp{end}", lambda f, a, b, c, t: f(a, b, 0.25))
        _same(f"lerp{end}", lambda f, a, b, c, t: f(a, b, c))
        _same(f"lerp{end}", lambda f, a, b, c, t: f(a, b, weight=0.25))
    _same("clone", lambda f, a, b, c, t: f(a))
    _same("max", lambda f, a, b, c, t: f(a))
    _same("zero_", lambda f, a, b, c, t: f(a))
    _same("copy_", lambda f, a, b, c, t: f(a, b))
    _same("mm", lambda f, a, b, c, t: f(a[:1], b[:1]))
    for order in (1, 2, float("inf")):
        _same("norm", lambda f, a, b, c, t, order=order: f(a, order))
    _same("powsum", lambda f, a, b, c, t: f(a, 3))
    _same("norm", lambda f, a, b, c, t: f(a, dtype=t.float64))
    _same("pow", lambda f, a, b, c, t: f(2.0, a))


def test_every_one_of_pytorchs_is_here() -> None:
    assert sorted(EVERY) == sorted(n for n in dir(torch) if n.startswith("_foreach_"))


@pytest.mark.parametrize("call", [
    lambda t, a, b: t._foreach_add(a, b[:1]),
    lambda t, a, b: t._foreach_add(a, [1.0]),
    lambda t, a, b: t._foreach_add([], 1.0),
    lambda t, a, b: t._foreach_sqrt(3),
])  # fmt: skip
def test_what_is_refused(call: Any) -> None:
    for library in (core, torch):
        a, b, _ = _lists(library)
        with pytest.raises((RuntimeError, TypeError)):
            call(library, a, b)


def test_gradients_are_those_of_the_ops() -> None:
    grads = []
    for library in (core, torch):
        a, b, _ = _lists(library)
        for t in a:
            t.requires_grad_()
        sum(t.sum() for t in library._foreach_mul(a, b)).backward()  # type: ignore[attr-defined]
        grads.append([t.grad.tolist() for t in a])
    assert grads[0] == grads[1]
