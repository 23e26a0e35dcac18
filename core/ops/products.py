"""Products of tensors beside matmul: tensordot, kron, cross, and sums with products; traces and covariances."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..base.dtypes import int64, promote_types
from ..base.errors import text
from ..base.shape import normalize_dim
from ..declare.kinds import Dim
from ..declare.signature import Fast
from ..dispatch.declare import operation
from ..dispatch.out import into
from ..dispatch.publish import public
from ..tensors.tensor import Tensor
from .creation import ones_like, zeros
from .joining import broadcast_tensors, cat, stack
from .linalg import _scaled_sum, bmm, matmul, mv, outer
from .pieces import diagonal
from .solving import linalg
from .where import where

# -- contractions ------------------------------------------------------------------------------------------------------


def _dims(dims: Any, a: Tensor, b: Tensor) -> tuple[list[int], list[int]]:
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(text(f"tensordot expects dims >= 0, but got dims={dims}", op="tensordot"))
        if dims > min(a.ndim, b.ndim):
            raise RuntimeError(text("tensordot expects dims < ndim_a or ndim_b, but got "
                                    f"dims={dims}", op="tensordot"))  # fmt: skip
        return list(range(a.ndim - dims, a.ndim)), list(range(dims))
    left, right = ([d] if isinstance(d, int) else list(d) for d in dims)
    if len(left) != len(right):
        raise RuntimeError(text("both dimension lists should have same length", op="tensordot", came=f"{dims}"))
    return (
        [normalize_dim(d, a.ndim, "tensordot") for d in left],
        [normalize_dim(d, b.ndim, "tensordot") for d in right],
    )


@public(method=False)
def tensordot(a: Tensor, b: Tensor, dims: int | Sequence[Sequence[int]] = 2, out: Tensor | None = None) -> Tensor:
    """Return the sum of products over `dims`: so many last dimensions of a with as many first of b, or a list of each.

    >>> import core
    >>> core.tensordot(core.ones(2, 3), core.ones(3, 4), dims=1).shape
    core.Size([2, 4])
    """
    left, right = _dims(dims, a, b)
    for i, j in zip(left, right, strict=True):
        if a._a.shape[i] != b._a.shape[j] and 1 not in (a._a.shape[i], b._a.shape[j]):
            raise RuntimeError(
                text(f"contracted dimensions need to match, but first has size {a._a.shape[i]} in dim {i} and second "
                     f"has size {b._a.shape[j]} in dim {j}", op="tensordot")
            )  # fmt: skip
    for i, j in zip(left, right, strict=True):  # a size of 1 stretches
        if a._a.shape[i] != b._a.shape[j]:
            a, b = (a, b.sum(j, keepdim=True)) if a._a.shape[i] == 1 else (a.sum(i, keepdim=True), b)  # type: ignore[attr-defined]
    keep_a = [i for i in range(a.ndim) if i not in left]
    keep_b = [j for j in range(b.ndim) if j not in right]
    inner = math.prod(a._a.shape[i] for i in left)
    shape = (*(a._a.shape[i] for i in keep_a), *(b._a.shape[j] for j in keep_b))
    rows = a.permute(*keep_a, *left) if a.ndim else a
    columns = b.permute(*right, *keep_b) if b.ndim else b
    m = math.prod(a._a.shape[i] for i in keep_a)
    n = math.prod(b._a.shape[j] for j in keep_b)
    y = matmul(rows.reshape(m, inner), columns.reshape(inner, n)).reshape(shape)
    if out is not None:
        return into(out, y, "tensordot")
    return y


@public(home="matmul", fast=[Fast(body="inner_products(op.matmul, input, other)",
                                   types={"input": "real", "other": "real"})])  # fmt: skip
def inner(input: Tensor, other: Tensor) -> Tensor:
    """Return the sum of products over the last dimensions; a scalar multiplies.

    >>> import core
    >>> core.inner(core.tensor([1.0, 2.0]), core.tensor([3.0, 4.0]))
    tensor(11.)
    """
    if input.ndim == 0 or other.ndim == 0:
        return input * other
    if input._a.shape[-1] != other._a.shape[-1]:
        raise RuntimeError(text("inner() the last dimension must match on both input tensors but got shapes "
                                f"{list(input._a.shape)} and {list(other._a.shape)}", op="inner"))  # fmt: skip
    return tensordot(input, other, dims=([-1], [-1]))


@public()
def vdot(input: Tensor, other: Tensor) -> Tensor:
    """Return the inner product of two vectors, the first one conjugated.

    >>> import core
    >>> core.vdot(core.tensor([1j]), core.tensor([1j]))
    tensor(1.+0.j)
    """
    return input.conj().dot(other)  # type: ignore[attr-defined, no-any-return]


@linalg
def vecdot(x: Tensor, y: Tensor, *, dim: Dim = -1) -> Tensor:
    """Return the inner products of vectors along `dim`, the first ones conjugated; the other dimensions broadcast.

    >>> import core
    >>> core.linalg.vecdot(core.tensor([[1.0, 2.0]]), core.tensor([3.0, 4.0]))
    tensor([11.])
    """
    return (x.conj() * y).sum(dim)  # type: ignore[attr-defined, no-any-return]


@public(home="rearranged", state="quiet",
        fast=[Fast(body="kronecker(input, other)", types={"input": "real", "other": "real"})])  # fmt: skip
def kron(input: Tensor, other: Tensor) -> Tensor:
    """Return the Kronecker product: every element of `input` times the whole of `other`.

    >>> import core
    >>> core.kron(core.tensor([1.0, 2.0]), core.tensor([1.0, 1.0]))
    tensor([1., 1., 2., 2.])
    """
    n = max(input.ndim, other.ndim)
    a, b = (1,) * (n - input.ndim) + tuple(input._a.shape), (1,) * (n - other.ndim) + tuple(other._a.shape)
    left = input.reshape([s for d in a for s in (d, 1)])
    right = other.reshape([s for d in b for s in (1, d)])
    return (left * right).reshape([p * q for p, q in zip(a, b, strict=True)])


@public(home="index", state="quiet", fast=[Fast(body="diagonal_sum(input)", types={"input": "piece"})])
def trace(input: Tensor) -> Tensor:
    """Return the sum of a matrix's diagonal.

    >>> import core
    >>> core.trace(core.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor(5.)
    """
    if input.ndim != 2:
        raise RuntimeError(text(f"trace: expected a matrix, but got tensor with dim {input.ndim}", op="trace",
                                remedy="x.diagonal(0, -2, -1).sum(-1) for stacks"))  # fmt: skip
    return diagonal(input).sum()  # type: ignore[attr-defined, no-any-return]


# -- sums with products ------------------------------------------------------------------------------------------------


@public(inplace=True)
def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta * input + alpha * (mat @ vec).

    >>> import core
    >>> core.addmv(core.tensor([1.0]), core.ones(1, 2), core.ones(2))
    tensor([3.])
    """
    return _scaled_sum(input, mv, mat, vec, beta, alpha)


@public(inplace=True)
def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta * input + alpha * outer(vec1, vec2).

    >>> import core
    >>> core.addr(core.tensor([[1.0]]), core.tensor([2.0]), core.tensor([3.0]))
    tensor([[7.]])
    """
    if input.dtype.category < 2 and not isinstance(beta, int):
        raise RuntimeError(text("For integral input tensors, argument beta must not be a floating point number.",
                                op="addr", came=f"beta={beta}"))  # fmt: skip
    return _scaled_sum(input, outer, vec1, vec2, beta, alpha)


@public(inplace=True)
def addbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta * input + alpha * the sum of the products of the stacks.

    >>> import core
    >>> core.addbmm(core.tensor([[1.0]]), core.ones(2, 1, 3), core.ones(2, 3, 1))
    tensor([[7.]])
    """
    return _scaled_sum(input, lambda a, b: bmm(a, b).sum(0), batch1, batch2, beta, alpha)  # type: ignore[attr-defined]


# -- cross product -----------------------------------------------------------------------------------------------------


def _cross_forward(xp: Any, a: Any, b: Any, dim: int) -> Any:
    left, right = xp.roll(a, -1, axis=dim), xp.roll(b, -1, axis=dim)
    return xp.roll(a * right - left * b, -1, axis=dim)


_cross: Any = operation(
    "cross", _cross_forward, inputs="a b", params={"dim": -1}, label="linalg_cross",
    vjp=(lambda g, b, dim: _cross(b, g, dim=dim), lambda g, a, dim: _cross(g, a, dim=dim)),
    samples=lambda rng: [((rng.uniform(-1, 1, s), rng.uniform(-1, 1, s)), {"dim": d})
                         for s, d in (((2, 3), -1), ((3, 2), 0))],
    contiguous=True,
)  # fmt: skip


def _crossed(op: str, a: Tensor, b: Tensor, dim: int) -> Tensor:
    if a.ndim != b.ndim:
        raise RuntimeError(text(f"{op}: inputs must have the same number of dimensions.", op=op,
                                came=f"{tuple(a.shape)} and {tuple(b.shape)}"))  # fmt: skip
    given, dim = dim, normalize_dim(dim, a.ndim, op)
    if a._a.shape[dim] != 3 or b._a.shape[dim] != 3:
        raise RuntimeError(text(f"{op}: inputs dimension {given} must have length 3. Got {a._a.shape[dim]} and "
                                f"{b._a.shape[dim]}", op=op))  # fmt: skip
    a, b = broadcast_tensors(a, b)
    if a.dtype is not b.dtype:
        common = promote_types(a.dtype, b.dtype)
        a, b = a.to(common), b.to(common)
    return _cross(a, b, dim=dim)  # type: ignore[no-any-return]


def _linalg_cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """Return the vector products along `dim`, of size 3; the other dimensions broadcast.

    >>> import core
    >>> core.linalg.cross(core.tensor([1.0, 0.0, 0.0]), core.tensor([0.0, 1.0, 0.0]))
    tensor([0., 0., 1.])
    """
    return _crossed("linalg.cross", input, other, dim)


_linalg_cross.__name__ = _linalg_cross.__qualname__ = "cross"
linalg(_linalg_cross)


@public(fast=[Fast(op="cross(input, other, dim)", types={"input": "real", "other": "real"}, given=("dim",),
                   check=("PyArray_NDIM({input}) == PyArray_NDIM({other})", "PyArray_DIM({input}, {dim}) == 3",
                          "PyArray_CompareLists(PyArray_DIMS({input}), PyArray_DIMS({other}), PyArray_NDIM({input}))",
                          "same_kind(input, other)"))])  # fmt: skip
def cross(input: Tensor, other: Tensor, dim: Dim | None = None) -> Tensor:
    """Return the vector products along `dim`, without which it is the first dimension of size 3.

    >>> import core
    >>> core.cross(core.tensor([1.0, 0.0, 0.0]), core.tensor([0.0, 1.0, 0.0]))
    tensor([0., 0., 1.])
    """
    if dim is None:
        threes = [i for i, n in enumerate(input._a.shape) if n == 3]
        if not threes:
            raise RuntimeError(text("no dimension of size 3 in input", op="cross", came=f"{tuple(input.shape)}"))
        dim = threes[0]
    return _crossed("linalg.cross", input, other, dim)


def _linalg_diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Return the diagonals of matrices, a view; `torch.diagonal` takes the first two dimensions.

    >>> import core
    >>> core.linalg.diagonal(core.eye(2))
    tensor([1., 1.])
    """
    return diagonal(A, offset, dim1, dim2)


_linalg_diagonal.__name__ = _linalg_diagonal.__qualname__ = "diagonal"
linalg(_linalg_diagonal)

# -- distances ---------------------------------------------------------------------------------------------------------


@public(method=False)
def cdist(x1: Tensor, x2: Tensor, p: float = 2.0,
          compute_mode: str = "use_mm_for_euclid_dist_if_necessary") -> Tensor:  # fmt: skip
    """Return the distances between all rows of x1 and all rows of x2, in the p-norm.

    *Shapes*: ``(..., p, m), (..., r, m) -> (..., p, r)``.

    compute_mode : whether Euclidean distances come from one matrix product, ‖a‖² + ‖b‖² - 2 a·b, which is quick and
        loses figures of near points, or from each difference: ``"use_mm_for_euclid_dist"``,
        ``"donot_use_mm_for_euclid_dist"``; with ``"use_mm_for_euclid_dist_if_necessary"`` the product is taken where
        one of the two has more than 25 rows.

    >>> import core
    >>> core.cdist(core.tensor([[0.0, 0.0]]), core.tensor([[3.0, 4.0]]))
    tensor([[5.]])
    """
    if x1.ndim < 2 or x2.ndim < 2:
        which, t = ("X1", x1) if x1.ndim < 2 else ("X2", x2)
        raise RuntimeError(text(f"cdist only supports at least 2D tensors, {which} got: {t.ndim}D", op="cdist"))
    if x1._a.shape[-1] != x2._a.shape[-1]:
        raise RuntimeError(text("X1 and X2 must have the same number of columns. X1: "
                                f"{x1._a.shape[-1]} X2: {x2._a.shape[-1]}", op="cdist"))  # fmt: skip
    if p < 0:
        raise RuntimeError(text("cdist only supports non-negative p values", op="cdist", came=f"p={p}"))
    if compute_mode not in _BY_PRODUCT:
        raise ValueError(text(f"{compute_mode} is not a valid value for compute_mode", op="cdist",
                              needed=", ".join(_BY_PRODUCT)))  # fmt: skip
    least = _BY_PRODUCT[compute_mode]
    if p == 2 and least is not None and max(x1._a.shape[-2], x2._a.shape[-2]) > least:
        return _distances_by_product(x1, x2)
    return (x1.unsqueeze(-2) - x2.unsqueeze(-3)).norm(p, -1)  # type: ignore[attr-defined, no-any-return]


_BY_PRODUCT = {"use_mm_for_euclid_dist_if_necessary": 25, "use_mm_for_euclid_dist": -1,
               "donot_use_mm_for_euclid_dist": None}  # fmt: skip
"""Rows above which Euclidean distances come from a matrix product; None: never."""


def _distances_by_product(x1: Tensor, x2: Tensor) -> Tensor:
    """Return Euclidean distances by one matrix product; the gradient of a distance of 0 is 0."""
    squares = x1.square().sum(-1, True) + x2.square().sum(-1, True).mT - 2 * (x1 @ x2.mT)  # type: ignore[attr-defined]
    apart = squares > 0  # where rounding has not made them negative
    return where(apart, where(apart, squares, 1.0).sqrt(), 0.0)


@public()
def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """Return the p-norm of the difference.

    >>> import core
    >>> core.dist(core.tensor([0.0, 0.0]), core.tensor([3.0, 4.0]))
    tensor(5.)
    """
    d = input - other
    return (d.abs() if d.is_complex() else d).norm(p)  # type: ignore[attr-defined, no-any-return]


@public(inplace=True)
def renorm(input: Tensor, p: float, dim: Dim, maxnorm: float) -> Tensor:
    """Every slice along `dim` whose p-norm exceeds `maxnorm` scaled down to it.

    >>> import core
    >>> core.renorm(core.tensor([[3.0, 4.0], [0.3, 0.4]]), 2, 0, 1.0)
    tensor([[0.6000, 0.8000],
            [0.3000, 0.4000]])
    """
    if p <= 0:
        raise RuntimeError(text("renorm: non-positive-norm not supported", op="renorm", came=f"p={p}"))
    if maxnorm < 0:
        raise RuntimeError(text(f"renorm: expected maxnorm to be >= 0 but got {maxnorm}", op="renorm"))
    if input.ndim < 2:
        raise RuntimeError(text(f"renorm: input needs at least 2 dimensions, got {input.ndim} dimensions", op="renorm"))
    dim = normalize_dim(dim, input.ndim, "renorm")
    others = tuple(d for d in range(input.ndim) if d != dim)
    size = (input.abs() if input.is_complex() else input).norm(p, others, keepdim=True)  # type: ignore[attr-defined]
    return input.contiguous() * where(size > maxnorm, maxnorm / (size + 1e-7), 1.0)  # type: ignore[no-any-return]


# -- joined along the diagonal; covariances ----------------------------------------------------------------------------


@public(method=False, home="rearranged", state="quiet",
        fast=[Fast(body="blocks_along(tensors)", raw=("tensors",))])  # fmt: skip
def block_diag(*tensors: Tensor) -> Tensor:
    """Return the matrices along the diagonal of a larger one, zeros elsewhere; vectors are rows.

    >>> import core
    >>> core.block_diag(core.ones(1, 1), core.tensor([2.0, 3.0]))
    tensor([[1., 0., 0.],
            [0., 2., 3.]])
    """
    blocks = []
    for i, t in enumerate(tensors):
        if t.ndim > 2:
            raise RuntimeError(text(f"torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {i} has "
                                    f"{t.ndim} dimensions", op="block_diag"))  # fmt: skip
        blocks.append(t if t.ndim == 2 else t.reshape(1, -1))
    width, rows, at = sum(b._a.shape[1] for b in blocks), [], 0
    for b in blocks:
        m, n = b._a.shape
        before, after = (zeros(m, k, dtype=b.dtype, device=b.device) for k in (at, width - at - n))
        rows.append(cat([before, b, after], 1))
        at += n
    return cat(rows, 0)


def _checked_weights(name: str, weights: Tensor, category: int, kind: str, observations: int) -> None:
    """RuntimeError for weights of observations that are no weights."""
    came = f"{weights.dtype} of shape {tuple(weights._a.shape)}"
    phrase = ""
    if weights.ndim > 1:
        phrase = f"expected {name} to have one or fewer dimensions but got {name} with {weights.ndim} dimensions"
    elif weights.dtype.category != category:
        phrase = f"expected {name} to have {kind} dtype but got {name} with {weights.dtype.scalar_type} dtype"
    elif weights.numel() != observations:
        phrase = (
            f"expected {name} to have the same numel as there are observations in the input but got "
            f"{weights.numel()} != {observations}"
        )
    elif observations and bool((weights._a < 0).any()):
        phrase = f"{name} cannot be negative"
    if phrase:
        raise RuntimeError(
            text(f"cov(): {phrase}", op="cov", came=came, needed=f"{observations} weights, none below 0")
        )


@public()
def cov(input: Tensor, *, correction: int = 1, fweights: Tensor | None = None,
        aweights: Tensor | None = None) -> Tensor:  # fmt: skip
    """Return the covariances of the variables, one a row, over the observations, one a column.

    `fweights` counts how often each observation was made; `aweights` weighs it. *Raises*: RuntimeError for weights of
    another dtype or number, or negative ones.

    >>> import core
    >>> core.cov(core.tensor([[0.0, 2.0], [0.0, 4.0]]))
    tensor([[2., 4.],
            [4., 8.]])
    """
    if input.ndim > 2:
        raise RuntimeError(text("cov(): expected input to have two or fewer dimensions but got an input with "
                                f"{input.ndim} dimensions", op="cov"))  # fmt: skip
    x = input if input.ndim == 2 else input.reshape(1, -1)
    if x.dtype.category < 2:
        x = x.float()
    for name, given, category, kind in (
        ("fweights", fweights, 1, "integral"),
        ("aweights", aweights, 2, "floating point"),
    ):
        if given is not None:
            _checked_weights(name, given, category, kind, x._a.shape[1])
    weight = fweights
    if aweights is not None:
        weight = aweights if weight is None else weight * aweights
    if weight is None:
        total: Any = x._a.shape[1]
        centred = x - x.mean(1, keepdim=True)  # type: ignore[attr-defined]
        products = matmul(centred, centred.mH)
        by: Any = total - correction
    else:
        total = weight.sum()  # type: ignore[attr-defined]
        centred = x - (x * weight).sum(1, keepdim=True) / total
        products = matmul(centred, (centred * weight).mH)
        if aweights is not None and correction:
            by = total - correction * (weight * aweights).sum() / total  # type: ignore[attr-defined]
        else:
            by = total - correction
    y = products / (max(by, 0) if not isinstance(by, Tensor) else by.clamp(min=0))  # type: ignore[attr-defined]
    return y if x._a.shape[0] != 1 else y.reshape(())  # one variable has one number, however it was given


@public()
def corrcoef(input: Tensor) -> Tensor:
    """Return the correlations of the variables, one a row: their covariances over their standard deviations.

    >>> import core
    >>> core.corrcoef(core.tensor([[0.0, 1.0], [0.0, -2.0]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    c = cov(input)
    if c.ndim == 0:
        return c / c
    deviation = (c.diagonal().real if c.is_complex() else c.diagonal()).sqrt()  # type: ignore[attr-defined]
    c = c / deviation.unsqueeze(-1) / deviation.unsqueeze(0)
    return c if c.is_complex() else c.clamp(-1, 1)  # type: ignore[attr-defined, no-any-return]


def _powers(x: Tensor, n: int, increasing: bool) -> Tensor:
    if x.dtype.category < 2:
        x = x.to(int64)  # products of whole numbers are of 64 bits
    if n == 0:
        return x.unsqueeze(-1).narrow(-1, 0, 0)
    columns = [ones_like(x), *(x**k for k in range(1, n))]
    return stack(columns if increasing else columns[::-1], -1)


def _linalg_vander(x: Tensor, *, N: int | None = None) -> Tensor:
    """Return the matrices of powers ``x[i] ** j``, j rising from 0.

    >>> import core
    >>> core.linalg.vander(core.tensor([2.0, 3.0]), N=3)
    tensor([[1., 2., 4.],
            [1., 3., 9.]])
    """
    if x.dtype.category == 0:
        raise RuntimeError(text("linalg.vander supports floating point, complex, and integer tensors, but got Bool",
                                op="linalg.vander", remedy="x.long()"))  # fmt: skip
    n = (x._a.shape[-1] if x.ndim else 0) if N is None else N
    x = x if x.ndim else x.reshape(1)  # a number is a row of one
    if n <= 1:
        raise RuntimeError(text("N must be greater than 1.", op="linalg.vander", came=f"{n}"))
    return _powers(x, n, True)


_linalg_vander.__name__ = _linalg_vander.__qualname__ = "vander"
linalg(_linalg_vander)


@public(method=False)
def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """Return the matrix of powers of a vector, falling from left to right, or rising.

    >>> import core
    >>> core.vander(core.tensor([2.0, 3.0]))
    tensor([[2., 1.],
            [3., 1.]])
    """
    if N is not None and N < 0:
        raise RuntimeError(text("N must be non-negative.", op="vander", came=f"{N}"))
    return _powers(x, x._a.shape[-1] if N is None else N, increasing)
