"""Variance, standard deviation and norms."""

from __future__ import annotations

import math
from typing import Any

from ..base.dtypes import dtype as Dtype
from ..base.errors import text
from ..base.shape import normalize_dims
from ..base.source import warn
from ..declare.kinds import Dims
from ..declare.signature import Fast
from ..dispatch.declare import operation
from ..dispatch.publish import namespaces, public
from ..tensors.tensor import Tensor
from .precision import rounded, wide
from .reduce import count, kept, mean, need_bool, need_tensor
from .where import where

# -- variance ----------------------------------------------------------------------------------------------------------


def _spread(xp: Any, x: Any, dim: tuple[int, ...], correction: float, keepdim: bool) -> Any:
    w = wide(x)
    n = count(x.shape, dim)
    off = w - w.sum(axis=dim, keepdims=True) / w.dtype.type(n)
    return (off * off).sum(axis=dim, keepdims=keepdim) / w.dtype.type(max(0, n - correction))


def _var_forward(xp: Any, x: Any, dim: tuple[int, ...], correction: float, keepdim: bool) -> Any:
    return rounded(_spread(xp, x, dim, correction, keepdim), x.dtype)


def _std_forward(xp: Any, x: Any, dim: tuple[int, ...], correction: float, keepdim: bool) -> Any:
    return rounded(xp.sqrt(_spread(xp, x, dim, correction, keepdim)), x.dtype)


def _var_vjp(g: Tensor, x: Tensor, dim: tuple[int, ...], correction: float, keepdim: bool) -> Tensor:
    free = count(tuple(x.shape), dim) - correction
    g = g.reshape(kept(tuple(x.shape), dim)) * (2 / free if free > 0 else math.inf)
    return g * (x - mean(x, dim, keepdim=True))


def _std_vjp(g: Tensor, x: Tensor, y: Tensor, dim: tuple[int, ...], correction: float, keepdim: bool) -> Tensor:
    flat = y.detach() == 0  # where all are equal the slope is taken as 0
    return _var_vjp(where(flat, 0.0, g / (2 * where(flat, 1.0, y))), x, dim, correction, keepdim)


def _samples(rng: Any) -> list[Any]:
    x = rng.uniform(-2, 2, (2, 3, 4))
    sets = [((0, 1, 2), 1, False), ((1,), 0, False), ((0, 2), 1, True)]
    return [((x,), {"dim": d, "correction": c, "keepdim": k}) for d, c, k in sets]


_SPREAD: dict[str, Any] = {"dim": (), "correction": 1, "keepdim": False}
_var = operation("var", _var_forward, params=_SPREAD, vjp=_var_vjp, samples=_samples, contiguous=True)
_std = operation("std", _std_forward, params=_SPREAD, vjp=_std_vjp, samples=_samples, contiguous=True)


def _moment(op: Any, name: str, input: Tensor, dim: Any, unbiased: Any, correction: Any,
            keepdim: Any) -> Tensor:  # fmt: skip
    need_tensor(input, name)
    if isinstance(dim, bool):  # var(unbiased), of all elements
        dim, unbiased = None, dim
    if input.dtype.category < 2:
        raise RuntimeError(
            text(
                "std and var only support floating point and complex dtypes",
                op=name,
                came=str(input.dtype),
                remedy="x.float() first",
            )
        )
    if correction is None:
        correction = 1 if unbiased is None else int(unbiased)
    dims = normalize_dims(dim, input.ndim, name)
    if count(tuple(input.shape), dims) <= correction and input.numel():
        warn(
            f"{name}(): degrees of freedom is <= 0. Correction should be strictly less than the reduction factor "
            "(input numel divided by output numel).",
        )
    if input.dtype.category == 3:
        of_real, of_imag = (_var(part, dim=dims, correction=correction, keepdim=keepdim)
                            for part in (input.real, input.imag))  # type: ignore[attr-defined]  # fmt: skip
        return of_real + of_imag if op is _var else (of_real + of_imag).sqrt()
    return op(input, dim=dims, correction=correction, keepdim=keepdim)


@public(home="reduce",
        fast=[Fast(op="var(input, dim, correction, keepdim)", types={"input": "real"},
                   instead={"correction": "dims.number[unbiased != Py_False]"},
                   check=("more_items_than({input}, {dim}, correction)",))])  # fmt: skip
def var(input: Tensor, dim: Dims | None = None, unbiased: bool | None = None, keepdim: bool = False, *,
        correction: float | None = None) -> Tensor:  # fmt: skip
    """Return the variance Σ(x - x̄)² / (n - correction) over all elements, or over `dim`. The correction is 1 unless
    given.

    >>> import core
    >>> core.var(core.tensor([1.0, 2.0, 3.0])), core.var(core.tensor([1.0, 2.0, 3.0]), correction=0)
    (tensor(1.), tensor(0.6667))
    """
    return _moment(_var, "var", input, dim, unbiased, correction, keepdim)


@public(home="reduce",
        fast=[Fast(op="std(input, dim, correction, keepdim)", types={"input": "real"},
                   instead={"correction": "dims.number[unbiased != Py_False]"},
                   check=("more_items_than({input}, {dim}, correction)",))])  # fmt: skip
def std(input: Tensor, dim: Dims | None = None, unbiased: bool | None = None, keepdim: bool = False, *,
        correction: float | None = None) -> Tensor:  # fmt: skip
    """Return the standard deviation, the root of `var`.

    >>> import core
    >>> core.std(core.tensor([1.0, 2.0, 3.0]))
    tensor(1.)
    """
    return _moment(_std, "std", input, dim, unbiased, correction, keepdim)


@public()
def var_mean(input: Tensor, dim: Dims | None = None, unbiased: bool | None = None, keepdim: bool = False, *,
             correction: float | None = None) -> tuple[Tensor, Tensor]:  # fmt: skip
    """`var` and `mean` as a pair.

    >>> import core
    >>> core.var_mean(core.tensor([1.0, 2.0, 3.0]))
    (tensor(1.), tensor(2.))
    """
    y = var(input, dim, unbiased, keepdim, correction=correction)
    return y, mean(input, None if isinstance(dim, bool) else dim, keepdim)


@public()
def std_mean(input: Tensor, dim: Dims | None = None, unbiased: bool | None = None, keepdim: bool = False, *,
             correction: float | None = None) -> tuple[Tensor, Tensor]:  # fmt: skip
    """`std` and `mean` as a pair.

    >>> import core
    >>> core.std_mean(core.tensor([1.0, 2.0, 3.0]))
    (tensor(1.), tensor(2.))
    """
    y = std(input, dim, unbiased, keepdim, correction=correction)
    return y, mean(input, None if isinstance(dim, bool) else dim, keepdim)


# -- norms -------------------------------------------------------------------------------------------------------------


def _norm_forward(xp: Any, x: Any, p: float, dim: tuple[int, ...], keepdim: bool) -> Any:
    a = xp.abs(wide(x))
    if p == 2:
        y = xp.sqrt((a * a).sum(axis=dim, keepdims=keepdim))
    elif p == 1:
        y = a.sum(axis=dim, keepdims=keepdim)
    elif p == 0:
        y = (a != 0).sum(axis=dim, keepdims=keepdim)
    elif p == math.inf:
        y = a.max(axis=dim, keepdims=keepdim, initial=0)
    elif p == -math.inf:
        y = a.min(axis=dim, keepdims=keepdim)
    else:
        y = (a**p).sum(axis=dim, keepdims=keepdim) ** (1 / p)
    return rounded(xp.asarray(y), x.dtype)


def _norm_vjp(g: Tensor, x: Tensor, y: Tensor, p: float, dim: tuple[int, ...], keepdim: bool) -> Tensor:
    shape = kept(tuple(x.shape), dim)
    g, y = g.reshape(shape), y.reshape(shape)
    if p == 0:
        return x * 0.0
    if p == 1:
        return g * x.sign()
    if abs(p) == math.inf:
        hit = ((x.abs() == y) | x.isnan()).to(g.dtype)
        return x.sign() * (hit * (g / hit.sum(dim, keepdim=True)))
    none = y.detach() == 0  # at the origin the slope is taken as 0
    if p == 2:
        return x * where(none, 0.0, g / where(none, 1.0, y))
    origin = x.detach() == 0
    powers = where(origin, 0.0, x.sign() * where(origin, 1.0, x.abs()) ** (p - 1))
    return powers * where(none, 0.0, g / where(none, 1.0, y) ** (p - 1))


def _norm_samples(rng: Any) -> list[Any]:
    x = rng.uniform(0.3, 2, (2, 3, 4)) * rng.choice([-1.0, 1.0], (2, 3, 4))
    sets = [
        (2.0, (0, 1, 2), False),
        (1.0, (1,), True),
        (math.inf, (2,), False),
        (3.0, (0, 2), False),
        (0.0, (1,), False),
    ]
    return [((x,), {"p": p, "dim": d, "keepdim": k}) for p, d, k in sets]


_norm = operation("vector_norm", _norm_forward, params={"p": 2.0, "dim": (), "keepdim": False}, vjp=_norm_vjp,
                  samples=_norm_samples, contiguous=True)  # fmt: skip


@public(python=True, home="reduce",
        fast=[Fast(body="norm_of(op.vector_norm, input, p, dim, keepdim)", types={"input": "real"},
                   raw=("p",))])  # fmt: skip
def norm(
    input: Tensor,
    p: float | str | None = "fro",
    dim: Dims | None = None,
    keepdim: bool = False,
    *,
    dtype: Dtype | None = None,
) -> Tensor:
    """Return the norm (Σ |x|^p)^(1/p) over all elements or over `dim`; "fro" is p=2, inf the greatest |x|, 0 counts,
    "nuc" is the sum of a matrix's singular values.

    >>> import core
    >>> core.norm(core.tensor([3.0, 4.0])), core.norm(core.tensor([3.0, -4.0]), float("inf"))
    (tensor(5.), tensor(4.))
    """
    need_tensor(input, "norm")
    need_bool(keepdim, "norm", 4)  # PyTorch's is Python, and gives it to a function that looks
    x = input if dtype is None else input.to(dtype)
    if x.dtype.category < 2:
        raise RuntimeError(text("linalg.vector_norm: Expected a floating point or complex tensor as input. Got "
                                f"{x.dtype.scalar_type}", op="norm", remedy="x.float().norm()"))  # fmt: skip
    if p == "nuc":
        sides = tuple(range(x.ndim)) if dim is None else tuple(dim) if isinstance(dim, list | tuple) else (dim,)
        return namespaces["linalg"]["matrix_norm"](x, "nuc", sides, keepdim)  # type: ignore[no-any-return]
    if isinstance(p, str) and p != "fro":
        raise RuntimeError(
            text(f"linalg.matrix_norm: Order {p} not supported.", op="norm", needed='"fro", "nuc" or a number')
        )
    x = x.abs() if x.dtype.category == 3 else x
    dims = normalize_dims(dim, x.ndim, "norm")
    if p in (math.inf, -math.inf) and count(tuple(x.shape), dims) == 0:
        raise RuntimeError(text(f"linalg.vector_norm cannot compute the {p} norm on an empty tensor because the "
                                "operation does not have an identity", op="norm",
                                came=f"shape {tuple(x.shape)}"))  # fmt: skip
    return _norm(x, p=2.0 if p in ("fro", None) else float(p), dim=dims, keepdim=keepdim)
