"""Parts of a tensor as views: narrow, select, diagonal, split, unbind."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, overload

from ..base.errors import text
from ..base.shape import normalize_dim
from ..declare.kinds import Dim, Ints
from ..declare.signature import Fast
from ..dispatch.publish import public
from ..tensors.tensor import Tensor
from .view_ops import _diagonal, _diagonal_backward, _select, _slice, _split, _unbind, _unfold
from .views import unsqueeze


@public()
def narrow(input: Tensor, dim: Dim, start: int | Tensor, length: int) -> Tensor:
    """Return a view of `length` elements along `dim`, from `start` on.

    >>> import core
    >>> core.arange(6).narrow(0, 2, 3)
    tensor([2, 3, 4])
    """
    if input.ndim == 0:
        raise RuntimeError(text("narrow() cannot be applied to a 0-dim tensor.", op="narrow"))
    d = normalize_dim(dim, input.ndim, "narrow")
    if isinstance(start, Tensor) and (start.ndim or start.dtype.category != 1):
        raise RuntimeError(text("start must be an 0-dim integral Tensor.", op="narrow",
                                came=f"{start.dtype} of shape {tuple(start.shape)}", remedy="int(start)"))  # fmt: skip
    n, at = input._a.shape[d], int(start)
    if length < 0:
        raise RuntimeError(text("narrow(): length must be non-negative.", op="narrow", came=f"length={length}"))
    if not -n <= at <= n:
        raise IndexError(
            text(f"start out of range (expected to be in range of [-{n}, {n}], but got {at})", op="narrow")
        )
    at = at + n if at < 0 else at
    if at + length > n:
        raise RuntimeError(text(f"start ({at}) + length ({length}) exceeds dimension size ({n}).", op="narrow"))
    return _slice(input, key=(*(slice(None),) * d, slice(at, at + length)))


@public()
def select(input: Tensor, dim: Dim, index: int | Tensor) -> Tensor:
    """Return a view of the slice at `index` along `dim`, which vanishes.

    >>> import core
    >>> core.arange(6).reshape(2, 3).select(1, -1)
    tensor([2, 5])
    """
    if input.ndim == 0:
        raise IndexError(text("select() cannot be applied to a 0-dim tensor.", op="select"))
    d = normalize_dim(dim, input.ndim, "select")
    n, i = input._a.shape[d], int(index)
    if not -n <= i < n:
        raise IndexError(
            text(
                f"select(): index {i} out of range for tensor of size {list(input._a.shape)} at dimension {d}",
                op="select",
            )
        )
    return _select(input, key=(*(slice(None),) * d, i, Ellipsis))


@public(home="views", state="quiet",
        fast=[Fast(body="diagonal_view(input, offset, dim1, dim2)", types={"input": "any"})])  # fmt: skip
def diagonal(input: Tensor, offset: int = 0, dim1: Dim = 0, dim2: Dim = 1) -> Tensor:
    """Return a view of the diagonal of two dimensions, which becomes the last one.

    *Shapes*: ``(a, n, m) -> (a, min(n, m))`` for dims 1 and 2. *Raises*: RuntimeError for equal dims.

    >>> import core
    >>> core.arange(6).reshape(2, 3).diagonal(1)
    tensor([1, 5])
    """
    a, b = (normalize_dim(d, input.ndim, "diagonal") for d in (dim1, dim2))
    if a == b:
        raise RuntimeError(text(f"diagonal dimensions cannot be identical {dim1}, {dim2}", op="diagonal"))
    return _diagonal(input, offset=offset, dim1=a, dim2=b)


@public(namespace=None)
def unfold(input: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Return a view of all windows of `size` along a dimension, `step` apart; the window becomes the last dimension.

    *Shapes*: ``(a, n) -> (a, (n - size) // step + 1, size)`` for dimension 1.

    >>> import core
    >>> core.arange(4).unfold(0, 2, 1)
    tensor([[0, 1],
            [1, 2],
            [2, 3]])
    """
    if input.ndim == 0:
        normalize_dim(dimension, 0, "unfold")
        return unsqueeze(input, 0).unfold(0, size, step).reshape(size)
    d = normalize_dim(dimension, input.ndim, "unfold")
    n = input._a.shape[d]
    if not 0 <= size <= n:
        raise RuntimeError(text(f"maximum size for tensor at dimension {d} is {n} but size is {size}", op="unfold"))
    if step <= 0:
        raise RuntimeError(text(f"step is {step} but must be > 0", op="unfold"))
    return _unfold(input, dim=d, size=size, step=step)


@public(home="rearranged", state="quiet",
        fast=[Fast(body="diagonal_filled(input, offset)", types={"input": "piece"})])  # fmt: skip
def diag_embed(input: Tensor, offset: int = 0, dim1: Dim = -2, dim2: Dim = -1) -> Tensor:
    """Zeros with `input` on the diagonal of two new dimensions.

    >>> import core
    >>> core.diag_embed(core.tensor([1.0, 2.0]))
    tensor([[1., 0.],
            [0., 2.]])
    """
    n = input.ndim + 1
    a, b = (normalize_dim(d, n, "diag_embed") for d in (dim1, dim2))
    if a == b:
        raise RuntimeError(text(f"diagonal dimensions cannot be identical {dim1}, {dim2}", op="diag_embed"))
    size = input._a.shape[-1] + abs(offset)
    rest = iter(input._a.shape[:-1])
    shape = tuple(size if d in (a, b) else next(rest) for d in range(n))
    return _diagonal_backward(input, shape=shape, offset=offset, dim1=a, dim2=b)


@public(home="index", state="quiet", fast=[Fast(body="diagonal_copied(input, diagonal)", types={"input": "piece"})])
def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """Return a vector as the diagonal of a square matrix, or the diagonal of a matrix as a vector.

    >>> import core
    >>> core.diag(core.diag(core.tensor([1.0, 2.0])))
    tensor([1., 2.])
    """
    if input.ndim not in (1, 2):
        raise RuntimeError(text(f"diag(): Supports 1D or 2D tensors. Got {input.ndim}D", op="diag"))
    if input.ndim == 1:
        return diag_embed(input, diagonal)
    return _diagonal(input, offset=diagonal, dim1=0, dim2=1).clone()


@public("split_with_sizes", home="split_unbind", state="quiet",
        fast=[Fast(body="split_into(tensor, split_size_or_sections, dim)", types={"tensor": "any"},
                   raw=("split_size_or_sections",))])  # fmt: skip
def split(tensor: Tensor, split_size_or_sections: Ints, dim: Dim = 0) -> tuple[Tensor, ...]:
    """Views of pieces along `dim`: of one size (the last may be smaller), or of the sizes in a list.

    *Raises*: RuntimeError where the sizes do not add up.

    >>> import core
    >>> core.arange(5).split(2)
    (tensor([0, 1]), tensor([2, 3]), tensor([4]))
    """
    if tensor.ndim == 0:
        raise RuntimeError(text("split expects at least a 1-dimensional tensor", op="split"))
    d = normalize_dim(dim, tensor.ndim, "split")
    n = tensor.shape[d]
    if isinstance(split_size_or_sections, tuple | list):
        sizes = tuple(k if isinstance(k, int) else int(k) for k in split_size_or_sections)
        if sum(sizes) != n or any(k < 0 for k in sizes):
            raise RuntimeError(
                text(
                    f"split_with_sizes expects split_sizes to sum exactly to {n} (input tensor's size at "
                    f"dimension {d}), but got split_sizes={list(sizes)}",
                    op="split",
                )
            )
    else:
        given: Any = split_size_or_sections
        k = given if isinstance(given, int) else int(given)  # a 0-d tensor too; a size that is exported stays one
        if k < 0 or (k == 0 and n):
            raise RuntimeError(text(f"split expects split_size be non-negative, but got split_size={k}" if k < 0 else
                                    "split_size can only be 0 if dimension size is 0, but got dimension size of "
                                    f"{n}", op="split"))  # fmt: skip
        last = -(-int(n) // int(k)) - 1 if n else 0
        sizes = tuple(k if piece < last else n - k * piece for piece in range(last + 1))
    return _split(tensor, sizes=sizes, dim=d)


@public(home="split_unbind", state="quiet", fast=[Fast(body="chunked(input, chunks, dim)", types={"input": "any"})])
def chunk(input: Tensor, chunks: int, dim: Dim = 0) -> tuple[Tensor, ...]:
    """Views of at most `chunks` pieces along `dim`, all of one size but perhaps the last.

    >>> import core
    >>> core.arange(5).chunk(2)
    (tensor([0, 1, 2]), tensor([3, 4]))
    """
    if chunks < 1:
        raise RuntimeError(text(f"chunk expects `chunks` to be greater than 0, got: {chunks}", op="chunk"))
    if input.ndim == 0:
        raise RuntimeError(text("chunk expects at least a 1-dimensional tensor", op="chunk"))
    d = normalize_dim(dim, input.ndim, "chunk")
    n = input.shape[d]
    if n == 0:
        return _split(input, sizes=(0,) * chunks, dim=d)
    return split(input, -(-n // chunks), d)


@public()
def tensor_split(input: Tensor, indices_or_sections: int | Sequence[int] | Tensor, dim: Dim = 0) -> tuple[Tensor, ...]:
    """Views of pieces along `dim`: a number of nearly equal ones, or those that begin at the given indices.

    >>> import core
    >>> core.arange(5).tensor_split(2)
    (tensor([0, 1, 2]), tensor([3, 4]))
    """
    if input.ndim == 0:
        raise RuntimeError(text("tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims",
                                op="tensor_split"))  # fmt: skip
    d = normalize_dim(dim, input.ndim, "tensor_split")
    n = input._a.shape[d]
    if isinstance(indices_or_sections, Tensor):
        indices_or_sections = indices_or_sections.tolist()
    if isinstance(indices_or_sections, int):
        k = indices_or_sections
        if k < 1:
            raise RuntimeError(text(f"number of sections must be larger than 0, got {k}", op="tensor_split"))
        cuts = [i * (n // k) + min(i, n % k) for i in range(1, k)]
    else:
        cuts = list(indices_or_sections)
    edges = [0, *(slice(c).indices(n)[1] for c in cuts), n]
    return tuple(narrow(input, d, lo, max(hi - lo, 0)) for lo, hi in pairwise(edges))


@public(home="split_unbind", state="quiet", fast=[Fast(body="unbound_along(input, dim)", types={"input": "any"})])
def unbind(input: Tensor, dim: Dim = 0) -> tuple[Tensor, ...]:
    """Views of all slices along `dim`, which vanishes.

    >>> import core
    >>> core.tensor([[1, 2], [3, 4]]).unbind(1)
    (tensor([1, 3]), tensor([2, 4]))
    """
    if input.ndim == 0:
        raise IndexError(text("Dimension specified as 0 but tensor has no dimensions", op="unbind"))
    return _unbind(input, dim=normalize_dim(dim, input.ndim, "unbind"))


def _atleast(n: int) -> Any:
    @overload
    def function(tensor: Tensor, /) -> Tensor: ...
    @overload
    def function(tensors: Sequence[Tensor], /) -> tuple[Tensor, ...]: ...
    @overload
    def function(tensor: Tensor, second: Tensor, /, *more: Tensor) -> tuple[Tensor, ...]: ...
    def function(*tensors: Tensor | Sequence[Tensor]) -> Any:
        """`tensors` with dimensions of size 1 put in, so that none has fewer than the name says."""
        if len(tensors) == 1 and isinstance(tensors[0], tuple | list):
            return tuple(function(x) for x in tensors[0])
        if len(tensors) != 1:
            return tuple(function(x) for x in tensors)
        x: Any = tensors[0]
        while x.ndim < min(n, 2):
            x = unsqueeze(x, 0)
        return unsqueeze(x, -1) if x.ndim < n else x

    function.__name__ = function.__qualname__ = f"atleast_{n}d"
    return function


for _n in (1, 2, 3):
    public(method=False)(_atleast(_n))

Tensor.__iter__ = lambda self: iter(unbind(self)) if self.ndim else _no_iteration()  # type: ignore[method-assign]


def _no_iteration() -> Any:
    raise TypeError("iteration over a 0-d tensor")
