"""Sequences of different lengths in one tensor: packed (no padding, step behind step) and padded.

>>> import core
>>> from core.nn.utils.rnn import pack_sequence, unpack_sequence
>>> packed = pack_sequence([core.tensor([1, 2, 3]), core.tensor([4, 5])])
>>> packed.data, packed.batch_sizes
(tensor([1, 4, 2, 5, 3]), tensor([2, 2, 1]))
>>> unpack_sequence(packed)
[tensor([1, 2, 3]), tensor([4, 5])]
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, Self

import numpy as np

from ...base import dtypes
from ...base.errors import text
from ...ops.creation import full
from ...ops.joining import cat
from ...tensors.tensor import Tensor, from_array

__all__ = ["PackedSequence", "invert_permutation", "pack_padded_sequence", "pad_packed_sequence", "pad_sequence",
           "unpad_sequence", "pack_sequence", "unpack_sequence"]  # fmt: skip


class _Fields(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(_Fields):
    """Several sequences step behind step: `data` holds the first step of all, then the second of those that have one.

    batch_sizes : how many sequences have each step, on the CPU.
    sorted_indices : where the longest, second longest, ... sequence was in the batch; None if they were in order.
    unsorted_indices : the way back.

    Made by `pack_sequence` and `pack_padded_sequence`; ``nn.LSTM``, ``nn.GRU`` and ``nn.RNN`` take it and give one.

    >>> import core
    >>> core.nn.utils.rnn.pack_sequence([core.ones(2), core.zeros(1)]).double().data.dtype
    core.float64
    """

    __slots__ = ()

    def __new__(cls, data: Any, batch_sizes: Tensor | None = None, sorted_indices: Tensor | None = None,
                unsorted_indices: Tensor | None = None) -> Self:  # fmt: skip
        if batch_sizes is None:
            if not isinstance(data, list | tuple) or len(data) != 2:
                raise AssertionError("Expected data to be a list or tuple of length 2")
            data, batch_sizes = data
        assert batch_sizes is not None
        if batch_sizes.device.type != "cpu":
            raise ValueError(text("batch_sizes should always be on CPU. Instances of PackedSequence should never be "
                                  "created manually. They should be instantiated by functions like pack_sequence and "
                                  "pack_padded_sequences in nn.utils.rnn.",
                                  came=f"batch_sizes on {batch_sizes.device}"))  # fmt: skip
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """With `data` on another device or of another dtype, as ``Tensor.to``; itself when nothing changes."""
        if "copy" in kwargs:
            raise RuntimeError(".to() does not accept copy argument")
        data = self.data.to(*args, **kwargs)  # type: ignore[attr-defined]
        if data is self.data:
            return self
        places = [None if i is None else i.to(data.device) for i in (self.sorted_indices, self.unsorted_indices)]  # type: ignore[attr-defined]
        return type(self)(data, self.batch_sizes, *places)

    def cpu(self) -> Self:
        """With `data` on the CPU."""
        return self.to("cpu")

    def cuda(self, *args: Any, **kwargs: Any) -> Self:
        """With `data` on a GPU."""
        device = args[0] if args else kwargs.pop("device", "cuda")
        return self.to(f"cuda:{device}" if isinstance(device, int) else device, **kwargs)

    def pin_memory(self) -> Self:
        """With all its tensors in page-locked memory."""
        return type(self)(*(None if t is None else t.pin_memory() for t in self))  # type: ignore[attr-defined]

    def is_pinned(self) -> bool:
        """Return whether `data` lies in page-locked memory."""
        return bool(self.data.is_pinned())  # type: ignore[attr-defined]

    @property
    def is_cuda(self) -> bool:
        return self.data.is_cuda

    def _as(self, name: str) -> Self:
        return self.to(getattr(dtypes, name))

    def double(self) -> Self:
        """With `data` in float64."""
        return self._as("float64")

    def float(self) -> Self:
        """With `data` in float32."""
        return self._as("float32")

    def half(self) -> Self:
        """With `data` in float16."""
        return self._as("float16")

    def long(self) -> Self:
        """With `data` in int64."""
        return self._as("int64")

    def int(self) -> Self:
        """With `data` in int32."""
        return self._as("int32")

    def short(self) -> Self:
        """With `data` in int16."""
        return self._as("int16")

    def char(self) -> Self:
        """With `data` in int8."""
        return self._as("int8")

    def byte(self) -> Self:
        """With `data` in uint8."""
        return self._as("uint8")


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """Return the permutation that takes this one back; None for None.

    >>> import core
    >>> core.nn.utils.rnn.invert_permutation(core.tensor([2, 0, 1]))
    tensor([1, 2, 0])
    """
    return None if permutation is None else permutation.argsort()  # type: ignore[attr-defined, no-any-return]


def _array(lengths: Any) -> Any:
    """Lengths as a NumPy array of int64."""
    if isinstance(lengths, Tensor):
        if lengths.ndim != 1 or lengths.is_cuda:
            raise RuntimeError(text("'lengths' argument should be a 1D CPU int64 tensor, but got "
                                    f"{lengths.ndim}D {lengths.device.type} {lengths.dtype.scalar_type} tensor",
                                    op="pack_padded_sequence", remedy="lengths.cpu()"))  # fmt: skip
        return lengths._a.astype(np.int64)
    return np.array([int(n) for n in lengths], np.int64)


def _steps_of(lengths: Any) -> Any:
    """For lengths in falling order, how many sequences have each step."""
    return (lengths[:, None] > np.arange(lengths[0] if len(lengths) else 0)).sum(0)


def _step_and_sequence(sizes: Any) -> tuple[Any, Any]:
    """Of each packed row, its step and its sequence."""
    step = np.repeat(np.arange(len(sizes)), sizes)
    return step, np.arange(len(step)) - np.repeat(np.cumsum(sizes) - sizes, sizes)


def _rows(x: Tensor, places: Any) -> Tensor:
    """Return the rows of x, its first two dimensions one, at `places`."""
    flat = x.reshape(x.shape[0] * x.shape[1], *x.shape[2:])  # type: ignore[attr-defined]
    return flat.index_select(0, from_array(places).to(x.device))  # type: ignore[attr-defined, no-any-return]


def _placed(rows: Tensor, places: Any, lead: tuple[int, int], value: Any) -> Tensor:
    """Return a tensor of `value` with these two dimensions in front, and the rows put at `places` of them."""
    blank = full((lead[0] * lead[1], *rows.shape[1:]), value, dtype=rows.dtype, device=rows.device)
    put = blank.index_copy(0, from_array(places).to(rows.device), rows)  # type: ignore[attr-defined]
    return put.reshape(*lead, *rows.shape[1:])  # type: ignore[no-any-return]


def pack_padded_sequence(input: Tensor, lengths: Any, batch_first: bool = False,
                         enforce_sorted: bool = True) -> PackedSequence:  # fmt: skip
    """Pack padded sequences: of each only its first ``lengths[i]`` steps.

    input : (steps, batch, *), with `batch_first` (batch, steps, *).
    lengths : a list or a tensor on the CPU; with `enforce_sorted` in falling order.

    Raises
    ------
    RuntimeError
        For lengths of another number than the batch, below 1, beyond the steps there are, or out of order.

    >>> import core
    >>> x = core.tensor([[1, 2, 0], [3, 0, 0], [4, 5, 6]])
    >>> packed = core.nn.utils.rnn.pack_padded_sequence(x, [2, 1, 3], batch_first=True, enforce_sorted=False)
    >>> packed.data, packed.sorted_indices
    (tensor([4, 1, 3, 5, 2, 6]), tensor([2, 0, 1]))
    """
    op = "pack_padded_sequence"
    counts = _array(lengths)
    if input.ndim < 2:
        raise IndexError(text(f"Dimension out of range: {op} needs steps and sequences", op=op,
                              came=f"shape {tuple(input.shape)}"))  # fmt: skip
    batch, steps = (input.shape[0], input.shape[1]) if batch_first else (input.shape[1], input.shape[0])
    if not input.numel():
        raise RuntimeError(text("Cannot pack empty tensors.", op=op, came=f"shape {tuple(input.shape)}"))
    if len(counts) != batch:
        raise RuntimeError(text(f"Expected `len(lengths)` to be equal to batch_size, but got {len(counts)} "
                                f"(batch_size={batch})", op=op))  # fmt: skip
    if counts.min() <= 0:
        raise RuntimeError(text("Length of all samples has to be greater than 0, but found an element in 'lengths' "
                                "that is <= 0", op=op,
                                came=f"length {int(counts.min())} at {int(counts.argmin())}"))  # fmt: skip
    if counts.max() > steps:
        raise RuntimeError(text(f"Expected lengths of at most {steps}, the steps of the input, but got "
                                f"{int(counts.max())}", op=op))  # fmt: skip
    order = None
    if enforce_sorted:
        if (np.diff(counts) > 0).any():
            raise RuntimeError(text(
                "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
                "`enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this requirement if "
                "you do not need ONNX exportability.", op=op, came=str(counts.tolist())))  # fmt: skip
    else:
        order = np.argsort(-counts, kind="stable")
        counts = counts[order]
    sizes = _steps_of(counts)
    step, sequence = _step_and_sequence(sizes)
    at = sequence if order is None else order[sequence]
    data = _rows(input, at * steps + step if batch_first else step * batch + at)
    return PackedSequence(data, from_array(sizes), None if order is None else from_array(order).to(input.device))  # type: ignore[attr-defined]


def pad_packed_sequence(sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0,
                        total_length: int | None = None) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return the way back from `pack_padded_sequence`: the padded tensor, and the lengths.

    total_length : pad to so many steps, at least those of the longest sequence (ValueError).

    >>> import core
    >>> packed = core.nn.utils.rnn.pack_sequence([core.tensor([1, 2, 3]), core.tensor([4, 5])])
    >>> core.nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)
    (tensor([[1, 2, 3],
            [4, 5, 0]]), tensor([3, 2]))
    """
    data, batch_sizes, _, unsorted = sequence
    sizes = batch_sizes._a
    batch, longest = int(sizes[0]), len(sizes)
    steps = longest if total_length is None else total_length
    if steps < longest:
        raise ValueError(text("Expected total_length to be at least the length of the longest sequence in input, but "
                              f"got total_length={total_length} and max sequence length being {longest}",
                              op="pad_packed_sequence"))  # fmt: skip
    step, at = _step_and_sequence(sizes)
    lengths = (sizes[None] > np.arange(batch)[:, None]).sum(1)
    if unsorted is not None:
        back = unsorted.cpu()._a  # type: ignore[attr-defined]
        at, lengths = np.argsort(back)[at], lengths[back]
    lead, places = ((batch, steps), at * steps + step) if batch_first else ((steps, batch), step * batch + at)
    return _placed(data, places, lead, padding_value), from_array(lengths)


def pad_sequence(sequences: Any, batch_first: bool = False, padding_value: float = 0.0,
                 padding_side: str = "right") -> Tensor:  # fmt: skip
    """Sequences of different lengths as one tensor (longest, batch, *), with `batch_first` (batch, longest, *).

    padding_side : "right" or "left" of the shorter ones.

    >>> import core
    >>> sequences = [core.tensor([1, 2, 3]), core.tensor([4])]
    >>> core.nn.utils.rnn.pad_sequence(sequences, batch_first=True, padding_side="left")
    tensor([[1, 2, 3],
            [0, 0, 4]])
    """
    op = "pad_sequence"
    if not isinstance(sequences, Iterable):
        raise RuntimeError(
            f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}"
        )
    if padding_side not in ("left", "right"):
        raise RuntimeError(text(f"Expected padding_side to be one of left or right, but got {padding_side}.", op=op))
    parts = list(sequences.unbind(0) if isinstance(sequences, Tensor) else sequences)  # type: ignore[attr-defined]
    if not parts:
        raise RuntimeError(text("received an empty list of sequences", op=op, needed="at least one"))
    for i, p in enumerate(parts):
        if not isinstance(p, Tensor):
            raise TypeError(f"expected Tensor as element {i} in argument 0, but got {type(p).__name__}")
        if p.ndim == 0 or p.shape[1:] != parts[0].shape[1:]:
            raise RuntimeError(text("The size of tensors must match but for their first dimension", op=op,
                                    came=f"{tuple(parts[0].shape)} and, at {i}, {tuple(p.shape)}",
                                    needed="(length, *) with the same * everywhere"))  # fmt: skip
    counts = np.array([p.shape[0] for p in parts])
    longest, batch = int(counts.max()), len(parts)
    rows = cat([p.to(parts[0].dtype) for p in parts])
    sequence = np.repeat(np.arange(batch), counts)
    step = np.arange(len(sequence)) - np.repeat(np.cumsum(counts) - counts, counts)
    if padding_side == "left":
        step += np.repeat(longest - counts, counts)
    lead, places = ((batch, longest), sequence * longest + step) if batch_first else \
        ((longest, batch), step * batch + sequence)  # fmt: skip
    return _placed(rows, places, lead, padding_value)


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """Return the way back from `pad_sequence` that padded on the right: the first ``lengths[i]`` steps of each.

    >>> import core
    >>> core.nn.utils.rnn.unpad_sequence(core.tensor([[1, 2], [3, 0]]), core.tensor([2, 1]), batch_first=True)
    [tensor([1, 2]), tensor([3])]
    """
    rows = padded_sequences.unbind(0 if batch_first else 1)  # type: ignore[attr-defined]
    counts = [int(n) for n in (lengths.cpu()._a if isinstance(lengths, Tensor) else lengths)]  # type: ignore[attr-defined]
    if len(counts) != len(rows):
        raise ValueError(text(f"{len(rows)} sequences and {len(counts)} lengths", op="unpad_sequence",
                              needed="a length for each sequence", remedy="see batch_first"))  # fmt: skip
    return [row[:n] for row, n in zip(rows, counts, strict=True)]


def pack_sequence(sequences: Any, enforce_sorted: bool = True) -> PackedSequence:
    """Pack sequences of different lengths; with `enforce_sorted` they come longest first.

    >>> import core
    >>> core.nn.utils.rnn.pack_sequence([core.tensor([1]), core.tensor([2, 3])], enforce_sorted=False).data
    tensor([2, 1, 3])
    """
    sequences = list(sequences)
    return pack_padded_sequence(pad_sequence(sequences), [len(s) for s in sequences], enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """Return the way back from `pack_sequence`.

    >>> import core
    >>> rnn = core.nn.utils.rnn
    >>> rnn.unpack_sequence(rnn.pack_sequence([core.tensor([1]), core.tensor([2, 3])], enforce_sorted=False))
    [tensor([1]), tensor([2, 3])]
    """
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
