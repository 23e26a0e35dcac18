"""The greatest and the least: their values, their places, and how ties share the gradient."""

from __future__ import annotations

from typing import Any, overload

from .. import return_types
from ..base.errors import text
from ..base.modes import state as mode
from ..base.shape import normalize_dim, normalize_dims
from ..declare.kinds import Dim, Dims, Tensors
from ..declare.signature import Fast
from ..dispatch.declare import operation
from ..dispatch.publish import public
from ..return_types import return_type
from ..tensors.tensor import Tensor
from .elementwise import maximum, minimum
from .precision import rounded, wide
from .reduce import count, kept, need_bool, need_tensor, reduction_samples, sum
from .where import where

_ReturnMax = return_type("max", "values indices")
_ReturnMin = return_type("min", "values indices")
_ReturnAminmax = return_type("aminmax", "min max")


def _share(g: Tensor, x: Tensor, y: Tensor, dim: tuple[int, ...], keepdim: bool) -> Tensor:
    """Elements that equal the result share the gradient evenly."""
    shape = kept(tuple(x.shape), dim)
    hit = (x.detach() == y.detach().reshape(shape)).to(g.dtype)
    return hit * (g.reshape(shape) / hit.sum(dim, keepdim=True))


_amax = operation("amax", lambda xp, x, dim, keepdim: rounded(wide(x).max(axis=dim, keepdims=keepdim), x.dtype),
                  params={"dim": (), "keepdim": False}, vjp=_share, samples=reduction_samples,
                  contiguous=True)  # fmt: skip
_amin = operation("amin", lambda xp, x, dim, keepdim: rounded(wide(x).min(axis=dim, keepdims=keepdim), x.dtype),
                  params={"dim": (), "keepdim": False}, vjp=_share, samples=reduction_samples,
                  contiguous=True)  # fmt: skip


def _samples_at(rng: Any) -> list[Any]:
    x = rng.permutation(24).reshape(2, 3, 4) / 7.0  # no ties, so that the place is one
    return [((x,), {"dim": d, "keepdim": k}) for d, k in [(0, False), (1, True), (2, False)]]


def _place(name: str) -> Any:
    def forward(xp: Any, x: Any, dim: int, keepdim: bool) -> Any:
        y = xp.asarray(getattr(xp, name)(wide(x), axis=dim if x.ndim else None))
        return (xp.expand_dims(y, dim) if keepdim and x.ndim else y).astype(xp.int64)

    return operation(name, forward, params={"dim": -1, "keepdim": False}, samples=_samples_at)


_argmax, _argmin = _place("argmax"), _place("argmin")

_mask_at = operation(
    "mask_at",
    lambda xp, index, dim, size: index == xp.arange(size).reshape([-1 if i == dim else 1 for i in range(index.ndim)]),
    inputs="index",
    params={"dim": 0, "size": 1},
    samples=lambda rng: [((rng.integers(0, 4, (2, 1)),), {"dim": 1, "size": 4})],
    doc="True where the position along `dim`, of `size`, is the index; the index has size 1 there.",
)


def _extreme_vjp(g: Any, indices: Tensor, x_shape: tuple[int, ...], dim: int, keepdim: bool) -> Tensor:
    if not x_shape:
        return g[0]
    shape = kept(x_shape, (dim,))
    return where(_mask_at(indices.reshape(shape), dim=dim, size=x_shape[dim]), g[0].reshape(shape), 0.0)


def _extreme(name: str, place: str) -> Any:
    def forward(xp: Any, x: Any, dim: int, keepdim: bool) -> Any:
        if not x.ndim:
            return x.copy(), xp.zeros((), xp.int64)
        at = xp.expand_dims(getattr(xp, place)(wide(x), axis=dim), dim)
        values = xp.take_along_axis(x, at, dim)
        at = at.astype(xp.int64)
        return (values, at) if keepdim else (values.squeeze(dim), at.squeeze(dim))

    return operation(name, forward, params={"dim": -1, "keepdim": False}, outputs="values indices", returns=2,
                     vjp=(_extreme_vjp,), samples=_samples_at)  # fmt: skip


_max_dim, _min_dim = _extreme("max_dim", "argmax"), _extreme("min_dim", "argmin")


def _need_elements(input: Tensor, dims: tuple[int, ...], given: bool, op: str, error: type = RuntimeError) -> None:
    if input._a.size or count(tuple(input.shape), dims):
        return
    if not given:
        raise error(
            text(
                f"{op}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim "
                "with the 'dim' argument.",
                op=op,
                came=f"shape {tuple(input.shape)}",
            )
        )
    empty = next(d for d in dims if input.shape[d] == 0)
    raise IndexError(text(f"{op}(): Expected reduction dim {empty} to have non-zero size.", op=op,
                          came=f"shape {tuple(input.shape)}"))  # fmt: skip


def _many(op: Any, name: str, input: Tensor, dim: Any, keepdim: bool) -> Tensor:
    need_tensor(input, name)
    need_bool(keepdim, name)
    dims = normalize_dims(dim, input.ndim, name)
    _need_elements(input, dims, not (dim is None or dim == ()), name)
    return op(input, dim=dims, keepdim=keepdim)


REAL, NUMBERS = {"input": "real"}, {"input": "real int64"}
SOME = ("PyArray_SIZE({input})",)  # nothing has no greatest element


@public(home="reduce", fast=[Fast(op="amax(input, dim, keepdim)", types=NUMBERS, check=SOME)])
def amax(input: Tensor, dim: Dims = (), keepdim: bool = False) -> Tensor:
    """Return the greatest element over everything, or over `dim` (one or several). Ties share the gradient evenly.

    >>> import core
    >>> core.amax(core.tensor([[1.0, 5.0], [7.0, 2.0]]), 1)
    tensor([5., 7.])
    """
    return _many(_amax, "amax", input, dim, keepdim)


@public(home="reduce", fast=[Fast(op="amin(input, dim, keepdim)", types=NUMBERS, check=SOME)])
def amin(input: Tensor, dim: Dims = (), keepdim: bool = False) -> Tensor:
    """Return the least element over everything, or over `dim` (one or several). Ties share the gradient evenly.

    >>> import core
    >>> core.amin(core.tensor([[1.0, 5.0], [7.0, 2.0]]), 1)
    tensor([1., 2.])
    """
    return _many(_amin, "amin", input, dim, keepdim)


@public()
def aminmax(input: Tensor, *, dim: Dim | None = None, keepdim: bool = False) -> return_types.aminmax:
    """Return the least and the greatest element, as a named tuple (min, max).

    >>> import core
    >>> core.aminmax(core.tensor([3.0, 1.0, 2.0])).min
    tensor(1.)
    """
    return _ReturnAminmax(
        amin(input, () if dim is None else dim, keepdim), amax(input, () if dim is None else dim, keepdim)
    )


def _one(op: Any, whole: Any, pairs: Any, result: Any, name: str, input: Tensor, dim: Any, keepdim: bool,
         other: Any) -> Any:  # fmt: skip
    need_tensor(input, name)
    if isinstance(dim, Tensor) or other is not None:
        return pairs(input, dim if other is None else other)
    if dim is None:
        if keepdim:
            raise TypeError(text(f"{name}() takes keepdim with dim alone", op=name, came=f"keepdim={keepdim}, no dim",
                                 remedy=f"a{name}(keepdim=True)"))  # fmt: skip
        dims = tuple(range(input.ndim))
        _need_elements(input, dims, False, name)
        y = whole(input, dim=dims, keepdim=False)
        if mode.enabled and input.requires_grad and input.device.type == "cpu" and y._a != y._a:
            odd = input.isnan()  # their gradient is shared by the NaNs
            return sum(where(odd, input, 0.0)) / odd.sum()
        return y
    need_bool(keepdim, name)
    d = normalize_dim(dim, input.ndim, name)
    _need_elements(input, (d,) if input.ndim else (), True, name)
    return result(*op(input, dim=d, keepdim=keepdim))


@overload
def max(input: Tensor) -> Tensor: ...
@overload
def max(input: Tensor, dim: Dim, keepdim: bool = False, *, out: Tensors | None = None) -> return_types.max: ...
@overload
def max(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@public(home="reduce",
        fast=[Fast(op="max_dim(input, dim, keepdim)", types=NUMBERS, given=("dim",), check=SOME, result="max"),
              Fast(body="whole_extreme(op.amax, input)", types=NUMBERS, check=SOME)])  # fmt: skip
def max(input: Tensor, dim: Dim | Tensor | None = None, keepdim: bool = False, *, other: Tensor | None = None) -> Any:
    """Return the greatest element; with `dim` the values along it and their indices; with another tensor the `maximum`.

    The gradient of the whole maximum is shared evenly among ties; along `dim` it goes to the index.

    >>> import core
    >>> core.max(core.tensor([[1.0, 5.0], [7.0, 2.0]]), dim=1).indices
    tensor([1, 0])
    """
    return _one(_max_dim, _amax, maximum, _ReturnMax, "max", input, dim, keepdim, other)


@overload
def min(input: Tensor) -> Tensor: ...
@overload
def min(input: Tensor, dim: Dim, keepdim: bool = False, *, out: Tensors | None = None) -> return_types.min: ...
@overload
def min(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@public(home="reduce",
        fast=[Fast(op="min_dim(input, dim, keepdim)", types=NUMBERS, given=("dim",), check=SOME, result="min"),
              Fast(body="whole_extreme(op.amin, input)", types=NUMBERS, check=SOME)])  # fmt: skip
def min(input: Tensor, dim: Dim | Tensor | None = None, keepdim: bool = False, *, other: Tensor | None = None) -> Any:
    """Return the least element; with `dim` the values along it and their indices; with another tensor the `minimum`.

    >>> import core
    >>> core.min(core.tensor([[1.0, 5.0], [7.0, 2.0]]), dim=1).values
    tensor([1., 2.])
    """
    return _one(_min_dim, _amin, minimum, _ReturnMin, "min", input, dim, keepdim, other)


def _at(op: Any, name: str, input: Tensor, dim: int | None, keepdim: bool) -> Tensor:
    need_tensor(input, name)
    if input.dtype.category == 0:
        raise RuntimeError(text(f"{name}(): does not support bool input", op=name, remedy="x.int() first"))
    if dim is None:
        _need_elements(input, tuple(range(input.ndim)), False, name, IndexError)
        y = op(input.reshape(-1), dim=0, keepdim=False)
        return y.reshape((1,) * input.ndim) if keepdim else y
    d = normalize_dim(dim, input.ndim, name)
    _need_elements(input, (d,) if input.ndim else (), True, name)
    return op(input, dim=d, keepdim=keepdim) if input.ndim else op(input.reshape(1), dim=0, keepdim=False)


@public(home="reduce",
        fast=[Fast(op="argmax(input, dim, keepdim)", types=REAL, given=("dim",), check=SOME),
              Fast(body="whole_place(op.argmax, input)", types=REAL,
                   check=(*SOME, "PyArray_NDIM({input})", "PyArray_IS_C_CONTIGUOUS({input})"))])  # fmt: skip
def argmax(input: Tensor, dim: Dim | None = None, keepdim: bool = False) -> Tensor:
    """Return the index of the greatest element, of all of them in row-major order or along `dim`; the first of ties.

    >>> import core
    >>> core.argmax(core.tensor([[1.0, 5.0], [7.0, 2.0]]), dim=1)
    tensor([1, 0])
    """
    return _at(_argmax, "argmax", input, dim, keepdim)


@public(home="reduce",
        fast=[Fast(op="argmin(input, dim, keepdim)", types=REAL, given=("dim",), check=SOME),
              Fast(body="whole_place(op.argmin, input)", types=REAL,
                   check=(*SOME, "PyArray_NDIM({input})", "PyArray_IS_C_CONTIGUOUS({input})"))])  # fmt: skip
def argmin(input: Tensor, dim: Dim | None = None, keepdim: bool = False) -> Tensor:
    """Return the index of the least element, of all of them in row-major order or along `dim`; the first of ties.

    >>> import core
    >>> core.argmin(core.tensor([[1.0, 5.0], [7.0, 2.0]]))
    tensor(0)
    """
    return _at(_argmin, "argmin", input, dim, keepdim)
