"""Reductions: sum, mean, and what else makes one number of many."""

from __future__ import annotations

import math
from typing import Any

from ..base import dtypes
from ..base.dtypes import dtype as Dtype
from ..base.errors import text
from ..base.shape import normalize_dim, normalize_dims
from ..declare.kinds import Dim, Dims
from ..declare.signature import Fast
from ..dispatch.declare import operation
from ..dispatch.publish import public
from ..tensors.tensor import Tensor
from .creation import zeros_like
from .precision import rounded, wide
from .where import where


def kept(shape: tuple[int, ...], dim: tuple[int, ...]) -> tuple[int, ...]:
    """`shape` with 1 in the places of `dim`."""
    return tuple(1 if i in dim else n for i, n in enumerate(shape))


def count(shape: tuple[int, ...], dim: tuple[int, ...]) -> int:
    """Return how many elements of `shape` a reduction over `dim` takes together."""
    n = 1
    for i in dim:
        n *= shape[i]
    return n


def need_tensor(input: Any, op: str) -> None:
    """TypeError for what is no tensor."""
    if not isinstance(input, Tensor):
        raise TypeError(f"{op}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")


def need_bool(keepdim: Any, op: str, place: int = 3) -> None:
    """TypeError for a `keepdim` that is no bool: it is most often a second dim."""
    if keepdim is not True and keepdim is not False:
        raise TypeError(f"{op}(): argument 'keepdim' (position {place}) must be bool, not {type(keepdim).__name__}\n"
                        "  remedy: give several dims as a tuple, dim=(0, 1)")  # fmt: skip


def reduction_samples(rng: Any) -> list[Any]:
    """Argument sets of a reduction over `dim` with `keepdim`."""
    x = rng.uniform(-2, 2, (2, 3, 4))
    return [
        ((x,), {"dim": d, "keepdim": k}) for d, k in [((0, 1, 2), False), ((1,), False), ((2,), True), ((0, 2), True)]
    ]


# -- sums --------------------------------------------------------------------------------------------------------------


def _sum_vjp(g: Tensor, x_shape: tuple[int, ...], dim: tuple[int, ...], keepdim: bool) -> Tensor:
    return g.reshape(kept(x_shape, dim)).expand(x_shape)


def _mean_vjp(g: Tensor, x_shape: tuple[int, ...], dim: tuple[int, ...], keepdim: bool) -> Tensor:
    n = count(x_shape, dim)  # before the expansion, where there are fewer elements to divide
    return (g * (1 / n if n else float("nan"))).reshape(kept(x_shape, dim)).expand(x_shape)


def _sum_forward(xp: Any, x: Any, dim: tuple[int, ...], keepdim: bool) -> Any:
    w = wide(x)
    return rounded(w.sum(axis=dim, keepdims=keepdim, dtype=w.dtype), x.dtype)


def _mean_forward(xp: Any, x: Any, dim: tuple[int, ...], keepdim: bool) -> Any:
    w = wide(x)
    total = w.sum(axis=dim, keepdims=keepdim, dtype=w.dtype)
    return rounded(total / w.dtype.type(count(x.shape, dim)), x.dtype)  # of no elements: 0 / 0, which is NaN


_sum = operation("sum", _sum_forward, params={"dim": (), "keepdim": False}, vjp=_sum_vjp, samples=reduction_samples,
                 contiguous=True)  # fmt: skip
_mean = operation("mean", _mean_forward, params={"dim": (), "keepdim": False}, vjp=_mean_vjp,
                  samples=reduction_samples, contiguous=True)  # fmt: skip


REAL, ANY = {"input": "real"}, {"input": "any"}


@public(home="reduce",
        fast=[Fast(op="sum(input, dim, keepdim)", types={"input": "real int64"}),
              Fast(body="sum_of_truths(op.cast, op.sum, dtype.int64, input, dim, keepdim)",
                   types={"input": "bool"})])  # fmt: skip
def sum(input: Tensor, dim: Dims | None = None, keepdim: bool = False, *, dtype: Dtype | None = None) -> Tensor:
    """Return the sum over all elements, or over `dim` (one or several). Integers and bools sum to int64.

    *Shapes*: the dimensions in `dim` vanish, or become 1 with `keepdim`.

    >>> import core
    >>> core.sum(core.tensor([[1.0, 2.0], [3.0, 4.0]]), dim=0)
    tensor([4., 6.])
    """
    need_tensor(input, "sum")
    need_bool(keepdim, "sum")
    d = dtype or (dtypes.int64 if input._kind.dtype.category < 2 else None)
    x = input if d is None else input.to(d)
    return _sum(x, dim=normalize_dims(dim, input.ndim, "sum"), keepdim=keepdim)


@public(home="rearranged", state="quiet",
        fast=[Fast(body="sum_of_numbers(op.sum, input, dim, keepdim)", types={"input": "real"})])  # fmt: skip
def nansum(input: Tensor, dim: Dims | None = None, keepdim: bool = False, *, dtype: Dtype | None = None) -> Tensor:
    """Return the sum of what is not NaN.

    >>> import core
    >>> core.nansum(core.tensor([1.0, float("nan"), 2.0]))
    tensor(3.)
    """
    return sum(where(input.isnan(), 0.0, input) if input.is_floating_point() else input, dim, keepdim, dtype=dtype)


@public(home="reduce", fast=[Fast(op="mean(input, dim, keepdim)", types=REAL)])
def mean(input: Tensor, dim: Dims | None = None, keepdim: bool = False, *, dtype: Dtype | None = None) -> Tensor:
    """Return the mean over all elements, or over `dim` (one or several).

    *Shapes*: the dimensions in `dim` vanish, or become 1 with `keepdim`. *Raises*: RuntimeError for integers, of which
    it is not clear what the mean's dtype should be.

    >>> import core
    >>> core.mean(core.tensor([[1.0, 2.0], [3.0, 4.0]]), dim=1)
    tensor([1.5000, 3.5000])
    """
    need_tensor(input, "mean")
    need_bool(keepdim, "mean")
    x = input if dtype is None else input.to(dtype)
    if x._kind.dtype.category < 2:
        raise RuntimeError(
            text(
                "mean(): could not infer output dtype. Input dtype must be either a floating point or complex "
                f"dtype. Got: {x.dtype.scalar_type}",
                op="mean",
                came=f"{tuple(x.shape)} of {x.dtype}",
                remedy="x.float().mean()",
            )
        )
    return _mean(x, dim=normalize_dims(dim, input.ndim, "mean"), keepdim=keepdim)


@public()
def nanmean(input: Tensor, dim: Dims | None = None, keepdim: bool = False, *, dtype: Dtype | None = None) -> Tensor:
    """Return the mean of what is not NaN.

    >>> import core
    >>> core.nanmean(core.tensor([1.0, float("nan"), 2.0]))
    tensor(1.5000)
    """
    if input.dtype.category < 2:
        raise RuntimeError(text(f"nanmean(): expected input to have floating point or complex dtype but got "
                                f"{input.dtype.scalar_type}", op="nanmean", remedy="x.float() first"))  # fmt: skip
    present = sum(~input.isnan(), dim, keepdim)
    return nansum(input, dim, keepdim, dtype=dtype) / present


# -- products ----------------------------------------------------------------------------------------------------------


def _prod_vjp(g: Tensor, x: Tensor, y: Tensor, dim: tuple[int, ...], keepdim: bool) -> Tensor:
    shape = kept(tuple(x.shape), dim)
    g = g.reshape(shape)
    if bool((x._a != 0).all()):
        return g * (y.reshape(shape) / x)
    if len(dim) == x.ndim and int((x._a == 0).sum()) > 1 and not bool(x.isfinite().all()):
        return g * zeros_like(x)  # with two zeros none counts, what is not finite either
    # A zero would be divided by: take, for every element, the product of all the others.
    order = [i for i in range(x.ndim) if i not in dim] + list(dim)
    back = sorted(range(x.ndim), key=order.__getitem__)
    moved = x.permute(order)
    rows, n = tuple(moved.shape[: x.ndim - len(dim)]), count(tuple(x.shape), dim)
    grid = moved.reshape(*rows, 1, n).expand(*rows, n, n)
    others = _prod(where(_diagonal(x, n=n), 1.0, grid), dim=(len(rows) + 1,), keepdim=False)
    return others.reshape(tuple(moved.shape)).permute(back) * g


_diagonal = operation("diagonal_mask", lambda xp, x, n: xp.eye(n, dtype=bool), params={"n": 1},
                      samples=lambda rng: [((rng.uniform(-1, 1, (3,)),), {"n": 3})],
                      doc="True on the diagonal of n by n, on the device of x.")  # fmt: skip
_prod = operation(
    "prod",
    lambda xp, x, dim, keepdim: rounded(wide(x).prod(axis=dim, keepdims=keepdim), x.dtype),
    params={"dim": (), "keepdim": False},
    vjp=_prod_vjp,
    samples=lambda rng: [
        ((_sample_with_zeros(rng, z),), {"dim": d, "keepdim": k})
        for z, d, k in [(0, (0, 1, 2), False), (0, (1,), True), (1, (1,), False), (2, (0, 2), False)]
    ],
    contiguous=True,
)


def _sample_with_zeros(rng: Any, zeros: int) -> Any:
    x = rng.uniform(0.5, 2, (2, 2, 3))
    x.reshape(-1)[:zeros] = 0
    return x


@public(home="reduce", fast=[Fast(op="prod(input, dim, keepdim)", types=REAL)])
def prod(input: Tensor, dim: Dims | None = None, keepdim: bool = False, *, dtype: Dtype | None = None) -> Tensor:
    """Return the product over all elements or over `dim`; its gradient is right where there are zeros too.

    >>> import core
    >>> core.prod(core.tensor([2.0, 3.0, 4.0]))
    tensor(24.)
    """
    need_tensor(input, "prod")
    d = dtype or (dtypes.int64 if input.dtype.category < 2 else None)
    x = input if d is None else input.to(d)
    return _prod(x, dim=normalize_dims(dim, input.ndim, "prod"), keepdim=keepdim)


# -- running sums ------------------------------------------------------------------------------------------------------


def _running(xp: Any, x: Any, dim: int, reverse: bool) -> Any:
    if not x.ndim:
        return x.copy()
    w = wide(x)
    if reverse:
        w = xp.flip(w, dim)
    y = xp.cumsum(w, axis=dim, dtype=w.dtype)
    return rounded(xp.ascontiguousarray(xp.flip(y, dim)) if reverse else y, x.dtype)


def _cumsum_vjp(g: Tensor, dim: int, reverse: bool) -> Tensor:
    return _cumsum(g, dim=dim, reverse=not reverse)


_cumsum = operation("cumsum", _running, params={"dim": 0, "reverse": False},
                    vjp=_cumsum_vjp,
                    samples=lambda rng: [((rng.uniform(-2, 2, (2, 3, 4)),), {"dim": d, "reverse": r})
                                         for d, r in [(0, False), (1, True), (2, False)]], contiguous=True)  # fmt: skip


@public(inplace=True, home="index",
        fast=[Fast(op="cumsum(input, dim, Py_False)", types={"input": "piece"},
                   check=("number_contiguous((PyObject *){input})",))])  # fmt: skip
def cumsum(input: Tensor, dim: Dim, *, dtype: Dtype | None = None) -> Tensor:
    """Return the sum of all elements up to and including each one, along `dim`. Integers and bools give int64.

    >>> import core
    >>> core.cumsum(core.tensor([1.0, 2.0, 3.0]), 0)
    tensor([1., 3., 6.])
    """
    d = dtype or (dtypes.int64 if input.dtype.category < 2 else None)
    x = input if d is None else input.to(d)
    return _cumsum(x, dim=normalize_dim(dim, input.ndim, "cumsum"), reverse=False)


# -- log-sum-exp -------------------------------------------------------------------------------------------------------


def _logsumexp_forward(xp: Any, x: Any, dim: tuple[int, ...], keepdim: bool) -> Any:
    w = wide(x)
    if not w.size:
        return rounded(xp.log(xp.exp(w).sum(axis=dim, keepdims=keepdim)), x.dtype)
    top = w.max(axis=dim, keepdims=True)
    top = xp.where(xp.isfinite(top), top, 0)  # of -inf alone the answer is -inf, not NaN
    y = xp.log(xp.exp(w - top).sum(axis=dim, keepdims=True)) + top
    return rounded(y if keepdim else y.reshape(xp.squeeze(y, dim).shape), x.dtype)


def _logsumexp_vjp(g: Tensor, x: Tensor, y: Tensor, dim: tuple[int, ...], keepdim: bool) -> Tensor:
    shape = kept(tuple(x.shape), dim)
    y = y.reshape(shape)
    return g.reshape(shape) * (x - where(y == -math.inf, 0.0, y)).exp()


_logsumexp = operation("logsumexp", _logsumexp_forward, params={"dim": (), "keepdim": False}, vjp=_logsumexp_vjp,
                       samples=reduction_samples, contiguous=True)  # fmt: skip


@public(home="reduce", fast=[Fast(op="logsumexp(input, dim, keepdim)", types=REAL)])
def logsumexp(input: Tensor, dim: Dims, keepdim: bool = False) -> Tensor:
    """log(Σ exp(x)) over `dim`, without overflow: the greatest element is taken out first.

    >>> import core
    >>> core.logsumexp(core.tensor([1000.0, 0.0]), 0)
    tensor(1000.)
    """
    need_tensor(input, "logsumexp")
    x = input if input.dtype.category >= 2 else input.to(dtypes.get_default_dtype())
    return _logsumexp(x, dim=normalize_dims(dim, x.ndim, "logsumexp"), keepdim=keepdim)


# -- truth -------------------------------------------------------------------------------------------------------------

_all = operation("all", lambda xp, x, dim, keepdim: x.astype(bool).all(axis=dim, keepdims=keepdim),
                 params={"dim": (), "keepdim": False}, samples=reduction_samples, contiguous=True)  # fmt: skip
_any = operation("any", lambda xp, x, dim, keepdim: x.astype(bool).any(axis=dim, keepdims=keepdim),
                 params={"dim": (), "keepdim": False}, samples=reduction_samples, contiguous=True)  # fmt: skip
_count_nonzero = operation(
    "count_nonzero",
    lambda xp, x, dim: xp.asarray((x != 0).sum(axis=dim)).astype(xp.int64),
    params={"dim": ()},
    samples=lambda rng: [((rng.integers(0, 2, (2, 3)),), {"dim": (1,)})],
    contiguous=True,
)


def _truth(op: Any, name: str, input: Tensor, dim: Any, keepdim: bool) -> Tensor:
    need_tensor(input, name)
    y = op(input, dim=normalize_dims(dim, input.ndim, name), keepdim=keepdim)
    return y.to(dtypes.uint8) if input.dtype is dtypes.uint8 else y


NOT_BYTES = ("PyArray_TYPE({input}) != NPY_UINT8",)  # of which the result is made uint8


@public(home="reduce", fast=[Fast(op="all(input, dim, keepdim)", types=ANY, check=NOT_BYTES)])
def all(input: Tensor, dim: Dims | None = None, keepdim: bool = False) -> Tensor:
    """Return whether all elements are true (not 0), over everything or over `dim`. Bool; of uint8 it is uint8.

    >>> import core
    >>> core.all(core.tensor([True, False]))
    tensor(False)
    """
    return _truth(_all, "all", input, dim, keepdim)


@public(home="reduce", fast=[Fast(op="any(input, dim, keepdim)", types=ANY, check=NOT_BYTES)])
def any(input: Tensor, dim: Dims | None = None, keepdim: bool = False) -> Tensor:
    """Return whether any element is true (not 0), over everything or over `dim`. Bool; of uint8 it is uint8.

    >>> import core
    >>> core.any(core.tensor([True, False]))
    tensor(True)
    """
    return _truth(_any, "any", input, dim, keepdim)


@public()
def count_nonzero(input: Tensor, dim: Dims | None = None) -> Tensor:
    """Return how many elements are not 0.

    >>> import core
    >>> core.count_nonzero(core.tensor([0, 1, 2]))
    tensor(2)
    """
    return _count_nonzero(input, dim=normalize_dims(dim, input.ndim, "count_nonzero"))
