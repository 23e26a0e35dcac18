"""Batches of sequences: as many as a budget of tokens allows, padded to one length or packed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...base.dtypes import int64
from ...base.errors import text
from ...declare.op import functions
from ...nn.utils.rnn import pack_sequence, pad_sequence
from ...ops.creation import tensor
from ...random import randperm
from ...rng.generator import fork
from ...tensors.tensor import Tensor
from .collate import collate, default_collate_fn_map
from .sampler import Sampler, draw_seed


class TokenBatchSampler(Sampler[list[int]]):
    """Batches of samples of similar length, each within a budget of tokens, padding counted.

    A batch of b samples, the longest of which has n tokens, costs b n. Samples are put into buckets whose lengths are
    at most `spread` apart as a factor; in every pass they are shuffled within their bucket, and the batches among each
    other. What is left over of a bucket is filled up from the next shorter one. Every pass has as many batches.

    lengths : of each sample. max_tokens : the budget. max_samples : at most so many in a batch.
    multiple_of : the length a batch is padded to is a multiple of it. drop_last : leave out what is left over.
    seed : the order is drawn from it and from the epoch that `set_epoch` was told; without it, from `generator` or
        the default one, and every pass has another order.

    *Raises*: ValueError for a sample longer than the budget.

    >>> import core
    >>> batches = core.utils.data.TokenBatchSampler([5, 2, 9, 2, 5, 1], max_tokens=10, shuffle=False)
    >>> list(batches), len(batches)
    ([[2], [0, 4], [1, 3, 5]], 3)
    """

    def __init__(self, lengths: Any, max_tokens: int, *, max_samples: int | None = None, shuffle: bool = True,
                 multiple_of: int = 1, spread: float = 1.1, drop_last: bool = False, seed: int | None = None,
                 generator: Any = None) -> None:  # fmt: skip
        array = lengths.numpy() if isinstance(lengths, Tensor) else np.asarray(lengths)
        if array.ndim != 1 or (array.size and (array.dtype.kind not in "iu" or array.min() < 0)):
            raise ValueError(text("lengths should be a 1d sequence of integers from 0 up", op="TokenBatchSampler",
                                  came=f"{array.dtype} of shape {array.shape}"))  # fmt: skip
        for name, value in (
            ("max_tokens", max_tokens),
            ("multiple_of", multiple_of),
            ("max_samples", max_samples or 1),
        ):
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ValueError(f"{name} should be a positive integer value, but got {name}={value}")
        if spread < 1:
            raise ValueError(f"spread should be at least 1, but got spread={spread}")
        self.lengths = array.astype(np.int64)
        self.max_tokens, self.max_samples, self.multiple_of = max_tokens, max_samples, multiple_of
        self.shuffle, self.drop_last, self.seed, self.generator, self.epoch = shuffle, drop_last, seed, generator, 0
        self._buckets = self._sorted_into_buckets(spread)

    def _sorted_into_buckets(self, spread: float) -> list[tuple[np.ndarray, int]]:
        """Return (indices, samples a batch) of each bucket, from long to short."""
        order = np.argsort(-self.lengths, kind="stable")
        padded = -(-np.maximum(self.lengths[order], 1) // self.multiple_of) * self.multiple_of
        buckets, begin = [], 0
        while begin < len(order):
            longest, cost = int(order[begin]), int(padded[begin])
            if cost > self.max_tokens:
                raise ValueError(
                    text(f"sample {longest} does not fit into a batch of {self.max_tokens} tokens",
                         op="TokenBatchSampler", came=f"{self.lengths[longest]} tokens, padded to {cost}",
                         remedy="cut it or leave it out; or a larger max_tokens")
                )  # fmt: skip
            size = self.max_tokens // cost
            end = begin + int(np.searchsorted(-padded[begin:] * spread, -cost, side="right"))
            buckets.append((order[begin:end], min(size, self.max_samples or size)))
            begin = end
        return buckets

    def set_epoch(self, epoch: int) -> None:
        """Which pass is next, for a sampler with a seed: each has an order of its own."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[list[int]]:
        generator = None
        if self.shuffle:
            generator = fork(draw_seed(self.generator) if self.seed is None else self.seed + self.epoch)
        batches: list[list[int]] = []
        rest: list[int] = []
        room = 0  # in a batch of the bucket that the rest is from
        for indices, size in self._buckets:
            pool = indices
            if generator is not None:
                pool = pool[randperm(len(pool), generator=generator).numpy()]
            fill = room - len(rest) if rest else 0
            rest += pool[:fill].tolist()
            left: list[int] = pool[fill:].tolist()
            if left or len(rest) == room:
                batches += [rest] if rest else []
                batches += [left[i : i + size] for i in range(0, len(left) - size + 1, size)]
                rest, room = left[len(left) - len(left) % size :], size
        if rest and not self.drop_last:
            batches.append(rest)
        if generator is not None:
            return iter([batches[i] for i in randperm(len(batches), generator=generator).tolist()])
        return iter(batches)

    def __len__(self) -> int:
        count = rest = room = 0
        for indices, size in self._buckets:
            fill = min(room - rest, len(indices)) if rest else 0
            rest, left = rest + fill, len(indices) - fill
            if left or rest == room:
                count += (rest > 0) + left // size
                rest, room = left % size, size
        return count + (rest > 0 and not self.drop_last)


class PadCollate:
    """A `collate_fn` that pads sequences to the longest of their batch; all else is as in `default_collate`.

    Sequences are tensors and arrays with a dimension, which may differ in the first one. Lists of numbers are taken as
    sequences too. With ``lengths=True`` each becomes a pair: the padded tensor, and an int64 tensor of the lengths.

    *Shapes*: samples (L_i, *) → (B, L, *), or (L, B, *) with ``batch_first=False``; L is the longest L_i, as a multiple
    of `multiple_of`. *Raises*: RuntimeError where sequences differ in another dimension.

    >>> import core
    >>> pad = core.utils.data.PadCollate(lengths=True)
    >>> (x, lengths), label = pad([([1, 2, 3], 0), ([4], 1)])
    >>> x, lengths, label
    (tensor([[1, 2, 3],
            [4, 0, 0]]), tensor([3, 1]), tensor([0, 1]))
    """

    def __init__(self, padding_value: float = 0.0, batch_first: bool = True, *, lengths: bool = False,
                 multiple_of: int = 1) -> None:  # fmt: skip
        self.padding_value, self.batch_first = padding_value, batch_first
        self.lengths, self.multiple_of = lengths, multiple_of

    def __call__(self, batch: Sequence[Any]) -> Any:
        return collate([_sequences(sample) for sample in batch], collate_fn_map=_with_tensors(self._padded))

    def _padded(self, batch: Sequence[Tensor], *, collate_fn_map: Any = None) -> Any:
        _check(batch, "PadCollate")
        x = pad_sequence(list(batch), batch_first=self.batch_first, padding_value=self.padding_value)
        dim = 1 if self.batch_first else 0
        if more := -x.shape[dim] % self.multiple_of:
            shape = [more if i == dim else n for i, n in enumerate(x.shape)]
            x = functions["cat"]([x, x.new_full(shape, self.padding_value)], dim)
        return (x, _lengths(batch)) if self.lengths else x


class PackCollate:
    """A `collate_fn` that packs sequences (see `nn.utils.rnn.pack_sequence`); all else is as in `default_collate`.

    What a sequence is, is said at `PadCollate`. Samples need no order: the packed batch notes theirs.

    >>> import core
    >>> packed, label = core.utils.data.PackCollate()([([1, 2, 3], 0), ([4], 1)])
    >>> packed.data, packed.batch_sizes, label
    (tensor([1, 4, 2, 3]), tensor([2, 1, 1]), tensor([0, 1]))
    """

    def __init__(self, enforce_sorted: bool = False) -> None:
        self.enforce_sorted = enforce_sorted

    def __call__(self, batch: Sequence[Any]) -> Any:
        return collate([_sequences(sample) for sample in batch], collate_fn_map=_with_tensors(self._packed))

    def _packed(self, batch: Sequence[Tensor], *, collate_fn_map: Any = None) -> Any:
        _check(batch, "PackCollate")
        return pack_sequence(list(batch), enforce_sorted=self.enforce_sorted)


def _with_tensors(function: Callable[..., Any]) -> dict[Any, Callable[..., Any]]:
    """Return the default map, but for tensors that have a dimension."""
    stacked = default_collate_fn_map[Tensor]

    def either(batch: Sequence[Tensor], *, collate_fn_map: Any = None) -> Any:
        return (function if batch[0].ndim else stacked)(batch, collate_fn_map=collate_fn_map)

    return {**default_collate_fn_map, Tensor: either}


def _sequences(sample: Any) -> Any:
    """Return a sample with its lists of numbers as tensors."""
    if isinstance(sample, list) and sample and all(isinstance(i, int | float) for i in sample):
        return tensor(sample)
    if isinstance(sample, list):
        return [_sequences(s) for s in sample]
    if isinstance(sample, tuple):
        items = [_sequences(s) for s in sample]
        return type(sample)(*items) if hasattr(sample, "_fields") else tuple(items)
    if isinstance(sample, Mapping):
        return {k: _sequences(v) for k, v in sample.items()}
    return sample


def _check(batch: Sequence[Tensor], op: str) -> None:
    shapes = {tuple(t.shape[1:]) for t in batch}
    if len(shapes) > 1:
        raise RuntimeError(text("sequences of a batch may differ in their first dimension alone", op=op,
                                came=", ".join(str(tuple(t.shape)) for t in batch[:8])))  # fmt: skip


def _lengths(batch: Sequence[Tensor]) -> Tensor:
    return tensor([len(t) for t in batch], dtype=int64)
