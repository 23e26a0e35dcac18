"""Running products, extremes and log-sums; differences and the trapezoid rule."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .. import return_types
from ..base import dtypes
from ..base.dtypes import dtype as Dtype
from ..base.errors import text
from ..base.shape import normalize_dim, normalize_dims
from ..declare.kinds import Dim, Dims
from ..declare.signature import Fast
from ..dispatch.declare import operation
from ..dispatch.out import into
from ..dispatch.publish import public
from ..return_types import return_type
from ..tensors.tensor import Tensor
from .elementwise import logical_xor, sub
from .joining import cat, flip
from .ordering import picked_vjp, running
from .pieces import narrow
from .precision import rounded, wide
from .reduce import need_tensor
from .where import where

_ReturnCummax = return_type("cummax", "values indices")
_ReturnCummin = return_type("cummin", "values indices")


def _samples(rng: Any) -> list[Any]:
    x = rng.permutation(24).reshape(2, 3, 4) / 7.0 - 1.6
    return [((x,), {"dim": d}) for d in (0, 1, 2)]


# -- products ----------------------------------------------------------------------------------------------------------


def _cumprod_vjp(g: Tensor, x: Tensor, y: Tensor, dim: int) -> Tensor:
    if bool((x._a != 0).all()):
        return flip(flip(g * y, dim).cumsum(dim), dim) / x
    # A zero would be divided by: for every j the running product with x_j replaced by 1, summed from j on.
    moved = x.movedim(dim, -1)
    n = moved.shape[-1]
    grid = moved.unsqueeze(-2).expand(*moved.shape[:-1], n, n)
    eye = _mask(x, n=n, on="diagonal")
    others = _cumprod(where(eye, 1.0, grid), dim=grid.ndim - 1)
    kept = where(_mask(x, n=n, on="after"), others * g.movedim(dim, -1).unsqueeze(-2), 0.0)
    return kept.sum(-1).movedim(-1, dim)  # type: ignore[no-any-return]


_mask = operation(
    "triangle_mask",
    lambda xp, x, n, on: xp.eye(n, dtype=bool) if on == "diagonal" else xp.tri(n, dtype=bool).T.copy(),
    params={"n": 1, "on": "diagonal"},
    samples=lambda rng: [((rng.uniform(-1, 1, (3,)),), {"n": 3, "on": "after"})],
    doc="True on the diagonal of n by n, or on and above it, on the device of x.",
)


def _cumprod_samples(rng: Any) -> list[Any]:
    with_zeros = rng.uniform(0.5, 1.5, (3, 4))
    with_zeros[1, 1] = with_zeros[2, 1] = with_zeros[0, 3] = 0
    return [((rng.uniform(0.5, 1.5, (2, 3, 4)),), {"dim": 1}), ((with_zeros,), {"dim": 0}), ((with_zeros,), {"dim": 1})]


_cumprod = operation("cumprod", lambda xp, x, dim: rounded(xp.cumprod(wide(x), axis=dim), x.dtype), params={"dim": 0},
                     vjp=_cumprod_vjp, samples=_cumprod_samples, contiguous=True)  # fmt: skip


_NUMBERS: dict[str, Any] = {"types": {"input": "piece"}, "check": ("number_contiguous((PyObject *){input})",)}


@public(inplace=True, home="index", fast=[Fast(op="cumprod(input, dim)", **_NUMBERS)])
def cumprod(input: Tensor, dim: Dim, *, dtype: Dtype | None = None, out: Tensor | None = None) -> Tensor:
    """Return the products of all elements up to each one along `dim`. Integers and bools give int64.

    >>> import core
    >>> core.cumprod(core.tensor([1.0, 2.0, 3.0]), 0)
    tensor([1., 2., 6.])
    """
    need_tensor(input, "cumprod")
    d = normalize_dim(dim, input.ndim, "cumprod")
    x = input.to(dtype or (dtypes.int64 if input.dtype.category < 2 else input.dtype))
    return into(out, _cumprod(x, dim=d) if x.ndim else x.clone(), "cumprod")


# -- extremes ----------------------------------------------------------------------------------------------------------


def _running_extreme(name: str, ufunc: str) -> Any:
    def forward(xp: Any, x: Any, dim: int) -> Any:
        if not x.ndim:
            return x.copy(), xp.zeros((), xp.int64)
        w = wide(x)
        values = running(xp, ufunc, w, dim)
        hit = w == values  # of equals the last one counts, and of NaN
        if w.dtype.kind == "f":
            hit = hit | xp.isnan(w)
        at = xp.arange(x.shape[dim]).reshape([-1 if i == dim else 1 for i in range(x.ndim)])
        return rounded(values, x.dtype), running(xp, "maximum", xp.where(hit, at, 0), dim).astype(xp.int64)

    return operation(name, forward, params={"dim": 0}, outputs="values indices", returns=2, vjp=(picked_vjp,),
                     samples=_samples, contiguous=True)  # fmt: skip


_cummax, _cummin = _running_extreme("cummax", "maximum"), _running_extreme("cummin", "minimum")


@public(home="index", fast=[Fast(op="cummax(input, dim)", result="cummax", **_NUMBERS)])
def cummax(input: Tensor, dim: Dim) -> return_types.cummax:
    """Return the greatest element up to each one along `dim`, and its index, the last of equals.

    >>> import core
    >>> core.cummax(core.tensor([1.0, 3.0, 2.0]), 0).values
    tensor([1., 3., 3.])
    """
    need_tensor(input, "cummax")
    return _ReturnCummax(*_cummax(input, dim=normalize_dim(dim, input.ndim, "cummax")))


@public(home="index", fast=[Fast(op="cummin(input, dim)", result="cummin", **_NUMBERS)])
def cummin(input: Tensor, dim: Dim) -> return_types.cummin:
    """Return the least element up to each one along `dim`, and its index, the last of equals.

    >>> import core
    >>> core.cummin(core.tensor([3.0, 1.0, 2.0]), 0).indices
    tensor([0, 1, 1])
    """
    need_tensor(input, "cummin")
    return _ReturnCummin(*_cummin(input, dim=normalize_dim(dim, input.ndim, "cummin")))


# -- log-sums ----------------------------------------------------------------------------------------------------------


def _logcumsumexp_vjp(g: Tensor, x: Tensor, y: Tensor, dim: int) -> Tensor:
    """Σ_k>=j g_k exp(x_j - y_k), as log-sums of the positive and the negative part of g, so that nothing overflows."""

    def part(sign: float) -> Tensor:
        up = g * sign > 0
        logs = where(up, where(up, g * sign, 1.0).log() - y, -math.inf)
        sums = flip(_logcumsumexp(flip(logs, dim), dim=dim), dim)
        some = sums != -math.inf
        return where(some, (where(some, sums, 0.0) + where(some, x, 0.0)).exp(), 0.0)  # type: ignore[no-any-return]

    return part(1.0) - part(-1.0)


_logcumsumexp: Any = operation(
    "logcumsumexp", lambda xp, x, dim: rounded(running(xp, "logaddexp", wide(x), dim), x.dtype), params={"dim": 0},
    vjp=_logcumsumexp_vjp, samples=_samples, contiguous=True)  # fmt: skip


@public(fast=[Fast(op="logcumsumexp(input, dim)", types={"input": "real"}, check=("PyArray_NDIM({input})",))])
def logcumsumexp(input: Tensor, dim: Dim, *, out: Tensor | None = None) -> Tensor:
    """Return the logarithm of the sum of the exponentials of all elements up to each one along `dim`, without overflow.

    >>> import core
    >>> core.logcumsumexp(core.tensor([0.0, 0.0]), 0)
    tensor([0.0000, 0.6931])
    """
    need_tensor(input, "logcumsumexp")
    d = normalize_dim(dim, input.ndim, "logcumsumexp")
    if input.dtype.category < 2:
        raise NotImplementedError(text(f"\"logcumsumexp_out_cpu\" not implemented for '{input.dtype.scalar_type}'",
                                       op="logcumsumexp", remedy="x.float()"))  # fmt: skip
    return into(out, _logcumsumexp(input, dim=d) if input.ndim else input.clone(), "logcumsumexp")


# -- differences and integrals -----------------------------------------------------------------------------------------


@public(home="rearranged", state="quiet",
        fast=[Fast(body="differences(elementwise.sub, input, dim)", types={"input": "piece"})])  # fmt: skip
def diff(input: Tensor, n: int = 1, dim: Dim = -1, prepend: Tensor | None = None, append: Tensor | None = None, *,
         out: Tensor | None = None) -> Tensor:  # fmt: skip
    """Return the `n`-th differences of neighbours along `dim`, with `prepend` and `append` put to the ends first.

    *Shapes*: `dim` shrinks by `n`. *Raises*: RuntimeError for a 0-d tensor or a negative `n`.

    >>> import core
    >>> core.diff(core.tensor([1, 4, 9]))
    tensor([3, 5])
    """
    need_tensor(input, "diff")
    if input.ndim == 0:
        raise RuntimeError(text("diff expects input to be at least one-dimensional", op="diff"))
    if n < 0:
        raise RuntimeError(text(f"order must be non-negative but got {n}", op="diff"))
    d = normalize_dim(dim, input.ndim, "diff")
    if n == 0:
        return into(out, input.clone(), "diff")
    parts = [t for t in (prepend, input, append) if t is not None]
    x = cat(parts, d) if len(parts) > 1 else input
    for _ in range(min(n, x._a.shape[d])):
        m = max(x._a.shape[d] - 1, 0)
        difference = logical_xor if x.dtype is dtypes.bool_ else sub
        x = difference(narrow(x, d, 1, m), narrow(x, d, 0, m)) if x._a.shape[d] else x
    return into(out, x, "diff")


def _trapezoids(name: str, y: Tensor, x: Any, dx: float, dim: int) -> tuple[Tensor, int]:
    """Return the areas between neighbours along `dim`."""
    need_tensor(y, name)
    d = normalize_dim(dim, y.ndim, name)
    n = y._a.shape[d] if y.ndim else 0
    if n == 0:
        return y.sum(d, keepdim=True) if y.ndim else y, d
    pairs = narrow(y, d, 1, n - 1) + narrow(y, d, 0, n - 1)
    if x is None:
        return pairs * (dx / 2), d
    if x.ndim == 1:
        if x.numel() != n:
            raise RuntimeError(text(f"{name}: There must be one `x` value for each sample point", op=name,
                                    came=f"{x.numel()} and {n}"))  # fmt: skip
        steps = diff(x).reshape([-1 if i == d else 1 for i in range(y.ndim)])
    else:
        steps = diff(x, dim=d - y.ndim)
    return pairs * steps / 2.0, d


@public("trapz", method=False)
def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: float = 1, dim: Dim = -1) -> Tensor:
    """Return the integral of `y` along `dim` by the trapezoid rule, at the places `x` or steps of `dx`.

    >>> import core
    >>> core.trapezoid(core.tensor([1.0, 5.0, 10.0]))
    tensor(10.5000)
    """
    areas, d = _trapezoids("trapezoid", y, x, dx, dim)
    return areas.sum(d)


@public(method=False)
def cumulative_trapezoid(y: Tensor, x: Tensor | None = None, *, dx: float = 1, dim: Dim = -1) -> Tensor:
    """Return the integral of `y` along `dim` up to each place but the first, by the trapezoid rule.

    >>> import core
    >>> core.cumulative_trapezoid(core.tensor([1.0, 5.0, 10.0]))
    tensor([ 3.0000, 10.5000])
    """
    areas, d = _trapezoids("cumulative_trapezoid", y, x, dx, dim)
    return areas.cumsum(d)  # type: ignore[no-any-return]


def _slopes(f: Tensor, dim: int, at: Any, edge_order: int) -> Tensor:
    """Return the derivative of `f` along `dim` at places `at` (a vector), or in steps of `at` (a number): second-order
    differences inside (Fornberg 1988), first- or second-order ones at the ends."""
    n = f._a.shape[dim]
    if isinstance(at, Tensor):
        steps = diff(at.detach()).reshape([-1 if k == dim else 1 for k in range(f.ndim)])
    else:
        steps = f.detach().narrow(dim, 0, n - 1) * 0 + float(at)

    def weigh(lo: int, count: int, weights: tuple[Any, Any, Any]) -> Tensor:
        return sum((narrow(f, dim, lo + k, count) * w for k, w in enumerate(weights)), start=f.detach()[:0].sum())

    a, b = narrow(steps, dim, 0, n - 2), narrow(steps, dim, 1, n - 2)
    inside = weigh(0, n - 2, (-b / (a * (a + b)), (b - a) / (a * b), a / (b * (a + b))))
    first, last = narrow(steps, dim, 0, 1), narrow(steps, dim, n - 2, 1)
    if edge_order == 1:
        low = (narrow(f, dim, 1, 1) - narrow(f, dim, 0, 1)) / first
        high = (narrow(f, dim, n - 1, 1) - narrow(f, dim, n - 2, 1)) / last
    else:
        c, d = first, narrow(steps, dim, 1, 1)
        low = weigh(0, 1, (-(2 * c + d) / (c * (c + d)), (c + d) / (c * d), -c / (d * (c + d))))
        c, d = narrow(steps, dim, n - 3, 1), last
        high = weigh(n - 3, 1, (d / (c * (c + d)), -(c + d) / (c * d), (2 * d + c) / (d * (c + d))))
    return cat([low, inside, high], dim)


@public(method=False)
def gradient(
    input: Tensor,
    *,
    spacing: float | Tensor | Sequence[float] | Sequence[Tensor] = 1,
    dim: Dims | None = None,
    edge_order: int = 1,
) -> tuple[Tensor, ...]:
    """Return the derivative of `input` along each dimension of `dim`, by differences of second order.

    `spacing` is a step, one for each dimension, or vectors of coordinates. *Raises*: RuntimeError for an `edge_order`
    other than 1 and 2 or a dimension that is too short.

    >>> import core
    >>> core.gradient(core.tensor([1.0, 4.0, 9.0]))
    (tensor([3., 4., 5.]),)
    """
    need_tensor(input, "gradient")
    if edge_order not in (1, 2):
        raise RuntimeError(text("torch.gradient only supports edge_order=1 and edge_order=2.", op="gradient"))
    given = range(input.ndim) if dim is None else (dim,) if isinstance(dim, int) else dim
    dims = [normalize_dim(d, input.ndim, "gradient") for d in given]
    normalize_dims(dims, input.ndim, "gradient")  # one that came twice is an error
    spacing = 1 if spacing is None else spacing
    if isinstance(spacing, Tensor) and spacing.ndim == 1 and len(dims) == 1:
        spacing = (spacing,)
    steps = list(spacing) if isinstance(spacing, list | tuple) else [spacing] * len(dims)
    if len(steps) != len(dims):
        raise RuntimeError(
            text(
                f"torch.gradient expected spacing to be unspecified, a scalar or a list of length equal to "
                f"'self.dim() = {len(dims)}', but got a list of length {len(steps)}",
                op="gradient",
            )
        )
    x = input if input.dtype.category >= 2 else input.to(dtypes.get_default_dtype())
    for d in dims:
        if input._a.shape[d] <= edge_order:
            raise RuntimeError(text("torch.gradient expected each dimension size to be at least edge_order+1",
                                    op="gradient", came=f"shape {tuple(input._a.shape)}"))  # fmt: skip
    return tuple(_slopes(x, d, s, edge_order) for d, s in zip(dims, steps, strict=True))
