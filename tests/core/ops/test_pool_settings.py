"""Pooling of every dimension with every setting against one window at a time, and what is refused."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import core

F = core.nn.functional


def count(n: int, k: int, s: int, p: int, d: int, ceil: bool) -> int:
    """How many windows begin inside the image or its left border and, unless `ceil`, end inside its right one."""
    starts = range(-p, n + p, s)
    return sum(1 for a in starts if (a + d * (k - 1) < n + p) or (ceil and a - s + d * (k - 1) < n + p - 1 and a < n))


def each_window(x: Any, n: int, k: int, s: int, p: int, d: int, ceil: bool, take: Any) -> Any:
    sizes = x.shape[-n:]
    out = [count(m, k, s, p, d, ceil) for m in sizes]
    y = np.zeros((*x.shape[:-n], *out))
    for at in np.ndindex(*out):
        starts = [i * s - p for i in at]
        spots = [[a + d * j for j in range(k)] for a in starts]
        inside = [[i for i in line if 0 <= i < m] for line, m in zip(spots, sizes, strict=True)]
        padded = math.prod(sum(1 for i in line if i < m + p) for line, m in zip(spots, sizes, strict=True))
        part = x[(..., *np.ix_(*inside))].reshape(*x.shape[:-n], -1)
        y[(..., *at)] = take(part, padded)
    return y


SETTINGS = [
    (n, k, s, p, d, ceil)
    for n in (1, 2, 3)
    for k, s, p, d in ((2, 2, 0, 1), (3, 2, 1, 1), (3, 1, 0, 2), (2, 3, 1, 1), (1, 2, 0, 1), (3, 2, 1, 2))
    for ceil in (False, True)
]


@pytest.mark.parametrize(("n", "k", "s", "p", "d", "ceil"), SETTINGS)
@pytest.mark.parametrize("batched", [False, True])
def test_the_greatest(n: int, k: int, s: int, p: int, d: int, ceil: bool, batched: bool) -> None:
    shape = ((2,) if batched else ()) + (2, *(7, 6, 5)[:n])
    x = np.random.default_rng(0).permutation(math.prod(shape)).reshape(shape) - 40.0
    t = core.tensor(x)
    name = f"max_pool{n}d"
    want = each_window(x, n, k, s, p, d, ceil, lambda part, _: part.max(-1))
    for kernel in (k, (k,) * n):
        np.testing.assert_array_equal(getattr(F, name)(t, kernel, s, p, d, ceil).numpy(), want)
    for found in (getattr(F, name)(t, k, s, p, d, ceil, return_indices=True),
                  getattr(F, name + "_with_indices")(t, k, s, p, d, ceil)):  # fmt: skip
        np.testing.assert_array_equal(found[0].numpy(), want)
        flat = t.flatten(-n).gather(-1, found[1].flatten(-n))
        np.testing.assert_array_equal(flat.numpy().reshape(want.shape), want)


@pytest.mark.parametrize(("n", "k", "s", "p", "d", "ceil"), [row for row in SETTINGS if row[4] == 1])
@pytest.mark.parametrize("include", [False, True])
def test_the_mean(n: int, k: int, s: int, p: int, d: int, ceil: bool, include: bool) -> None:
    x = np.random.default_rng(0).normal(size=(2, 2, *(7, 6, 5)[:n]))
    t, f = core.tensor(x), getattr(F, f"avg_pool{n}d")
    want = each_window(x, n, k, s, p, 1, ceil, lambda part, all_: part.sum(-1) / (all_ if include else part.shape[-1]))
    np.testing.assert_allclose(f(t, k, s, p, ceil, include).numpy(), want, atol=1e-14)
    np.testing.assert_allclose(f(t[0], (k,) * n, s, p, ceil, include).numpy(), want[0], atol=1e-14)
    if n > 1:
        by = each_window(x, n, k, s, p, 1, ceil, lambda part, _: part.sum(-1) / 5)
        np.testing.assert_allclose(f(t, k, s, p, ceil, include, 5).numpy(), by, atol=1e-14)
    core.autograd.gradcheck(lambda a: f(a, k, s, p, ceil, include), core.tensor(x[:1, :1], requires_grad=True))


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("power", [1.0, 2.0, 3.0])
def test_the_power_mean(n: int, power: float) -> None:
    x = np.random.default_rng(0).uniform(0.1, 2, (2, 2, *(5, 6, 4)[:n]))
    for ceil in (False, True):
        want = each_window(x, n, 2, 2, 0, 1, ceil, lambda p, _: ((p**power).mean(-1) * 2**n) ** (1 / power))
        f = getattr(F, f"lp_pool{n}d")
        np.testing.assert_allclose(f(core.tensor(x), power, 2, ceil_mode=ceil).numpy(), want, rtol=1e-12)
        np.testing.assert_allclose(f(core.tensor(x), power, (2,) * n, 2, ceil).numpy(), want, rtol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("out", [1, 2, 3, 5, 8, (None, 2, 3), (1, 3, 6)])
@pytest.mark.parametrize("batched", [False, True])
def test_adaptive(n: int, out: Any, batched: bool) -> None:
    if isinstance(out, tuple):
        out = out[:n] if n > 1 else out[1]
    sizes = (5, 6, 4)[:n]
    x = np.random.default_rng(1).normal(size=(2, 3, *sizes) if batched else (3, *sizes))
    many = [m if o is None else o for o, m in zip(out if isinstance(out, tuple) else (out,) * n, sizes, strict=True)]
    pieces = [[(i * m // o, -(-(i + 1) * m // o)) for i in range(o)] for o, m in zip(many, sizes, strict=True)]
    t = core.tensor(x)
    for kind, take in (("avg", np.mean), ("max", np.max)):
        want = np.zeros((*x.shape[:-n], *many))
        for at in np.ndindex(*many):
            part = tuple(slice(*pieces[d][i]) for d, i in enumerate(at))
            want[(..., *at)] = take(x[(..., *part)], axis=tuple(range(-n, 0)))
        f = getattr(F, f"adaptive_{kind}_pool{n}d")
        np.testing.assert_allclose(f(t, out).numpy(), want, atol=1e-14)
        core.autograd.gradcheck(lambda a, f=f: f(a, out), core.tensor(x[:1] if batched else x, requires_grad=True))
    found = getattr(F, f"adaptive_max_pool{n}d")(t, out, return_indices=True)
    np.testing.assert_array_equal(t.flatten(-n).gather(-1, found[1].flatten(-n)).numpy().reshape(found[0].shape), want)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_unpooling(n: int) -> None:
    f, pool, places = getattr(F, f"max_unpool{n}d"), getattr(F, f"max_pool{n}d"), (7, 6, 5)[:n]
    x = core.tensor(np.random.default_rng(0).permutation(2 * math.prod(places)).reshape(1, 2, *places) + 1.0)
    for k, s, p in ((2, 2, 0), (3, 2, 1), (2, 3, 0)):
        y, at = pool(x, k, s, p, return_indices=True)
        usual = tuple((m - 1) * s + k - 2 * p for m in y.shape[2:])
        reach = [u for u, m in zip(usual, places, strict=True) if u < m]
        if not reach:
            assert f(y, at, k, s, p).shape[2:] == usual
        back = f(y, at, k, s, p, output_size=places)
        want = np.zeros(x.shape)
        np.put_along_axis(want.reshape(1, 2, -1), at.flatten(2).numpy(), y.flatten(2).numpy(), -1)
        np.testing.assert_array_equal(back.numpy(), want)
        np.testing.assert_array_equal(f(y[0], at[0], k, s, p, output_size=places).numpy(), want[0])
        low, high = usual[0] - s, usual[0] + s
        for wrong in (low, high):
            with pytest.raises(ValueError, match=f"must be between {low} and {high}"):
                f(y, at, k, s, p, output_size=(wrong, *usual[1:]))
    y, at = pool(x, 2, return_indices=True)
    with pytest.raises(RuntimeError, match="Expected shape of indices to be"):
        f(y, at[..., :-1], 2)
    for wrong in (math.prod(2 * m for m in y.shape[2:]), -1):
        with pytest.raises(RuntimeError, match="Found an invalid max index"):
            f(y, at * 0 + wrong, 2)


X = {n: core.ones(1, 1, *(4,) * n) for n in (1, 2, 3)}


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("kind", ["avg", "max"])
def test_what_is_refused(n: int, kind: str) -> None:
    f, x = getattr(F, f"{kind}_pool{n}d"), X[n]
    words = {1: "one", 2: "two", 3: "three"}[n]
    wrong: list[tuple[Any, str]] = [
        (lambda: f(x, (2,) * (n + 1)), f"kernel_size must .*tuple of {words} ints"),
        (lambda: f(x, 2, (1,) * (n + 1)), f"stride must .*tuple of {words} ints"),
        (lambda: f(x, 2, 1, (1,) * (n + 1)), f"padding must .*tuple of {words} ints"),
        (lambda: f(x, 0), "kernel size should be greater than zero"),
        (lambda: f(x, 2, 0), "stride should not be zero"),
        (lambda: f(x, 2, -1), "stride must be positive"),
        (lambda: f(x, 2, 1, -1), "pad must be non-negative"),
        (lambda: f(x, 5), "Output size is too small|Invalid computed output size: 0"),
        (lambda: f(x[..., :0], 1), "optional 0 dim batch size|too small|Invalid computed"),
        (lambda: f(core.ones(*(2,) * (n + 3)), 1), "Expected|expected"),
        (lambda: f(core.ones(*(2,) * n), 1), "Expected|expected"),
    ]
    half = "at most half of kernel size, but got padding=2" if (kind, n) == ("max", 1) else "pad=2, kernel_size=3"
    wrong.append((lambda: f(x, 3, 1, 2), half))
    if kind == "max":
        wrong.append((lambda: f(x, 2, 1, 0, 0), "dilation should be greater than zero"))
        wrong.append((lambda: f(x, 2, 1, 0, (1,) * (n + 1)), "dilation must"))
    elif n > 1:
        wrong.append((lambda: f(x, 2, divisor_override=0), "divisor must be not zero"))
    for call, said in wrong:
        with pytest.raises(RuntimeError, match=said):
            call()
    with pytest.raises(TypeError, match="must be Tensor, not list"):
        f([1.0], 1)
    if kind == "max":
        with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
            f(x > 0, 2)
    for shape in itertools.chain([(0, 1, *(4,) * n)], [(1, *(4,) * n)]):
        assert f(core.ones(shape), 2).shape == (*shape[:-n], *(2,) * n)


def test_a_padding_of_half_the_kernel_and_an_empty_stride() -> None:
    for f, x in ((F.max_pool1d, X[1]), (F.max_pool2d, X[2]), (F.avg_pool2d, X[2])):
        assert f(x, 2, 2, 1).shape == (1, 1, *(3,) * (x.ndim - 2))
        assert f(x, 2, []).shape == f(x, 2).shape
    assert F.max_pool2d(X[2], 2, 1, 1, dilation=2).shape == (1, 1, 4, 4)  # of the kernel as it is spread


def test_means_of_integers_are_cut() -> None:
    assert F.avg_pool1d(core.tensor([[1, 2, -1, -2]]), 2).tolist() == [[1, -1]]
