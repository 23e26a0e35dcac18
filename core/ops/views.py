"""Views: other shapes and strides over the same memory. Where PyTorch gives a view, so do these."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ..base.device import kind
from ..base.dtypes import dtype as Dtype
from ..base.errors import text
from ..base.shape import as_shape, normalize_dim
from ..declare.kinds import Dim, Dims, Size, Sizes
from ..declare.signature import Fast
from ..dispatch.publish import bind, offer, public
from ..tensors.tensor import Tensor, storage_of, wrap
from .movement import _contiguous
from .view_ops import _expand, _permute, _squeeze, _t, _transpose, _unsqueeze, _view

# -- other shapes ------------------------------------------------------------------------------------------------------


def _filled(shape: tuple[int, ...], n: int, op: str) -> tuple[int, ...]:
    """`shape` with its -1 worked out for `n` elements."""
    if shape.count(-1) > 1:
        raise RuntimeError(text("only one dimension can be inferred", op=op, came=f"{shape}"))
    if any(d < -1 for d in shape):
        raise RuntimeError(text(f"invalid shape dimension {min(shape)}", op=op, came=f"{shape}"))
    known = prod(d for d in shape if d != -1)
    if -1 in shape and not known:
        if n == 0:
            raise RuntimeError(
                text(
                    f"cannot reshape tensor of 0 elements into shape {list(shape)} because the unspecified "
                    "dimension size -1 can be any value and is ambiguous",
                    op=op,
                )
            )
    elif -1 in shape and n % known == 0:
        return tuple(n // known if d == -1 else d for d in shape)
    if known != n or -1 in shape:
        raise RuntimeError(text(f"shape '{list(shape)}' is invalid for input of size {n}", op=op,
                                came=f"{n} elements", needed=f"{known} elements" if -1 not in shape else
                                f"a multiple of {known}"))  # fmt: skip
    return shape


def viewable(a: Any, shape: tuple[int, ...]) -> bool:
    """Return whether an array's layout allows the shape without a copy."""
    if a.flags.c_contiguous:
        return True
    try:
        if isinstance(a, np.ndarray):
            a.reshape(shape, copy=False)
        else:
            a.view().shape = shape
    except (ValueError, AttributeError):
        return False
    return True


@public(home="views", state="quiet", fast=[Fast(body="reshaped(input, sizes, shape)", types={"input": "any"})])
def reshape(input: Tensor, *sizes: Size, shape: Sizes | None = None) -> Tensor:
    """Return the same elements in another shape; a view where the layout allows it, else a copy. One size may be -1.

    *Raises*: RuntimeError where the number of elements differs.

    >>> import core
    >>> core.arange(6).reshape(2, -1).shape
    core.Size([2, 3])
    """
    target = _filled(as_shape(sizes if shape is None else (shape,), "", True), input.numel(), "reshape")
    return _view(input if viewable(input._a, target) else _contiguous(input), shape=target)


@public(
    namespace=None,
    home="views",
    state="quiet",
    fast=[Fast(body="viewed_as(input, sizes, size)", types={"input": "any"})],
)
def view(input: Tensor, *sizes: Size, size: Sizes | None = None, dtype: Dtype | None = None) -> Tensor:
    """Return the same memory in another shape, or its bits read as another dtype. One size may be -1.

    *Raises*: RuntimeError where the number of elements differs, or where the strides do not allow the shape.

    >>> import core
    >>> core.arange(6).view(3, 2).shape
    core.Size([3, 2])
    """
    if dtype is None and len(sizes) == 1 and isinstance(sizes[0], Dtype):
        dtype = sizes[0]
    if dtype is not None:
        return _bits(input, dtype)
    target = _filled(as_shape(sizes if size is None else (size,), "", True), input.numel(), "view")
    if not viewable(input._a, target):
        raise RuntimeError(
            text(
                "view size is not compatible with input tensor's size and stride (at least one dimension spans across "
                "two contiguous subspaces). Use .reshape(...) instead.",
                op="view",
                came=f"shape {tuple(input._a.shape)} with strides {input.stride()}",
                needed=f"a layout that reads as {target} without a copy",
                remedy="x.reshape(...), or x.contiguous().view(...)",
            )
        )
    return _view(input, shape=target)


def _bits(x: Tensor, d: Dtype) -> Tensor:
    """Return the bits of `x` read as another dtype; outside the graph, in the same memory."""
    if d.itemsize != x.dtype.itemsize and x.ndim == 0:
        raise RuntimeError(
            text(f"self.dim() cannot be 0 to view {x.dtype} as {d} (different element sizes)", op="view")
        )
    try:
        a = x._a.view(d.numpy)
    except ValueError as e:
        raise RuntimeError(
            text(
                f"self.size(-1) must be divisible by {d.itemsize // x.dtype.itemsize or 1} to view "
                f"{x.dtype} as {d} (different element sizes)",
                op="view",
                came=str(e),
            )
        ) from None
    out = wrap(a, kind(d, x.device))
    out._storage = storage_of(x)
    return out


@public(namespace=None)
def view_as(input: Tensor, other: Tensor) -> Tensor:
    """`input.view` with the shape of `other`."""
    return view(input, tuple(other._a.shape))


@public(namespace=None)
def reshape_as(input: Tensor, other: Tensor) -> Tensor:
    """`input.reshape` with the shape of `other`."""
    return reshape(input, tuple(other._a.shape))


@public()
def ravel(input: Tensor) -> Tensor:
    """All elements in one dimension; a view where the layout allows it.

    >>> import core
    >>> core.ones(2, 3).ravel().shape
    core.Size([6])
    """
    return input if input.ndim == 1 else reshape(input, -1)


@public(home="views", state="quiet", fast=[Fast(body="flattened(input, start_dim, end_dim)", types={"input": "any"})])
def flatten(input: Tensor, start_dim: Dim = 0, end_dim: Dim = -1) -> Tensor:
    """Return the dimensions from `start_dim` to `end_dim` as one; a view where the layout allows it.

    *Shapes*: ``(a, b, c) -> (a, b * c)`` for start_dim 1.

    >>> import core
    >>> core.ones(2, 3, 4).flatten(1).shape
    core.Size([2, 12])
    """
    if input.ndim == 0:
        return reshape(input, 1)
    lo, hi = (normalize_dim(d, input.ndim, "flatten") for d in (start_dim, end_dim))
    if lo > hi:
        raise RuntimeError(text("flatten() has invalid args: start_dim cannot come after end_dim", op="flatten",
                                came=f"{start_dim} and {end_dim}"))  # fmt: skip
    shape = input._a.shape
    return input if lo == hi else reshape(input, (*shape[:lo], prod(shape[lo : hi + 1]), *shape[hi + 1 :]))


@public()
def unflatten(input: Tensor, dim: Dim, sizes: Sizes) -> Tensor:
    """One dimension as several; one of `sizes` may be -1.

    >>> import core
    >>> core.ones(2, 12).unflatten(1, (3, -1)).shape
    core.Size([2, 3, 4])
    """
    d = normalize_dim(dim, input.ndim, "unflatten")
    shape, inner = input._a.shape, as_shape((sizes,), "", True)
    if not inner:
        raise RuntimeError(text("unflatten: sizes must be non-empty", op="unflatten"))
    try:
        inner = _filled(inner, shape[d], "unflatten")
    except RuntimeError:
        raise RuntimeError(text(f"unflatten: Provided sizes {list(inner)} don't multiply up to the size of dim {dim} "
                                f"({shape[d]}) in the input tensor", op="unflatten")) from None  # fmt: skip
    return view(input, (*shape[:d], *inner, *shape[d + 1 :]))


# -- other orders of the dimensions ------------------------------------------------------------------------------------


@public(
    home="views", state="quiet", fast=[Fast(body="permuted(input, order, dims)", types={"input": "any"}, raw=("dims",))]
)
def permute(input: Tensor, *order: Size, dims: Dims | None = None) -> Tensor:
    """Return a view with its dimensions in another order.

    >>> import core
    >>> core.ones(2, 3, 4).permute(2, 0, 1).shape
    core.Size([4, 2, 3])
    """
    order = as_shape(order if dims is None else (dims,))
    if len(order) != input.ndim:
        raise RuntimeError(
            text(
                "permute(sparse_coo): number of dimensions in the tensor input does not match the length of "
                f"the desired ordering of dimensions i.e. input.dim() = {input.ndim} is not equal to "
                f"len(dims) = {len(order)}",
                op="permute",
            )
        )
    full = tuple(normalize_dim(d, input.ndim, "permute") for d in order)
    if len(set(full)) < len(full):
        raise RuntimeError(text("permute(): duplicate dims are not allowed.", op="permute", came=f"{order}"))
    return _permute(input, dims=full)


@public(
    "swapaxes",
    "swapdims",
    home="views",
    state="quiet",
    fast=[Fast(body="exchanged(input, dim0, dim1)", types={"input": "any"})],
)
def transpose(input: Tensor, dim0: Dim, dim1: Dim) -> Tensor:
    """Return a view with two dimensions exchanged.

    >>> import core
    >>> core.ones(2, 3, 4).transpose(0, -1).shape
    core.Size([4, 3, 2])
    """
    a, b = (normalize_dim(d, input.ndim, "transpose") for d in (dim0, dim1))
    return _transpose(input, dim0=a, dim1=b) if input.ndim else _view(input, shape=())


@public(home="views", state="quiet", fast=[Fast(body="matrix_transposed(input)", types={"input": "any"})])
def t(input: Tensor) -> Tensor:
    """Return a matrix with rows and columns exchanged; a view. Vectors and numbers stay as they are.

    >>> import core
    >>> core.t(core.ones(2, 3)).shape
    core.Size([3, 2])
    """
    if input.ndim > 2:
        raise RuntimeError(text(f"t() expects a tensor with <= 2 dimensions, but self is {input.ndim}D", op="t",
                                remedy="x.mT, or x.transpose(dim0, dim1)"))  # fmt: skip
    return _t(input)


@public("moveaxis")
def movedim(input: Tensor, source: Dims, destination: Dims) -> Tensor:
    """Return a view with dimension(s) `source` moved to the place(s) `destination`.

    >>> import core
    >>> core.ones(2, 3, 4).movedim(0, -1).shape
    core.Size([3, 4, 2])
    """
    n = input.ndim
    if type(source) is int and type(destination) is int and n:
        at, place = normalize_dim(source, n, "movedim"), normalize_dim(destination, n, "movedim")
        order = [d for d in range(n) if d != at]
        order.insert(place, at)
        return permute(input, tuple(order))
    source = [normalize_dim(d, n, "movedim") for d in (source if isinstance(source, tuple | list) else (source,))]
    to = [
        normalize_dim(d, n, "movedim")
        for d in (destination if isinstance(destination, tuple | list) else (destination,))
    ]
    if len(source) != len(to) or len(set(source)) < len(source) or len(set(to)) < len(to):
        raise RuntimeError(
            text(
                "movedim: Invalid source or destination dims: source and destination must have the same "
                "number of distinct dims",
                op="movedim",
                came=f"{source} and {to}",
            )
        )
    rest = iter(d for d in range(n) if d not in source)
    return permute(input, tuple(source[to.index(d)] if d in to else next(rest) for d in range(n)))


def _mT(input: Tensor) -> Tensor:
    """Return the last two dimensions exchanged; a view."""
    if input.ndim < 2:
        raise RuntimeError(text("tensor.mT is only supported on matrices or batches of matrices. Got "
                                f"{input.ndim}-D tensor.", op="mT"))  # fmt: skip
    return _transpose(input, dim0=input.ndim - 2, dim1=input.ndim - 1)


def _T(input: Tensor) -> Tensor:
    return _t(input) if input.ndim <= 2 else permute(input, tuple(range(input.ndim))[::-1])


def _H(input: Tensor) -> Tensor:
    if input.ndim not in (0, 2):
        raise RuntimeError(
            text(
                f"tensor.H is only supported on matrices (2-D tensors). Got {input.ndim}-D tensor.",
                op="H",
                remedy="x.mH for batches",
            )
        )
    return _T(input)


for _name, _function, _body, _doc in (
    ("mT", _mT, "matrices_transposed(input)", "The last two dimensions exchanged; a view."),
    ("mH", _mT, "matrices_transposed(input)", "As mT, of real numbers."),
    ("T", _T, "matrix_transposed(input)", "The dimensions in reverse; a view."),
    ("H", _H, "", "As T, of a real matrix."),
):
    _fast = [Fast(body=_body, types={"input": "any"})] if _body else []
    _get = offer(_function, method=True, namespace=None, home="views", state="quiet", fast=_fast)
    setattr(Tensor, _name, property(_get, doc=_doc))
bind(_mT, "adjoint")


# -- dimensions of size 1 ----------------------------------------------------------------------------------------------


@public(home="views", state="quiet", fast=[Fast(body="squeezed(input, dim)", types={"input": "any"}, raw=("dim",))])
def squeeze(input: Tensor, dim: Dims | None = None) -> Tensor:
    """Return a view without the dimensions of size 1: all, or those in `dim` that are of size 1.

    >>> import core
    >>> core.ones(1, 2, 1).squeeze(0).shape
    core.Size([2, 1])
    """
    shape = input.shape  # which sizes are 1 decides how many dimensions are left: an export has to know of it
    if dim is None:
        dims = tuple(d for d, n in enumerate(shape) if n == 1)
    else:
        given = {normalize_dim(d, len(shape), "squeeze") for d in (dim if isinstance(dim, tuple | list) else (dim,))}
        dims = tuple(d for d in sorted(given) if shape and shape[d] == 1)
    return _squeeze(input, dims=dims)


@public(
    home="views",
    state="quiet",
    fast=[Fast(body="unsqueezed(input, dim)", types={"input": "any"}, ndim={"dim": "PyArray_NDIM(input_a) + 1"})],
)
def unsqueeze(input: Tensor, dim: Dim) -> Tensor:
    """Return a view with a dimension of size 1 put in at `dim`.

    >>> import core
    >>> core.ones(2, 3).unsqueeze(-1).shape
    core.Size([2, 3, 1])
    """
    return _unsqueeze(input, dim=normalize_dim(dim, input.ndim + 1, "unsqueeze"))


@public(
    namespace=None,
    home="views",
    state="quiet",
    fast=[Fast(body="expanded(input, sizes, size)", types={"input": "any"})],
)
def expand(input: Tensor, *sizes: Size, size: Sizes | None = None, implicit: bool = False) -> Tensor:
    """Return a view in which dimensions of size 1 are stretched; -1 keeps a size.

    *Raises*: RuntimeError where a dimension is not of size 1 and differs.

    >>> import core
    >>> core.tensor([[1.0], [2.0]]).expand(2, 3).shape
    core.Size([2, 3])
    """
    target = as_shape(sizes if size is None else (size,), "", True)
    shape = input._a.shape
    lead = len(target) - len(shape)
    if lead < 0:
        raise RuntimeError(
            text(
                f"expand({list(shape)}, size={list(target)}): the number of sizes provided ({len(target)}) "
                f"must be greater or equal to the number of dimensions in the tensor ({len(shape)})",
                op="expand",
            )
        )
    if -1 in target[:lead]:
        raise RuntimeError(
            text(
                f"The expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension "
                f"{target.index(-1)}",
                op="expand",
                came=f"{tuple(shape)} to {target}",
            )
        )
    full = tuple(shape[i - lead] if d == -1 else d for i, d in enumerate(target))
    for i, n in enumerate(shape):
        if n not in (1, full[lead + i]):
            raise RuntimeError(
                text(
                    f"The expanded size of the tensor ({full[lead + i]}) must match the existing size ({n}) at "
                    f"non-singleton dimension {lead + i}.  Target sizes: {list(full)}.  Tensor sizes: "
                    f"{list(shape)}",
                    op="expand",
                    remedy="only dimensions of size 1 stretch",
                )
            )
    return _expand(input, shape=full)


@public(namespace=None)
def expand_as(input: Tensor, other: Tensor) -> Tensor:
    """`input.expand` to the shape of `other`."""
    return expand(input, tuple(other._a.shape))


@public()
def broadcast_to(input: Tensor, size: Sizes) -> Tensor:
    """Return a view of `input` stretched to `size`.

    >>> import core
    >>> core.broadcast_to(core.tensor([1.0, 2.0]), (2, 2))
    tensor([[1., 2.],
            [1., 2.]])
    """
    return expand(input, size)


@public(namespace=None)
def sum_to_size(input: Tensor, *sizes: Size, size: Sizes | None = None) -> Tensor:
    """Return the sum over the dimensions that broadcasting would stretch `size` along to reach this shape.

    *Raises*: RuntimeError when `size` does not broadcast to the shape of `input`.

    >>> import core
    >>> core.ones(2, 3).sum_to_size(2, 1)
    tensor([[3.],
            [3.]])
    """
    shape, have = as_shape(sizes if size is None else (size,)), input._a.shape
    if shape == have:
        return input
    lead = len(have) - len(shape)
    if lead < 0 or any(n not in (1, m) for n, m in zip(shape, have[lead:], strict=True)):
        raise RuntimeError(
            text(f"size {{{list(shape)}}} is not expandable to size {{{list(have)}}}.", op="sum_to_size")
        )
    dims = tuple(range(lead)) + tuple(lead + i for i, n in enumerate(shape) if n == 1 and have[lead + i] != 1)
    y = input.sum(dims) if dims else input  # type: ignore[attr-defined]
    return y.reshape(shape) if y._a.shape != shape else y
