"""Shapes and places of elements, by the array API standard's signatures."""

from __future__ import annotations

from collections.abc import Sequence

from ..base.errors import text
from ..dispatch.publish import namespaces
from ..tensors.tensor import Tensor
from .promotion import together

_f = namespaces[""]
Axes = int | tuple[int, ...]


def broadcast_to(x: Tensor, /, shape: tuple[int, ...]) -> Tensor:
    """Return `x` as a view of a greater shape.

    >>> import core.array_api as xp
    >>> xp.broadcast_to(xp.arange(2), (3, 2)).shape
    core.Size([3, 2])
    """
    return _f["broadcast_to"](x, tuple(shape))  # type: ignore[no-any-return]


def broadcast_arrays(*arrays: Tensor) -> list[Tensor]:
    """Return the arrays as views of the shape that all broadcast to.

    >>> import core.array_api as xp
    >>> [a.shape for a in xp.broadcast_arrays(xp.ones((2, 1)), xp.ones(3))]
    [core.Size([2, 3]), core.Size([2, 3])]
    """
    shape = _f["broadcast_shapes"](*(a.shape for a in arrays)) if arrays else ()
    return [broadcast_to(a, shape) for a in arrays]


def concat(arrays: Sequence[Tensor], /, *, axis: int | None = 0) -> Tensor:
    """Return the arrays one after another along an axis; without one (None), flattened.

    >>> import core.array_api as xp
    >>> xp.concat([xp.ones((1, 2)), xp.zeros((1, 2))], axis=None)
    tensor([1., 1., 0., 0.])
    """
    parts = together(*arrays)
    if axis is None:
        parts, axis = [p.reshape(-1) for p in parts], 0  # type: ignore[attr-defined]
    return _f["cat"](parts, axis)  # type: ignore[no-any-return]


def stack(arrays: Sequence[Tensor], /, *, axis: int = 0) -> Tensor:
    """Return arrays of one shape along a new axis.

    >>> import core.array_api as xp
    >>> xp.stack([xp.ones(2), xp.zeros(2)], axis=1)
    tensor([[1., 0.],
            [1., 0.]])
    """
    return _f["stack"](together(*arrays), axis)  # type: ignore[no-any-return]


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """Return the slices along an axis.

    >>> import core.array_api as xp
    >>> xp.unstack(xp.arange(2))
    (tensor(0), tensor(1))
    """
    return tuple(_f["unbind"](x, axis))


def expand_dims(x: Tensor, /, axis: int) -> Tensor:
    """Return `x` with a new axis of one element.

    >>> import core.array_api as xp
    >>> xp.expand_dims(xp.ones(2), 0).shape
    core.Size([1, 2])
    """
    return _f["unsqueeze"](x, axis)  # type: ignore[no-any-return]


def squeeze(x: Tensor, /, axis: Axes) -> Tensor:
    """Return `x` without axes of one element. *Raises*: ValueError for an axis of another length.

    >>> import core.array_api as xp
    >>> xp.squeeze(xp.ones((1, 2)), 0).shape
    core.Size([2])
    """
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    if any(x.shape[a] != 1 for a in axes):
        raise ValueError(text("only axes of one element can be left out", op="squeeze",
                              came=f"shape {tuple(x.shape)}, axis {axis}"))  # fmt: skip
    return _f["squeeze"](x, axes) if axes else x


def flip(x: Tensor, /, *, axis: Axes | None = None) -> Tensor:
    """Return the elements in reverse along axes, along all where none is named.

    >>> import core.array_api as xp
    >>> xp.flip(xp.arange(3))
    tensor([2, 1, 0])
    """
    axes = tuple(range(x.ndim)) if axis is None else (axis,) if isinstance(axis, int) else axis
    return _f["flip"](x, axes)  # type: ignore[no-any-return]


def moveaxis(x: Tensor, source: Axes, destination: Axes, /) -> Tensor:
    """Return `x` with axes at other places, the rest in their order.

    >>> import core.array_api as xp
    >>> xp.moveaxis(xp.ones((2, 3, 4)), 0, -1).shape
    core.Size([3, 4, 2])
    """
    return _f["moveaxis"](x, source, destination)  # type: ignore[no-any-return]


def permute_dims(x: Tensor, /, axes: tuple[int, ...]) -> Tensor:
    """Return `x` with its axes in another order.

    >>> import core.array_api as xp
    >>> xp.permute_dims(xp.ones((2, 3)), (1, 0)).shape
    core.Size([3, 2])
    """
    return _f["permute"](x, tuple(axes))  # type: ignore[no-any-return]


def repeat(x: Tensor, repeats: int | Tensor, /, *, axis: int | None = None) -> Tensor:
    """Return every element several times: `repeats` of each, of the flattened array where no axis is named.

    >>> import core.array_api as xp
    >>> xp.repeat(xp.arange(2), 2)
    tensor([0, 0, 1, 1])
    """
    return _f["repeat_interleave"](x, repeats, axis)  # type: ignore[no-any-return]


def tile(x: Tensor, repetitions: tuple[int, ...], /) -> Tensor:
    """Return `x` several times along each axis.

    >>> import core.array_api as xp
    >>> xp.tile(xp.arange(2), (2,))
    tensor([0, 1, 0, 1])
    """
    return _f["tile"](x, tuple(repetitions))  # type: ignore[no-any-return]


def reshape(x: Tensor, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Tensor:
    """Return the elements in another shape. *Raises*: ValueError where `copy` is False and no view has it.

    >>> import core.array_api as xp
    >>> xp.reshape(xp.arange(4), (2, -1)).shape
    core.Size([2, 2])
    """
    y: Tensor = _f["reshape"](x.clone() if copy else x, tuple(shape))  # type: ignore[attr-defined]
    if copy is False and y.data_ptr() != x.data_ptr():
        raise ValueError(text("the elements cannot have that shape without a copy", op="reshape",
                              came=f"{tuple(x.shape)} to {tuple(shape)}", remedy="copy=None"))  # fmt: skip
    return y


def roll(x: Tensor, /, shift: Axes, *, axis: Axes | None = None) -> Tensor:
    """Return the elements moved by `shift` along an axis, those beyond its end at its start.

    >>> import core.array_api as xp
    >>> xp.roll(xp.arange(3), 1)
    tensor([2, 0, 1])
    """
    return _f["roll"](x, shift, axis)  # type: ignore[no-any-return]


def diff(x: Tensor, /, *, axis: int = -1, n: int = 1, prepend: Tensor | None = None,
         append: Tensor | None = None) -> Tensor:  # fmt: skip
    """Return the differences of neighbours along an axis, taken `n` times.

    >>> import core.array_api as xp
    >>> xp.diff(xp.asarray([1, 4, 9]))
    tensor([3, 5])
    """
    return _f["diff"](x, n, axis, prepend, append)  # type: ignore[no-any-return]
