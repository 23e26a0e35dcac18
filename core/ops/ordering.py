"""Order: sort, topk, the k-th value, medians, the mode and quantiles."""

from __future__ import annotations

from typing import Any, overload

import numpy as np

from .. import backends, return_types
from ..base.errors import text
from ..base.shape import normalize_dim
from ..declare.kinds import Dim, Tensors
from ..declare.signature import Fast
from ..dispatch.declare import operation
from ..dispatch.out import into
from ..dispatch.publish import public
from ..return_types import return_type
from ..tensors.tensor import Tensor, from_array
from .elementwise import lerp
from .gathering import _gather_backward, gather
from .precision import wide
from .reduce import need_bool, need_tensor

_ReturnSort = return_type("sort", "values indices")
_ReturnTopk = return_type("topk", "values indices")
_ReturnKthvalue = return_type("kthvalue", "values indices")
_ReturnMedian = return_type("median", "values indices")
_ReturnNanmedian = return_type("nanmedian", "values indices")
_ReturnMode = return_type("mode", "values indices")

# -- the ops: each picks elements along one dimension, and the gradient goes back to their places ---------------------


def picked_vjp(g: Any, indices: Tensor, x_shape: tuple[int, ...], dim: int) -> Tensor:
    """Return the gradient of values that were picked along `dim`, back in their places."""
    return _gather_backward(g[0], indices, shape=x_shape, dim=dim) if x_shape else g[0]


def picking(name: str, places: Any, params: dict[str, Any], *sets: dict[str, Any], label: str = "") -> Any:
    """Declare an op whose values are elements of x; ``places(xp, x, dim, **params)`` says which."""

    def forward(xp: Any, x: Any, dim: int, **others: Any) -> Any:
        if not x.ndim:
            return x.copy(), xp.zeros((), xp.int64)
        at = places(xp, wide(x), dim, **others).astype(xp.int64)
        return xp.take_along_axis(x, at, dim), at

    return operation(
        name,
        forward,
        params={"dim": -1, **params},
        outputs="values indices",
        returns=2,
        vjp=(picked_vjp,),
        label=label,
        samples=lambda rng: [((rng.permutation(24).reshape(2, 3, 4) / 7.0,), s) for s in sets],
        contiguous=True,
    )


def _order(xp: Any, x: Any, dim: int, descending: bool) -> Any:
    """Return the stable order along `dim`; NaN counts as the greatest."""
    if not descending:
        return xp.argsort(x, axis=dim, kind="stable")
    return x.shape[dim] - 1 - xp.flip(xp.argsort(xp.flip(x, dim), axis=dim, kind="stable"), dim)


def _part(a: Any, dim: int, start: int, stop: int) -> Any:
    return a[(*(slice(None),) * dim, slice(start, stop))]


def _topk_places(xp: Any, x: Any, dim: int, k: int, largest: bool) -> Any:
    n = x.shape[dim]
    if not k or n < 64 or n < 4 * k:
        return _part(_order(xp, x, dim, largest), dim, 0, k)
    # A few of many: part them off, and put only them in order. NaN goes to the end of a partition too.
    at = xp.argpartition(x, n - k if largest else k - 1, axis=dim)
    at = xp.sort(_part(at, dim, n - k, n) if largest else _part(at, dim, 0, k), axis=dim)
    return xp.take_along_axis(at, _order(xp, xp.take_along_axis(x, at, dim), dim, largest), dim)


def _median_places(xp: Any, x: Any, dim: int, ignore_nan: bool) -> Any:
    order, n = _order(xp, x, dim, False), x.shape[dim]
    if x.dtype.kind != "f":
        return _part(order, dim, (n - 1) // 2, (n - 1) // 2 + 1)
    present = n - xp.isnan(x).sum(axis=dim, keepdims=True)  # NaN stand at the end of the order
    middle = xp.maximum(present - 1, 0) // 2
    at = middle if ignore_nan else xp.where(present < n, present, middle)
    return xp.take_along_axis(order, at, dim)


def _mode_places(xp: Any, x: Any, dim: int) -> Any:
    order = _order(xp, x, dim, False)
    sorted_, n = xp.moveaxis(xp.take_along_axis(x, order, dim), dim, -1), x.shape[dim]
    at = xp.broadcast_to(xp.arange(n), sorted_.shape)
    starts = xp.concatenate([xp.ones_like(sorted_[..., :1], bool), sorted_[..., 1:] != sorted_[..., :-1]], -1)
    run = at - running(xp, "maximum", xp.where(starts, at, 0), -1)
    longest = xp.moveaxis(xp.expand_dims(run.argmax(-1), -1), -1, dim)  # the end of the first of the longest runs
    return xp.take_along_axis(order, longest, dim)


def running(xp: Any, name: str, x: Any, axis: int) -> Any:
    """``ufunc.accumulate``; where the library has none, by doubling (Hillis & Steele 1986)."""
    f = getattr(xp, name)
    if xp is np:
        return f.accumulate(x, axis=axis)
    x, step = xp.moveaxis(x, axis, -1).copy(), 1
    while step < x.shape[-1]:
        x[..., step:] = f(x[..., step:], x[..., :-step])
        step *= 2
    return xp.moveaxis(x, -1, axis)


_sort = picking("sort", _order, {"descending": False}, {"dim": 0}, {"dim": 2, "descending": True})
_topk = picking(
    "topk", _topk_places, {"k": 1, "largest": True}, {"dim": 1, "k": 2}, {"dim": 2, "k": 3, "largest": False}
)
_kthvalue = picking("kthvalue", lambda xp, x, dim, k: _part(_order(xp, x, dim, False), dim, k - 1, k), {"k": 1},
                    {"dim": 1, "k": 2})  # fmt: skip
_median = picking("median", _median_places, {"ignore_nan": False}, {"dim": 1}, {"dim": 2, "ignore_nan": True})
_mode = picking("mode", _mode_places, {}, {"dim": 1})


def _whole_vjp(g: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Elements that equal the result share the gradient evenly."""
    y = y.detach()
    hit = ((x.detach() == y) if bool(y == y) else x.detach().isnan()).to(g.dtype)
    return hit * (g / hit.sum())


def _whole_median(xp: Any, x: Any, ignore_nan: bool) -> Any:
    flat = x.reshape(-1)
    if not flat.size:
        return xp.full((), xp.nan if x.dtype.kind in "fV" else 0, x.dtype)
    return flat[_median_places(xp, wide(flat), 0, ignore_nan)[0]].copy()


_median_of_all = operation("median_of_all", _whole_median, params={"ignore_nan": False}, vjp=_whole_vjp, label="median",
                           samples=lambda rng: [((rng.permutation(12).reshape(3, 4) / 7.0,), {})])  # fmt: skip

# -- the public functions ----------------------------------------------------------------------------------------------


def _into_both(out: Any, result: Any) -> Any:
    """Copy two results into ``out=(values, indices)`` where it was given."""
    if out is None:
        return result
    name = type(result).__name__
    return type(result)(
        *(into(o, t.detach() if i else t, name) for i, (o, t) in enumerate(zip(out, result, strict=True)))
    )


@public(
    home="reduce",
    fast=[Fast(op="sort(input, dim, descending)", types={"input": "any"}, result="sort", ignored=("stable",))],
)
def sort(
    input: Tensor, dim: Dim = -1, descending: bool = False, stable: bool = False, *, out: Tensors | None = None
) -> return_types.sort:
    """Return the elements in order along `dim`, and the indices they had; always stable. NaN counts as the greatest.

    *Shapes*: both results have the input's. *Raises*: IndexError for a dim out of range.

    >>> import core
    >>> core.sort(core.tensor([3.0, 1.0, 2.0])).indices
    tensor([1, 2, 0])
    """
    need_tensor(input, "sort")
    d = normalize_dim(dim, input.ndim, "sort")
    return _into_both(out, _ReturnSort(*_sort(input, dim=d, descending=bool(descending))))


@public(
    home="reduce",
    fast=[Fast(body="order_of(op.sort, input, dim, descending)", types={"input": "any"}, ignored=("stable",))],
)
def argsort(input: Tensor, dim: Dim = -1, descending: bool = False, stable: bool = False) -> Tensor:
    """Return the indices that put the elements in order along `dim`.

    >>> import core
    >>> core.argsort(core.tensor([3.0, 1.0, 2.0]), descending=True)
    tensor([0, 2, 1])
    """
    need_tensor(input, "argsort")
    return _sort(input, dim=normalize_dim(dim, input.ndim, "argsort"), descending=bool(descending))[1]  # type: ignore[no-any-return]


@public()
def msort(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the elements in order along the first dimension.

    >>> import core
    >>> core.msort(core.tensor([[3, 1], [2, 5]]))
    tensor([[2, 1],
            [3, 5]])
    """
    return into(out, sort(input, 0)[0], "msort")


@public(home="reduce",
        fast=[Fast(op="topk(input, dim, k, largest)", types={"input": "any"}, result="topk", ignored=("sorted",),
                   check=("{k} >= 0 && {k} <= PyArray_DIM({input}, {dim})",))])  # fmt: skip
def topk(
    input: Tensor, k: int, dim: Dim = -1, largest: bool = True, sorted: bool = True, *, out: Tensors | None = None
) -> return_types.topk:
    """Return the `k` greatest elements along `dim` (or the least), in order, and their indices.

    *Raises*: RuntimeError where there are fewer than `k`.

    >>> import core
    >>> core.topk(core.tensor([3.0, 1.0, 2.0]), 2).values
    tensor([3., 2.])
    """
    need_tensor(input, "topk")
    d, k = normalize_dim(dim, input.ndim, "topk"), int(k)
    n = input._a.shape[d] if input.ndim else 1
    if not 0 <= k <= n:
        raise RuntimeError(text("selected index k out of range", op="topk", came=f"k={k}", needed=f"0 to {n}"))
    return _into_both(out, _ReturnTopk(*_topk(input, dim=d, k=k, largest=bool(largest))))


def _one_of(result: Any, op: Any, input: Tensor, dim: int, keepdim: bool, out: Any, **params: Any) -> Any:
    values, indices = op(input, dim=dim, **params)
    if input.ndim and not keepdim:
        values, indices = values.squeeze(dim), indices.squeeze(dim)
    return _into_both(out, result(values, indices))


def _need_size(op: str, input: Tensor, dim: int) -> int:
    d = normalize_dim(dim, input.ndim, op)
    if input.ndim and input._a.shape[d] == 0:
        raise IndexError(text(f"{op}(): Expected reduction dim {d} to have non-zero size.", op=op,
                              came=f"shape {tuple(input._a.shape)}"))  # fmt: skip
    return d


@public()
def kthvalue(
    input: Tensor, k: int, dim: Dim = -1, keepdim: bool = False, *, out: Tensors | None = None
) -> return_types.kthvalue:
    """Return the `k`-th least element along `dim` (the first is k=1), and its index.

    *Raises*: RuntimeError where there is no `k`-th.

    >>> import core
    >>> core.kthvalue(core.tensor([3.0, 1.0, 2.0]), 2).values
    tensor(2.)
    """
    need_tensor(input, "kthvalue")
    need_bool(keepdim, "kthvalue")
    d = _need_size("kthvalue", input, dim)
    n = input._a.shape[d] if input.ndim else 1
    if not 1 <= k <= n:
        raise RuntimeError(text(f"kthvalue(): selected number k out of range for dimension {d}", op="kthvalue",
                                came=f"k={k}", needed=f"1 to {n}"))  # fmt: skip
    return _one_of(_ReturnKthvalue, _kthvalue, input, d, keepdim, out, k=int(k))


def _median_for(
    name: str, result: Any, ignore_nan: bool, input: Tensor, dim: int | None, keepdim: bool, out: Any
) -> Any:
    need_tensor(input, name)
    need_bool(keepdim, name)
    if dim is None:
        if keepdim:
            raise TypeError(text(f"{name}() takes keepdim with dim alone", op=name, came=f"keepdim={keepdim}, no dim",
                                 remedy=f"{name}().reshape((1,) * input.ndim)"))  # fmt: skip
        return _median_of_all(input, ignore_nan=ignore_nan)
    return _one_of(result, _median, input, _need_size(name, input, dim), keepdim, out, ignore_nan=ignore_nan)


@overload
def median(input: Tensor) -> Tensor: ...
@overload
def median(input: Tensor, dim: Dim, keepdim: bool = False, *, out: Tensors | None = None) -> return_types.median: ...
@public(home="reduce", state="quiet", fast=[Fast(body="middle_of_all(input)", types={"input": "real"})])
def median(input: Tensor, dim: Dim | None = None, keepdim: bool = False, *, out: Tensors | None = None) -> Any:
    """Return the middle element, the lower one of two; with `dim` the values along it and their indices. NaN if one is
    NaN.

    >>> import core
    >>> core.median(core.tensor([3.0, 1.0, 2.0, 7.0]))
    tensor(2.)
    >>> core.median(core.tensor([[3, 1, 2]]), dim=1).indices
    tensor([2])
    """
    return _median_for("median", _ReturnMedian, False, input, dim, keepdim, out)


@overload
def nanmedian(input: Tensor) -> Tensor: ...
@overload
def nanmedian(
    input: Tensor, dim: Dim, keepdim: bool = False, *, out: Tensors | None = None
) -> return_types.nanmedian: ...
@public()
def nanmedian(input: Tensor, dim: Dim | None = None, keepdim: bool = False, *, out: Tensors | None = None) -> Any:
    """As `median`, of what is not NaN.

    >>> import core
    >>> core.nanmedian(core.tensor([3.0, float("nan"), 2.0]))
    tensor(2.)
    """
    return _median_for("nanmedian", _ReturnNanmedian, True, input, dim, keepdim, out)


@public()
def mode(input: Tensor, dim: Dim = -1, keepdim: bool = False, *, out: Tensors | None = None) -> return_types.mode:
    """Return the most frequent element along `dim`, the least of several, and the index of its last occurrence.

    >>> import core
    >>> core.mode(core.tensor([3, 1, 1, 3, 0])).values
    tensor(1)
    """
    need_tensor(input, "mode")
    need_bool(keepdim, "mode")
    return _one_of(_ReturnMode, _mode, input, _need_size("mode", input, dim), keepdim, out)


# -- quantiles ---------------------------------------------------------------------------------------------------------

_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def _checked_q(name: str, input: Tensor, q: Any, interpolation: str) -> Tensor:
    need_tensor(input, name)
    phrase = None
    if input.dtype.name not in ("float32", "float64"):
        phrase = "input tensor must be either float or double dtype"
    elif not input.numel():
        phrase = "input tensor must be non-empty"
    elif isinstance(q, Tensor) and q.ndim > 1:
        phrase = f"q must be a scalar or 1D tensor, but got a tensor with {q.ndim} dimensions"
    elif isinstance(q, Tensor) and q.dtype is not input.dtype:
        phrase = "q tensor must be same dtype as the input tensor"
    elif interpolation not in _INTERPOLATIONS:
        phrase = ("interpolation must be one of linear, lower, higher, midpoint or nearest, but got "
                  f"{interpolation}")  # fmt: skip
    if phrase is None:
        if not isinstance(q, Tensor):
            q = from_array(backends.array_module(input.device.type).asarray(q, input._a.dtype), input.device)
        if bool(((q._a >= 0) & (q._a <= 1)).all()):
            return q
        phrase = f"q values must be in the range [0, 1] but got {q.tolist()}"
    raise RuntimeError(text(f"{name}() {phrase}", op=name, came=f"input {tuple(input._a.shape)} of {input.dtype}"))


def _quantile(name: str, input: Tensor, q: Any, dim: int | None, keepdim: bool, interpolation: str,
              ignore_nan: bool, out: Tensor | None) -> Tensor:  # fmt: skip
    q = _checked_q(name, input, q, interpolation)
    x = input.reshape(-1) if dim is None else input if input.ndim else input.reshape(1)
    d = 0 if dim is None else normalize_dim(dim, input.ndim, name)
    rows = _sort(x.movedim(d, -1), dim=x.ndim - 1)[0]
    xp, a = backends.array_module(input.device.type), rows._a
    n = a.shape[-1]
    nans = xp.isnan(a).sum(axis=-1, keepdims=True)
    last = (xp.maximum(n - nans - 1, 0) if ignore_nan else xp.full_like(nans, n - 1)).astype(a.dtype)
    ranks = q._a.reshape(-1) * last
    if not ignore_nan:
        ranks = xp.where(nans > 0, n - 1, ranks)  # the last one is NaN then
    if interpolation == "nearest":
        ranks = xp.rint(ranks)
    low = xp.ceil(ranks) if interpolation == "higher" else xp.floor(ranks)

    def at(places: Any) -> Tensor:
        return gather(rows, rows.ndim - 1, from_array(places.astype(xp.int64), input.device))

    y = at(low)
    if interpolation in ("linear", "midpoint"):
        weight = from_array((ranks - low if interpolation == "linear" else xp.full_like(ranks, 0.5)).astype(a.dtype),
                            input.device)  # fmt: skip
        if q.requires_grad and interpolation == "linear":  # the weight moves with q
            slope = from_array(xp.broadcast_to(last, ranks.shape).astype(a.dtype), input.device)
            weight = weight + (q - q.detach()).reshape(-1) * slope
        y = lerp(y, at(xp.ceil(ranks)), weight)
    y = y.movedim(-1, 0)
    if keepdim:
        y = y.reshape(y.shape[0], *(1,) * input.ndim) if dim is None or not input.ndim else y.unsqueeze(d + 1)
    return into(out, y if q.ndim else y.squeeze(0), name)


@public()
def quantile(
    input: Tensor,
    q: float | Tensor,
    dim: Dim | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
    out: Tensor | None = None,
) -> Tensor:
    """Return the value below which the share `q` lies, over all elements or along `dim`; between two by
    `interpolation`.

    `q` is a number or a vector, which becomes the first dimension of the result; `interpolation` is "linear",
    "lower", "higher", "midpoint" or "nearest". *Raises*: RuntimeError for a `q` outside [0, 1] or of another dtype.

    >>> import core
    >>> core.quantile(core.tensor([0.0, 1.0, 2.0, 3.0]), 0.5)
    tensor(1.5000)
    """
    return _quantile("quantile", input, q, dim, keepdim, interpolation, False, out)


@public()
def nanquantile(input: Tensor, q: float | Tensor, dim: Dim | None = None, keepdim: bool = False, *,
                interpolation: str = "linear", out: Tensor | None = None) -> Tensor:  # fmt: skip
    """As `quantile`, of what is not NaN.

    >>> import core
    >>> core.nanquantile(core.tensor([0.0, float("nan"), 1.0]), 0.5)
    tensor(0.5000)
    """
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation, True, out)
