"""Rows of a table by index, and indices as rows of ones and zeros."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import native
from ..backends import has_values
from ..backends.accumulate import add_rows
from ..base import dtypes
from ..base.errors import text
from ..base.modes import no_grad
from ..dispatch.declare import operation
from ..dispatch.publish import public
from ..tensors.tensor import Tensor
from .precision import rounded, wide
from .where import where

_PARAMS: dict[str, Any] = {"padding_idx": -1, "scale_grad_by_freq": False}


def _check(xp: Any, index: Any, n: int) -> None:
    if has_values(xp) and index.size and (int(index.min()) < 0 or int(index.max()) >= n):
        bad = int(index.min()) if int(index.min()) < 0 else int(index.max())
        raise IndexError(text("index out of range in self", op="embedding", came=f"index {bad}",
                              needed=f"0 to {n - 1}, the table's rows"))  # fmt: skip


def _embedding_forward(xp: Any, weight: Any, index: Any, padding_idx: int, scale_grad_by_freq: bool) -> Any:
    _check(xp, index, weight.shape[0])
    return xp.take(weight, index, axis=0)  # the other parameters concern the gradient


def _backward_forward(xp: Any, g: Any, index: Any, count: int, padding_idx: int, scale_grad_by_freq: bool) -> Any:
    """Rows with equal indices are added in their order, so the bits are the same every time."""
    width = g.shape[-1]
    rows, at = wide(g).reshape(-1, width), index.reshape(-1)
    keep = at != padding_idx
    if has_values(xp) and not keep.all():
        rows, at = rows[keep], at[keep]
    if scale_grad_by_freq:
        rows = rows / xp.bincount(at, minlength=count)[at][:, None].astype(rows.dtype)
    out = xp.zeros((count, width), rows.dtype)
    add_rows(xp, out, at, rows)
    return rounded(out, g.dtype)


def _backward_vjp(g: Tensor, index: Tensor, count: int, padding_idx: int, scale_grad_by_freq: bool) -> Any:
    y = _embedding(g, index, padding_idx=padding_idx, scale_grad_by_freq=False)
    if padding_idx >= 0:
        y = y * (index != padding_idx).to(g.dtype).unsqueeze(-1)
    if scale_grad_by_freq:
        often = _counts(index.reshape(-1), count=count).to(g.dtype)
        y = y / _embedding(often.reshape(-1, 1), index)
    return y


_counts = operation("index_counts", lambda xp, index, count: xp.bincount(index, minlength=count), inputs="index",
                    params={"count": 1}, samples=lambda rng: [((rng.integers(0, 4, 6),), {"count": 5})],
                    doc="How often each index from 0 to count - 1 occurs.")  # fmt: skip


def _backward_samples(rng: Any) -> list[Any]:
    g, index = rng.uniform(-1, 1, (2, 3, 5)), rng.integers(0, 4, (2, 3))
    return [((g, index), {"count": 4, "padding_idx": p, "scale_grad_by_freq": s})
            for p, s in [(-1, False), (int(index[0, 0]), False), (-1, True)]]  # fmt: skip


_embedding_backward = operation(
    "embedding_backward",
    _backward_forward,
    inputs="g_rows index",
    params={"count": 1, **_PARAMS},
    vjp=(_backward_vjp, None),
    samples=_backward_samples,
    doc="The gradient of the table: the rows of g added up by index.",
)


def _embedding_vjp(
    g: Tensor, index: Tensor, weight_shape: tuple[int, ...], padding_idx: int, scale_grad_by_freq: bool
) -> Any:
    return (_embedding_backward(g, index, count=weight_shape[0], padding_idx=padding_idx,
                                scale_grad_by_freq=scale_grad_by_freq), None)  # fmt: skip


def _samples(rng: Any) -> list[Any]:
    weight = rng.uniform(-1, 1, (4, 5))
    return [((weight, rng.integers(0, 4, shape)), _PARAMS) for shape in [(2, 3), (6,), ()]]


_embedding = operation("embedding", _embedding_forward, inputs="weight index", params=_PARAMS, vjp=_embedding_vjp,
                       samples=_samples, doc="Rows of a table by index.")  # fmt: skip


def _sparse_vjp(
    g: Tensor, index: Tensor, weight_shape: tuple[int, ...], padding_idx: int, scale_grad_by_freq: bool
) -> Any:
    """Return the rows of g at their places: nothing is added up, and nothing is as large as the table."""
    from ..sparse.gradient import rows_at

    return rows_at(g, index, weight_shape, padding_idx, scale_grad_by_freq), None


_of_few: Any = operation("sparse_embedding", _embedding_forward, inputs="weight index", params=_PARAMS,
                         vjp=_sparse_vjp, label="embedding",
                         doc="Rows of a table by index; the gradient is sparse.")  # fmt: skip


@public(method=False, namespace="nn.functional")
def embedding(input: Tensor, weight: Tensor, padding_idx: int | None = None, max_norm: float | None = None,
              norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False) -> Tensor:  # fmt: skip
    """Return the rows of `weight` that the indices in `input` name.

    The row `padding_idx` gets no gradient; `max_norm` first shrinks longer rows, in place; `scale_grad_by_freq` divides
    a row's gradient by how often it occurs. The gradient has the same bits every time; with `sparse` it is a COO tensor
    of the rows that were read, for `SGD`, `Adagrad` and `SparseAdam`.

    *Shapes*: input ``(...)`` of int64 or int32, weight ``(n, d)`` -> ``(..., d)``.
    *Raises*: IndexError for an index that is no row.

    >>> import core
    >>> core.nn.functional.embedding(core.tensor([1, 0]), core.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[3., 4.],
            [1., 2.]])
    """
    if weight.ndim != 2:
        raise RuntimeError(text("'weight' must be 2-D", op="embedding", came=f"shape {tuple(weight.shape)}"))
    if input.dtype not in (dtypes.int64, dtypes.int32):
        raise RuntimeError(
            text(
                "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; "
                f"but got torch.{input.dtype.scalar_type}Tensor instead (while checking arguments for embedding)",
                op="embedding",
                remedy="input.long()",
            )
        )
    n = weight._a.shape[0]
    if padding_idx is not None and not -n <= padding_idx < n:
        raise AssertionError(
            text("Padding_idx must be within num_embeddings", op="embedding", came=f"{padding_idx} for {n} rows")
        )
    if max_norm is not None:
        _shorten(weight, input, max_norm, norm_type)
    index = input if input.dtype is dtypes.int64 else input.to(dtypes.int64)
    y = _embedding(weight, index, padding_idx=-1 if padding_idx is None else padding_idx % n,
                   scale_grad_by_freq=scale_grad_by_freq)  # fmt: skip
    if sparse and y._node is not None:  # forward it is the same op, with its kernels; only the way back is another
        y._node.op = _of_few.op
    return y  # type: ignore[no-any-return]


def _shorten(weight: Tensor, index: Tensor, max_norm: float, norm_type: float) -> None:
    """Scale the rows in use that are longer than `max_norm` down to it, in place."""
    with no_grad():
        used = _counts(index.reshape(-1), count=weight._a.shape[0]).unsqueeze(1) > 0
        length = weight.norm(norm_type, 1, keepdim=True)
        weight.mul_(where(used & (length > max_norm), max_norm / (length + 1e-7), 1.0))


@public(method=False, namespace="nn.functional")
def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """Indices as rows of zeros with a single 1; as many classes as the greatest index asks for, unless given.

    *Shapes*: ``(...) -> (..., num_classes)``, int64.

    >>> import core
    >>> core.nn.functional.one_hot(core.tensor([0, 2]))
    tensor([[1, 0, 0],
            [0, 0, 1]])
    """
    if tensor.dtype is not dtypes.int64:
        raise RuntimeError(text("one_hot is only applicable to index tensor of type LongTensor.", op="one_hot",
                                came=str(tensor.dtype), remedy="tensor.long()"))  # fmt: skip
    a = tensor._a
    if num_classes > 0 and not isinstance(a, np.ndarray):
        return _one_hot(tensor, classes=num_classes)  # the kernel finds classes out of range: no wait for the GPU
    if not a.size:
        if num_classes <= 0:
            raise RuntimeError(text("Can not infer total number of classes from empty tensor.", op="one_hot"))
    else:
        least, greatest = _range(a)
        if least < 0:
            raise RuntimeError(text("Class values must be non-negative.", op="one_hot", came=f"{least}"))
        if num_classes == -1:
            num_classes = greatest + 1
        elif greatest >= num_classes:
            raise RuntimeError(text("Class values must be smaller than num_classes.", op="one_hot",
                                    came=f"{greatest} of {num_classes} classes"))  # fmt: skip
    return _one_hot(tensor, classes=num_classes)


def _range(a: Any) -> tuple[int, int]:
    """Return the least and the greatest index."""
    if native.module is not None and type(a) is np.ndarray:
        return native.module.index_range(a)
    return int(a.min()), int(a.max())


_one_hot = operation(
    "one_hot_rows",
    lambda xp, index, classes: (index[..., None] == xp.arange(classes)).astype(xp.int64),
    inputs="index",
    params={"classes": 1},
    samples=lambda rng: [((rng.integers(0, 4, (2, 3)),), {"classes": 4})],
    contiguous=True,
)
