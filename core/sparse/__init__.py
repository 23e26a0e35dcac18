"""Sparse tensors, with PyTorch's names: COO (``core.sparse_coo``), compressed rows (CSR) and columns (CSC).

How they are made and what they are:

A sparse tensor is a `SparseTensor` (core.dispatch.sparse), a subclass of `Tensor` made of dense tensors: its places and
its values. The values may be on the graph, and their history is the sparse tensor's. What is computed of it is computed
of places and values by ops of dense tensors, so that gradients, and gradients of gradients, come by themselves; the
gradient of a sparse leaf has the leaf's places, as PyTorch's masked ones. NumPy alone serves; sums of equal places are
taken in their order, so that the same input gives the same bits.

In place of an array it has a `SparseArray` (core.backends.sparse_array), which knows a shape, a dtype and addition, and
its kind is one that no kernel knows: no fast path in C takes it for a dense tensor, and none had to be taught so. What
comes to the general way is asked for once (`core.dispatch.of_values.seen`: not before there is one) and then
runs by a rule of core.sparse.rules:

- elementwise ops of one tensor that map 0 to 0 work on the values; numbers multiply and divide; sums of two join
  places; products of two meet at common ones; with a dense tensor, a product is sparse and a sum is dense;
- products of matrices, sums, norms, transposes, slices, `cat` and `stack` have rules of their own;
- every other op raises NotImplementedError, which names the op, the layout and the remedy, ``x.to_dense()``.

Sparse gradients: ``nn.Embedding(sparse=True)`` and its kin send the engine a `SparseArray` of the rows that were read.
It adds to another one by joining places, and to a dense gradient at its places, in its memory. The engine's loops do
not look for it: they add what comes with ``+``, as they do for arrays of a GPU; only what becomes a `.grad` is looked
at, once. `SGD`, `Adagrad` and `SparseAdam` take such a gradient; other optimizers raise PyTorch's error.

Not here: batches of CSR matrices, blocks (BSR, BSC), solvers, semi-structured weights.

>>> import core
>>> a = core.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 3))
>>> core.sparse.mm(a, core.ones(3, 1))
tensor([[3.],
        [9.]])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base.dtypes import float16, float32, float64, int32, int64
from ..base.errors import text
from ..base.shape import normalize_dim
from ..dispatch.sparse import SparseTensor
from ..ops.creation import as_tensor
from ..ops.linalg import addmm as _addmm
from ..ops.linalg import mm as _mm
from ..ops.softmax import log_softmax as _dense_log_softmax
from ..ops.softmax import softmax as _dense_softmax
from ..tensors.tensor import Tensor
from . import methods as _methods
from . import rules as _rules
from .making import sparse_coo_tensor as _sparse_coo_tensor
from .pattern import as_layout as _as_layout
from .pattern import coalesced as _coalesced
from .pattern import library as _library
from .pattern import need as _need
from .pattern import places as _places

__all__ = [
    "DoubleTensor",
    "FloatTensor",
    "HalfTensor",
    "IntTensor",
    "LongTensor",
    "addmm",
    "log_softmax",
    "mm",
    "sampled_addmm",
    "softmax",
    "spdiags",
    "sum",
]
_ANY = ("sparse_coo", "sparse_csr", "sparse_csc")


def _older(name: str, dtype: Any) -> Any:
    def make(indices: Any = None, values: Any = None, size: Any = None) -> Tensor:
        return _sparse_coo_tensor(indices, values, size, dtype=dtype)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"As `core.sparse_coo_tensor`, of {dtype.name}: an older name for it."
    return make


FloatTensor, DoubleTensor, HalfTensor = (
    _older(*pair) for pair in (("FloatTensor", float32), ("DoubleTensor", float64), ("HalfTensor", float16))
)
LongTensor, IntTensor = _older("LongTensor", int64), _older("IntTensor", int32)


def mm(mat1: Tensor, mat2: Tensor) -> Tensor:
    """Return the product of two matrices of which one may be sparse, or both: then so is the product.

    *Shapes*: ``(m, k) @ (k, n) -> (m, n)``. *Raises*: RuntimeError where the inner sizes or the dtypes differ.

    >>> import core
    >>> core.sparse.mm(core.eye(2).to_sparse(), core.tensor([[1.0], [2.0]]))
    tensor([[1.],
            [2.]])
    """
    return _mm(mat1, mat2)  # type: ignore[no-any-return]


def addmm(mat: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1.0, alpha: float = 1.0) -> Tensor:
    """Return ``beta * mat + alpha * (mat1 @ mat2)``, `mat1` being sparse and the others dense.

    >>> import core
    >>> core.sparse.addmm(core.ones(2, 1), core.eye(2).to_sparse(), core.ones(2, 1))
    tensor([[2.],
            [2.]])
    """
    return _addmm(mat, mat1, mat2, beta=beta, alpha=alpha)  # type: ignore[no-any-return]


def sampled_addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1.0, alpha: float = 1.0,
                  out: Tensor | None = None) -> Tensor:  # fmt: skip
    """Return ``beta * input + alpha * (mat1 @ mat2)`` at the places of `input`, a CSR matrix; the rest is not computed.

    >>> import core
    >>> core.sparse.sampled_addmm(core.eye(2).to_sparse_csr(), core.ones(2, 3), core.ones(3, 2)).values()
    tensor([4., 4.])
    """
    x = _coalesced(_need("sampled_addmm", input, "sparse_csr", "sparse_csc", said="sparse row compressed"))
    rows, columns = x._places[0][0], x._places[0][1]
    at: Any = (mat1[rows] * mat2.t()[columns]).sum(-1)  # type: ignore[index]
    found = _as_layout(x.with_values(beta * x._held + alpha * at), input._a.layout)
    if out is None:
        return found
    out.data = found
    return out


def sum(input: Tensor, dim: int | Sequence[int] | None = None, dtype: Any = None) -> Tensor:
    """Return the sum over all elements or over `dim`; sparse as long as a sparse dimension is left.

    >>> import core
    >>> core.sparse.sum(core.eye(2).to_sparse(), 0).to_dense()
    tensor([1., 1.])
    """
    x = _need("sparse.sum", input, *_ANY, said="sparse")
    y: Any = x if dtype is None else x.to(dtype)
    return y.sum() if dim is None else y.sum(dim)  # type: ignore[no-any-return]


def softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """Return the softmax along `dim` of the values that are there; those that are not count as minus infinity.

    >>> import core
    >>> core.sparse.softmax(core.eye(2).to_sparse(), 1).values()
    tensor([1., 1.])
    """
    return _normalised("softmax", input, dim, dtype)


def log_softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """Return the logarithm of `softmax`.

    >>> import core
    >>> core.sparse.log_softmax(core.eye(2).to_sparse(), 1).values()
    tensor([0., 0.])
    """
    return _normalised("log_softmax", input, dim, dtype)


def _normalised(op: str, input: Tensor, dim: int, dtype: Any) -> Tensor:
    x: Any = _coalesced(_need(f"sparse.{op}", input, *_ANY, said="sparse"))
    x = x if dtype is None else x.to(dtype)
    index, xp, d = x._a.index[0], _library(x), normalize_dim(dim, x.ndim, op)
    n = index.shape[0]
    if d >= n:
        along = _dense_softmax if op == "softmax" else _dense_log_softmax
        return x.with_values(along(x._held, d - n + 1))
    held = x._held
    if not len(held):
        return x  # type: ignore[no-any-return]
    other = [k for k in range(n) if k != d]
    numbers = xp.zeros(index.shape[1], index.dtype)
    for k in other:
        numbers = numbers * x._a.shape[k] + index[k]
    once, group = xp.unique(numbers, return_inverse=True)
    group = group.reshape(-1)
    which = _places(group, x.device)
    order = xp.argsort(group, kind="stable")
    starts = xp.searchsorted(group[order], xp.arange(len(once)))
    greatest = xp.maximum.reduceat(held._a[order], starts, axis=0) if hasattr(xp.maximum, "reduceat") else held._a.max()
    shifted = held - _rules.constant(greatest if getattr(greatest, "ndim", 0) == 0 else greatest[group], held)
    total = _rules.grouped_sum(shifted.exp(), group, len(once))[which]
    y = x.with_values(shifted.exp() / total if op == "softmax" else shifted - total.log())
    return _as_layout(y, input._a.layout)


def spdiags(diagonals: Tensor, offsets: Tensor, shape: Sequence[int], layout: Any = None) -> Tensor:
    """Return a sparse matrix whose diagonals at `offsets` are the rows of `diagonals`.

    Column j of a row stands in column j of the matrix, as in SciPy. *Raises*: RuntimeError for as many offsets as there
    are no rows, or one that comes twice.

    >>> import core
    >>> core.sparse.spdiags(core.tensor([[1.0, 2.0]]), core.tensor([0]), (2, 2)).to_dense()
    tensor([[1., 0.],
            [0., 2.]])
    """
    if diagonals.ndim == 1:
        diagonals = diagonals.reshape(1, -1)  # type: ignore[attr-defined]
    steps = offsets.reshape(-1).tolist()  # type: ignore[attr-defined]
    if len(steps) != diagonals.shape[0] or len(set(steps)) < len(steps):
        raise RuntimeError(text("spdiags(): Number of diagonals must match the number of offsets, each once",
                                op="spdiags", came=f"{diagonals.shape[0]} diagonals, offsets {steps}"))  # fmt: skip
    rows, columns, which = [], [], []
    height, width = shape
    for k, step in enumerate(steps):
        for j in range(max(step, 0), min(diagonals.shape[1], width, height + step)):
            rows.append(j - step)
            columns.append(j)
            which.append((k, j))
    lines, places = (as_tensor([pair[i] for pair in which], dtype=int64) for i in (0, 1))
    values = diagonals[lines, places]  # type: ignore[index]
    out = _sparse_coo_tensor([rows, columns], values, shape)
    assert isinstance(out, SparseTensor)
    return out if layout is None else _methods.to_sparse(out, layout=layout)
