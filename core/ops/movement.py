"""Movement: casts, reshapes, transposes, joins. Where PyTorch gives a view, so do these."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..binding import public
from ..device import Kind, device as Device, kind as kind_of
from ..dtypes import dtype as Dtype
from ..errors import text
from ..op import operation
from ..shape import as_shape, normalize_dim
from ..tensor import Tensor

# -- casts and copies --------------------------------------------------------------------------------------------------

_cast = operation("cast", lambda xp, x, dtype: x.astype(dtype.numpy), params={"dtype": None},
                  vjp=lambda g, x_dtype: g.to(x_dtype))  # fmt: skip
_clone = operation("clone", lambda xp, x: x.copy(), vjp=lambda g: g)
_contiguous = operation("contiguous", lambda xp, x: xp.ascontiguousarray(x).reshape(x.shape), vjp=lambda g: g)


@public()
def to(input: Tensor, *args: Any, dtype: Dtype | None = None, device: Any = None, non_blocking: bool = False,
       copy: bool = False) -> Tensor:  # fmt: skip
    """`input` as another dtype or on another device, on the graph; itself when nothing changes.

    >>> import core
    >>> core.tensor([1, 2]).to(core.float64).dtype
    core.float64
    """
    for a in args:
        if isinstance(a, Tensor):
            dtype, device = a.dtype, a.device
        elif isinstance(a, Kind):
            dtype, device = a.dtype, a.device
        elif isinstance(a, Dtype):
            dtype = a
        elif isinstance(a, str | Device | int) and not isinstance(a, bool):
            device = a
    kind = kind_of(dtype or input.dtype, input.device if device is None else Device(device))
    if kind is input._kind:
        return _clone(input) if copy else input
    if kind.device is not input.device:
        from ..backends.transfer import move

        input = move(input, kind.device)
    return input if kind is input._kind else _cast(input, dtype=kind.dtype)


@public()
def clone(input: Tensor, *, memory_format: Any = None) -> Tensor:
    """A copy with its own memory, on the graph.

    >>> import core
    >>> core.clone(core.tensor([1.0]))
    tensor([1.])
    """
    return _clone(input)


@public(namespace=None)
def contiguous(input: Tensor, memory_format: Any = None) -> Tensor:
    """`input` itself if its elements lie in row-major order, else a copy that does."""
    return input if input.is_contiguous() else _contiguous(input)


# -- views -------------------------------------------------------------------------------------------------------------

_view = operation("view", lambda xp, x, shape: x.reshape(shape), params={"shape": ()}, view=True,
                  vjp=lambda g, x_shape: g.reshape(x_shape),
                  samples=lambda rng: [((rng.uniform(-2, 2, (2, 3, 4)),), {"shape": (6, 4)})])  # fmt: skip
_permute = operation("permute", lambda xp, x, dims: x.transpose(dims), params={"dims": ()}, view=True,
                     vjp=lambda g, dims: g.permute(tuple(int(i) for i in np.argsort(dims))),
                     samples=lambda rng: [((rng.uniform(-2, 2, (2, 3, 4)),), {"dims": (2, 0, 1)})])  # fmt: skip
_expand = operation("expand", lambda xp, x, shape: xp.broadcast_to(x, shape), params={"shape": ()}, view=True,
                    vjp=lambda g, x_shape: g.sum_to_size(x_shape),
                    samples=lambda rng: [((rng.uniform(-2, 2, (3, 1)),), {"shape": (2, 3, 4)})])  # fmt: skip


def _filled(shape: tuple[int, ...], n: int, op: str) -> tuple[int, ...]:
    """`shape` with its -1 worked out for `n` elements."""
    known = 1
    for d in shape:
        known *= d if d != -1 else 1
    if shape.count(-1) == 1 and known and n % known == 0:
        shape = tuple(n // known if d == -1 else d for d in shape)
        known = n
    if known != n or -1 in shape:
        raise RuntimeError(text(f"shape '{list(shape)}' is invalid for input of size {n}", op=op))
    return shape


@public()
def reshape(input: Tensor, *shape: Any) -> Tensor:
    """The same elements in another shape; a view where the layout allows it, else a copy. One size may be -1.

    >>> import core
    >>> core.arange(6).reshape(2, -1).shape
    core.Size([2, 3])
    """
    target = _filled(as_shape(shape), input.numel(), "reshape")
    try:
        input._a.view().reshape(target, copy=False) if isinstance(input._a, np.ndarray) else None
    except ValueError:
        input = _contiguous(input)
    return _view(input, shape=target)


@public()
def permute(input: Tensor, *dims: Any) -> Tensor:
    """A view with its dimensions in another order.

    >>> import core
    >>> core.ones(2, 3, 4).permute(2, 0, 1).shape
    core.Size([4, 2, 3])
    """
    order = as_shape(dims)
    if len(order) != input.ndim:
        raise RuntimeError(text("permute(sparse_coo): number of dimensions in the tensor input does not match the length of "
                                f"the desired ordering of dimensions i.e. input.dim() = {input.ndim} is not equal to "
                                f"len(dims) = {len(order)}", op="permute"))  # fmt: skip
    return _permute(input, dims=tuple(normalize_dim(d, input.ndim, "permute") for d in order))


@public(namespace=None)
def expand(input: Tensor, *shape: Any) -> Tensor:
    """A view in which dimensions of size 1 are stretched; -1 keeps a size.

    >>> import core
    >>> core.tensor([[1.0], [2.0]]).expand(2, 3).shape
    core.Size([2, 3])
    """
    target = as_shape(shape)
    lead = len(target) - input.ndim
    if lead < 0:
        raise RuntimeError(text(f"expand({list(input.shape)}, size={list(target)}): the number of sizes provided ({len(target)}) "
                                f"must be greater or equal to the number of dimensions in the tensor ({input.ndim})", op="expand"))  # fmt: skip
    full = tuple(input.shape[i - lead] if d == -1 else d for i, d in enumerate(target))
    for i, n in enumerate(input.shape):
        if n not in (1, full[lead + i]):
            raise RuntimeError(text(f"The expanded size of the tensor ({full[lead + i]}) must match the existing size ({n}) at "
                                    f"non-singleton dimension {lead + i}.  Target sizes: {list(full)}.  Tensor sizes: "
                                    f"{list(input.shape)}", op="expand"))  # fmt: skip
    return input if full == tuple(input.shape) else _expand(input, shape=full)


@public(namespace=None)
def sum_to_size(input: Tensor, *size: Any) -> Tensor:
    """The sum over the dimensions that broadcasting would stretch `size` along to reach this shape."""
    shape = as_shape(size)
    lead = input.ndim - len(shape)
    dims = tuple(range(lead)) + tuple(lead + i for i, n in enumerate(shape) if n == 1 and input.shape[lead + i] != 1)
    y = input.sum(dims) if dims else input  # type: ignore[attr-defined]
    return y.reshape(shape) if tuple(y.shape) != shape else y  # type: ignore[no-any-return]
