"""Nested tensors: batches of sequences of several lengths without padding, in PyTorch's jagged layout.

A `NestedTensor` of shape ``(B, *, j1, *)`` is made of a dense tensor, its values, which has the rows of all sequences
one after the other, and of the offsets at which they begin. Values are on the graph, and their history is the nested
tensor's: gradients go to the values, or to the list of tensors that it was made of. ``j1`` is a size that is equal to
itself alone; tensors of the same offsets have the same.

- Elementwise functions work on the values, between tensors of the same sequences and with dense ones that broadcast.
- What goes over the last dimensions (`linear`, `layer_norm`, `embedding`, sums, softmax) works on the values too.
- Sums, means, extrema and softmax over the ragged dimension leave padding out.
- ``scaled_dot_product_attention`` of ``(B, H, j1, D)`` lets each sequence see itself alone.

What is not there raises NotImplementedError and says what to do: ``x.to_padded_tensor(padding)``, or ``x.values()``.
The older strided layout, whose tensors differ in every dimension, is not here: ``layout=core.jagged`` has to be given.

>>> import core
>>> x = core.nested.nested_tensor([core.ones(2, 4), core.ones(3, 4)], layout=core.jagged)
>>> x
NestedTensor(size=(2, j..., 4), offsets=tensor([0, 2, 5]), contiguous=True)
>>> x.sum(1)
tensor([[2., 2., 2., 2.],
        [3., 3., 3., 3.]])
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from ..base.dtypes import int64
from ..base.errors import text
from ..base.layouts import jagged, layout
from ..ops.creation import tensor
from ..tensors.tensor import Tensor
from .of_sequences import NestedTensor, connect, made
from .padding import to_padded_tensor as _to_padded_tensor
from .results import nested_of
from .rules import run
from .structure import Structure

__all__ = ["NestedTensor", "as_nested_tensor", "masked_select", "narrow", "nested_tensor",
           "nested_tensor_from_jagged", "to_padded_tensor"]  # fmt: skip
connect(run, _to_padded_tensor)


def _jagged_only(op: str, asked: layout | None) -> None:
    if asked is jagged:
        return
    if asked is None or asked.name == "strided":
        raise NotImplementedError(
            text(f"{op}(): nested tensors of the strided layout are not here", op=op,
                 came="no layout" if asked is None else str(asked), needed="layout=core.jagged",
                 remedy=f"{op}(..., layout=core.jagged)"))  # fmt: skip
    raise RuntimeError(text(f"Specified layout is unsupported for nested tensors: {asked}", op=op,
                            needed="layout=core.jagged"))  # fmt: skip


def nested_tensor(tensor_list: Sequence[Any], *, dtype: Any = None, layout: layout | None = None, device: Any = None,
                  requires_grad: bool = False, pin_memory: bool = False) -> NestedTensor:  # fmt: skip
    """Return a nested tensor, a leaf, with a copy of tensors (or lists of numbers) that differ in one dimension.

    *Raises*: NotImplementedError without ``layout=core.jagged``; RuntimeError for an empty list, or tensors that differ
    in more.

    >>> import core
    >>> x = core.nested.nested_tensor([[1.0, 2.0], [3.0]], layout=core.jagged)
    >>> x.values(), x.offsets()
    (tensor([1., 2., 3.]), tensor([0, 2, 3]))
    """
    _jagged_only("nested_tensor", layout)
    each = [t.detach() if isinstance(t, Tensor) else tensor(t) for t in tensor_list]
    out = _joined("nested_tensor", each, dtype, device)
    values: Any = out._held
    out = out.with_values(values.clone() if any(values is t for t in each) else values)
    out._held.requires_grad_(requires_grad)
    return out


def as_nested_tensor(ts: Any, dtype: Any = None, device: Any = None, layout: layout | None = None) -> NestedTensor:
    """Return a nested tensor of a list of tensors, or of a dense batch; gradients go back to them.

    >>> import core
    >>> a, b = core.ones(1, requires_grad=True), core.ones(2, requires_grad=True)
    >>> (core.nested.as_nested_tensor([a, b], layout=core.jagged) * 3).sum().backward()
    >>> b.grad
    tensor([3., 3.])
    """
    if isinstance(ts, NestedTensor):
        whole: Any = ts
        same = dtype in (None, ts.dtype) and device in (None, ts.device)
        return ts if same else whole.to(dtype=dtype or ts.dtype, device=device or ts.device)
    _jagged_only("as_nested_tensor", layout)
    if isinstance(ts, Tensor):
        if ts.ndim < 2:
            raise RuntimeError(text("as_nested_tensor(): Expected tensor argument to have dim() > 1",
                                    op="as_nested_tensor", came=f"shape {tuple(ts.shape)}"))  # fmt: skip
        return _joined("as_nested_tensor", list(ts.unbind(0)), dtype, device)  # type: ignore[attr-defined]
    if not isinstance(ts, list | tuple) or not all(isinstance(t, Tensor) for t in ts):
        raise TypeError(text("as_nested_tensor(): Expected first argument to be a tensor or a list / tuple of tensors",
                             op="as_nested_tensor", came=type(ts).__name__))  # fmt: skip
    return _joined("as_nested_tensor", list(ts), dtype, device)


def _joined(op: str, each: list[Any], dtype: Any, device: Any) -> NestedTensor:
    if not each:
        raise RuntimeError(text("Cannot construct a nested tensor from an empty tensor list", op=op,
                                needed="one tensor or more"))  # fmt: skip
    first = each[0]
    for what in ("dtype", "device"):
        if len({getattr(t, what) for t in each}) > 1:
            raise RuntimeError(text("When constructing a nested tensor, all tensors in list must have the same "
                                    f"{what}", op=op, came=", ".join(str(getattr(t, what)) for t in each)))  # fmt: skip
    if any(t.ndim != first.ndim for t in each):
        raise RuntimeError(text("When constructing a nested tensor, all tensors in list must have the same dim", op=op,
                                came=", ".join(str(tuple(t.shape)) for t in each)))  # fmt: skip
    if not first.ndim:
        raise RuntimeError(text("Cannot construct a nested tensor from a list of zero-dim tensors", op=op,
                                needed="tensors of one dimension or more"))  # fmt: skip
    differ = [d for d in range(first.ndim) if any(t.shape[d] != first.shape[d] for t in each)]
    if len(differ) > 1:
        raise RuntimeError(
            text("Cannot represent given tensor list as a nested tensor with the jagged layout. Note that the jagged "
                 "layout only allows for a single ragged dimension. For example: (B, *, D_0, D_1, ..., D_N), with "
                 "ragged * dim.", op=op, came=", ".join(str(tuple(t.shape)) for t in each[:4])))  # fmt: skip
    whole: Any = nested_of(each, (differ or [0])[0] + 1)
    return whole if dtype is None and device is None else whole.to(device or first.device, dtype or first.dtype)  # type: ignore[no-any-return]


def nested_tensor_from_jagged(values: Tensor, offsets: Tensor | None = None, lengths: Tensor | None = None,
                              jagged_dim: int | None = None, min_seqlen: int | None = None,
                              max_seqlen: int | None = None) -> NestedTensor:  # fmt: skip
    """Return a nested tensor over values whose rows are those of all sequences; the values stay on their graph.

    offsets : ``(B + 1,)``, the row at which each begins and the end. Tensors that share theirs have the same size.
    lengths : ``(B,)``; with offsets where sequences leave rows out, or in their place.
    jagged_dim : which dimension of the nested tensor differs; 1 if not given.
    min_seqlen, max_seqlen : taken, and counted from the offsets all the same.

    *Raises*: RuntimeError without offsets and lengths, or where they go beyond the values.

    >>> import core
    >>> x = core.nested.nested_tensor_from_jagged(core.arange(5), core.tensor([0, 2, 5]))
    >>> x.unbind()
    (tensor([0, 1]), tensor([2, 3, 4]))
    """
    if isinstance(values, NestedTensor):
        raise TypeError(text("nested_tensor_from_jagged(): values must be dense", op="nested_tensor_from_jagged",
                             came="a nested tensor", remedy="x.values()"))  # fmt: skip
    if offsets is None:
        if lengths is None:
            raise RuntimeError(text("nested_tensor_from_jagged(): At least one of offsets or lengths is required.",
                                    op="nested_tensor_from_jagged", needed="offsets=, or lengths="))  # fmt: skip
        ends = [0, *itertools.accumulate(lengths.tolist())]
        offsets, lengths = tensor(ends, dtype=int64, device=values.device), None
    ragged = 1 if jagged_dim is None else jagged_dim
    if not 1 <= ragged <= values.ndim:
        raise RuntimeError(text("nested_tensor_from_jagged(): jagged_dim is out of range", came=f"{jagged_dim}",
                                needed=f"1 to {values.ndim}", op="nested_tensor_from_jagged"))  # fmt: skip
    return made(values, Structure(offsets, lengths, values.shape[ragged - 1]), ragged)


def narrow(tensor: Tensor, dim: int, start: int | Tensor, length: int | Tensor,
           layout: layout | None = None) -> NestedTensor:  # fmt: skip
    """Return what a dense batch ``(B, T, *)`` has from `start` on, `length` rows of each; both may differ by sequence.

    It is a view of the batch: its values are all rows.

    >>> import core
    >>> x = core.nested.narrow(core.arange(6).view(2, 3), 1, 0, core.tensor([1, 3]), layout=core.jagged)
    >>> x.unbind()
    (tensor([0]), tensor([3, 4, 5]))
    """
    _jagged_only("narrow", layout)
    if dim != 1:
        raise RuntimeError(text("jagged layout only supports dim=1", op="narrow", came=f"dim={dim}"))
    whole: Any = tensor
    batch, width = whole.shape[:2]

    def many(n: int | Tensor) -> Any:
        found: Any = new(n)
        return found.expand(batch) if found.ndim == 0 else found

    def new(n: int | Tensor) -> Any:
        return whole.new_tensor(n, dtype=int64) if isinstance(n, int) else n.to(int64)  # type: ignore[attr-defined]

    starts, lengths = many(start), many(length)
    begin = whole.new_tensor(range(batch), dtype=int64) * width
    ends = starts + lengths
    if batch and (int(starts.min()) < 0 or int(ends.max()) > width):
        raise RuntimeError(text("narrow(): start and length do not lie within the tensor", op="narrow",
                                came=f"rows up to {int(ends.max())}", needed=f"at most {width}"))  # fmt: skip
    offsets = whole.new_tensor([*(begin + starts).tolist(), batch * width], dtype=int64)
    return made(whole.flatten(0, 1), Structure(offsets, lengths.clone(), batch * width), 1)


def masked_select(tensor: Tensor, mask: Tensor) -> NestedTensor:
    """Return of each row of a matrix the elements where the mask is true.

    >>> import core
    >>> mask = core.tensor([[True, False, True], [False, False, True]])
    >>> core.nested.masked_select(core.arange(6).view(2, 3), mask).unbind()
    (tensor([0, 2]), tensor([5]))
    """
    whole: Any = tensor
    if tensor.ndim != 2 or mask.ndim != 2:
        raise RuntimeError(text("masked_select only support 2-D selections currently", op="masked_select",
                                came=f"{tuple(tensor.shape)} and {tuple(mask.shape)}"))  # fmt: skip
    mask = mask.expand(tensor.shape)  # type: ignore[attr-defined]
    lengths: Any = mask.sum(1)  # type: ignore[attr-defined]
    return nested_tensor_from_jagged(whole[mask], lengths=lengths)


def to_padded_tensor(input: Tensor, padding: float, output_size: Sequence[int] | None = None) -> Tensor:
    """Return a dense ``(B, *, T, *)``, `padding` behind the end of each sequence; T is the longest one's length.

    output_size : the whole shape, for another T; what is beyond it is left out.

    >>> import core
    >>> x = core.nested.nested_tensor([[1.0, 2.0], [3.0]], layout=core.jagged)
    >>> core.nested.to_padded_tensor(x, 0.0)
    tensor([[1., 2.],
            [3., 0.]])
    """
    if not isinstance(input, NestedTensor):
        raise NotImplementedError(text("to_padded_tensor(): the tensor is not nested", op="to_padded_tensor",
                                       came=f"a dense tensor of shape {tuple(input.shape)}"))  # fmt: skip
    return _to_padded_tensor(input, padding, output_size)  # type: ignore[no-any-return]
