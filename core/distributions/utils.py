"""What distributions are written with: parameters of one shape, logits and probabilities, triangles as vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar, overload

from ..base import dtypes
from ..base.errors import text
from ..base.modes import enable_grad
from ..base.shape import broadcast_shapes
from ..ops.creation import tensor, tril_indices, zeros
from ..ops.queries import finfo
from ..random import normal, rand
from ..tensors.tensor import Tensor

euler_constant = 0.57721566490153286060
Found = TypeVar("Found")


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Give numbers and tensors as tensors of one shape.

    *Raises*: ValueError for anything else.

    >>> import core
    >>> core.distributions.utils.broadcast_all(1.0, core.zeros(2))
    (tensor([1., 1.]), tensor([0., 0.]))
    """
    if not all(isinstance(v, Tensor | int | float) for v in values):
        raise ValueError("Input arguments must all be instances of Number or core.Tensor.\n  came: "
                         + ", ".join(type(v).__name__ for v in values))  # fmt: skip
    first = next((v for v in values if isinstance(v, Tensor)), None)
    kind: dict[str, Any] = {"dtype": dtypes.get_default_dtype() if first is None else first.dtype}
    if first is not None:
        kind["device"] = first.device
    many = [v if isinstance(v, Tensor) else tensor(v, **kind) for v in values]
    shape = broadcast_shapes(*(v._a.shape for v in many), op="distribution")
    return tuple(v if v._a.shape == shape else v.expand(shape) for v in many)


def sum_rightmost(value: Tensor, dims: int) -> Tensor:
    """Return the sum over the last `dims` dimensions."""
    return value.sum(tuple(range(-dims, 0))) if dims else value


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Return probabilities: the sigmoid of binary logits, else the softmax over the last dimension.

    >>> import core
    >>> core.distributions.utils.logits_to_probs(core.zeros(2))
    tensor([0.5000, 0.5000])
    """
    return logits.sigmoid() if is_binary else logits.softmax(-1)


def clamp_probs(probs: Tensor) -> Tensor:
    """Keep probabilities away from 0 and 1 by their dtype's eps, so that their logarithms are finite.

    >>> import core
    >>> core.distributions.utils.clamp_probs(core.tensor([0.0, 0.5])).log().isfinite()
    tensor([True, True])
    """
    eps = finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Return logits: log p - log(1 - p) of binary probabilities, else log p.

    >>> import core
    >>> core.distributions.utils.probs_to_logits(core.tensor([0.5, 0.75]), is_binary=True)
    tensor([0.0000, 1.0986])
    """
    p = clamp_probs(probs)
    return p.log() - (-p).log1p() if is_binary else p.log()


def standard_normal(shape: Sequence[int], like: Tensor) -> Tensor:
    """Standard normal numbers of a shape, in the dtype and on the device of `like`."""
    return normal(zeros(tuple(shape), dtype=like.dtype, device=like.device), 1.0)


def _standard_normal(shape: Sequence[int], dtype: Any, device: Any) -> Tensor:
    """Standard normal numbers of a shape, under PyTorch's name."""
    return normal(zeros(tuple(shape), dtype=dtype, device=device), 1.0)


_sum_rightmost = sum_rightmost


def unit_numbers(shape: Sequence[int], like: Tensor) -> Tensor:
    """Numbers even between 0 and 1 of a shape, in the dtype and on the device of `like`."""
    return rand(tuple(shape), dtype=like.dtype, device=like.device)


def one_of(probs: Any, logits: Any) -> str:
    """Say which of the two was given.

    *Raises*: ValueError for both and for none.
    """
    if (probs is None) == (logits is None):
        raise ValueError(text("Either `probs` or `logits` must be specified, but not both.",
                              came="none of them" if probs is None else "both"))  # fmt: skip
    return "logits" if probs is None else "probs"


def all_values(values: Tensor, batch_shape: Sequence[int], expand: bool) -> Tensor:
    """Give outcomes along a new first dimension, for each distribution of a batch."""
    values = values.reshape(-1, *(1,) * len(batch_shape))
    return values.expand(-1, *batch_shape) if expand else values


class lazy_property(Generic[Found]):
    """A property that is computed when it is first asked for, and kept.

    It is computed with gradients on: `sample` may ask first, under `no_grad`, and a loss uses what was kept.

    >>> import core
    >>> class Circle:
    ...     @core.distributions.utils.lazy_property
    ...     def area(self):
    ...         return 3.14
    >>> Circle().area
    3.14
    """

    def __init__(self, wrapped: Callable[[Any], Found]) -> None:
        self.wrapped, self.__doc__ = wrapped, wrapped.__doc__
        self.name = wrapped.__name__

    @overload
    def __get__(self, instance: None, owner: Any = None) -> lazy_property[Found]: ...

    @overload
    def __get__(self, instance: Any, owner: Any = None) -> Found: ...

    def __get__(self, instance: Any, owner: Any = None) -> lazy_property[Found] | Found:
        if instance is None:
            return self
        with enable_grad():
            found = self.wrapped(instance)
        instance.__dict__[self.name] = found
        return found


def _entries(n: int, diag: int) -> int:
    """How many entries n by n has at and below the diagonal numbered `diag`."""
    if diag < 0:
        return max(0, n + diag) * max(0, n + diag + 1) // 2
    above = max(0, n - 1 - diag)
    return n * n - above * (above + 1) // 2


def _places(n: int, diag: int, like: Tensor) -> tuple[Tensor, Tensor]:
    rows, columns = tril_indices(n, n, diag, device=like.device)
    return rows, columns


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """Return what stands at and below a diagonal, row by row, as vectors: (..., D, D) to (..., N).

    >>> import core
    >>> core.distributions.utils.tril_matrix_to_vec(core.tensor([[1, 2], [3, 4]]))
    tensor([1, 3, 4])
    """
    n = int(mat.shape[-1])
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    rows, columns = _places(n, diag, mat)
    return mat[..., rows, columns]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Return matrices with 0 above a diagonal and the vectors' numbers at and below it: (..., N) to (..., D, D).

    *Raises*: ValueError where no D fits the N.

    >>> import core
    >>> core.distributions.utils.vec_to_tril_matrix(core.tensor([1, 3, 4]))
    tensor([[1, 0],
            [3, 4]])
    """
    count, n = int(vec.shape[-1]), max(1, 1 - diag)
    while _entries(n, diag) < count:
        n += 1
    if _entries(n, diag) != count:
        raise ValueError(text(f"The size of last dimension is {count} which cannot be expressed as the lower "
                              "triangular part of a square D x D matrix.", op="vec_to_tril_matrix",
                              needed=f"{_entries(n - 1, diag)} or {_entries(n, diag)}"))  # fmt: skip
    made = zeros((*vec.shape[:-1], n, n), dtype=vec.dtype, device=vec.device)
    rows, columns = _places(n, diag, vec)
    made[..., rows, columns] = vec
    return made
