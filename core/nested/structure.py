"""How the rows of values are shared out among sequences, and the size that differs among these."""

from __future__ import annotations

import itertools
from functools import cached_property
from typing import Any

import numpy as np

from ..base.dtypes import int64
from ..base.errors import text
from ..ops.creation import tensor
from ..symbolic import SymInt
from ..tensors.tensor import Tensor

_numbers = itertools.count(1)


class RaggedSize(SymInt):  # type: ignore[misc,valid-type]
    """A size that differs from sequence to sequence: ``j1``. It is equal to itself alone, and is no number.

    >>> import core
    >>> x = core.nested.nested_tensor([core.ones(2, 4), core.ones(3, 4)], layout=core.jagged)
    >>> x.size(1) == x.size(1), x.size(1) == 3
    (True, False)
    """

    number: int
    factor: int

    def __new__(cls, number: int | None = None, factor: int = 1) -> RaggedSize:
        out: RaggedSize = object.__new__(cls)
        out.number, out.factor = next(_numbers) if number is None else number, factor
        return out

    def __repr__(self) -> str:
        return f"j{self.number}" if self.factor == 1 else f"{self.factor}*j{self.number}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RaggedSize) and (self.number, self.factor) == (other.number, other.factor)

    def __hash__(self) -> int:
        return hash((self.number, self.factor))

    def __mul__(self, factor: Any) -> RaggedSize:
        return RaggedSize(self.number, self.factor * factor) if isinstance(factor, int) else NotImplemented

    __rmul__ = __mul__

    def _at_least(self, least: Any) -> bool:
        """Return whether it is `least` or more: as in PyTorch it counts as 2 or more, and above that is not told."""
        if self == least or (isinstance(least, int) and least <= 2):
            return True
        raise ValueError(text("ge: relation is indeterminate", op="size", came=f"{self!r} beside {least!r}",
                              remedy="x.offsets().diff() has the lengths"))  # fmt: skip

    def __ge__(self, other: Any) -> bool:
        return self._at_least(other)

    def __gt__(self, other: Any) -> bool:
        return self != other and self._at_least(other + 1 if isinstance(other, int) else other)

    def __lt__(self, other: Any) -> bool:
        return not self._at_least(other)

    def __le__(self, other: Any) -> bool:
        return not self > other

    def __int__(self) -> int:
        raise TypeError(text(f"{self!r} differs from sequence to sequence and is no int", op="size",
                             remedy="x.offsets().diff() has the lengths"))  # fmt: skip


def size_of(source: Tensor) -> RaggedSize:
    """Return the size that offsets (or lengths) stand for: always the same for the same tensor."""
    known = source.__dict__.get("_ragged_size")
    if known is None:
        known = source.__dict__["_ragged_size"] = RaggedSize()
    return known  # type: ignore[no-any-return]


class Structure:
    """Where each sequence lies among `total` rows of values.

    offsets : ``(batch + 1,)``, the row at which each begins, and the end.
    lengths : ``(batch,)``, where a sequence does not reach to the next one; else None.
    """

    def __init__(self, offsets: Tensor, lengths: Tensor | None, total: int, size: RaggedSize | None = None) -> None:
        self.offsets, self.lengths, self.total = offsets, lengths, total
        source = offsets if lengths is None else lengths
        if size is not None:
            source.__dict__["_ragged_size"] = size
        self.size = size_of(source)
        starts = np.asarray(offsets.detach().cpu().numpy(), np.int64)
        self.starts = starts[:-1]
        self.counts = np.diff(starts) if lengths is None else np.asarray(lengths.detach().cpu().numpy(), np.int64)
        ends = self.starts + self.counts
        if len(self.starts) and (self.starts.min() < 0 or self.counts.min() < 0 or ends.max() > total):
            raise RuntimeError(
                text("nested_tensor_from_jagged(): offsets do not lie within the values",
                     op="nested_tensor_from_jagged", needed=f"rows among {total}",
                     came=f"sequences from {self.starts.tolist()} to {ends.tolist()}",
                     remedy="offsets that begin at 0, do not fall, and end at the number of rows"))  # fmt: skip

    @property
    def batch(self) -> int:
        return len(self.counts)

    @cached_property
    def longest(self) -> int:
        return int(self.counts.max()) if self.batch else 0

    @property
    def live(self) -> int:
        """How many rows are in a sequence."""
        return int(self.counts.sum())

    @cached_property
    def sequence(self) -> Any:
        """Of each row that is in one, the number of its sequence: a NumPy array."""
        return np.repeat(np.arange(self.batch), self.counts)

    @cached_property
    def step(self) -> Any:
        """Of each row that is in one, its place in its sequence: a NumPy array."""
        return np.arange(self.live) - np.repeat(np.cumsum(self.counts) - self.counts, self.counts)

    @cached_property
    def rows(self) -> Tensor | None:
        """The rows that are in a sequence, in order; None where that is all of them."""
        rows = self.starts[self.sequence] + self.step
        return None if np.array_equal(rows, np.arange(self.total)) else self.index(rows)

    def places(self, width: int) -> Tensor:
        """Return where each row stands among the rows of a dense ``(batch, width)``."""
        return self.index(self.sequence * width + self.step)

    def rows_of(self, order: Any) -> Any:
        """Return the rows of the sequences in another order, as a NumPy array."""
        counts = self.counts[order]
        ends = np.cumsum(counts)
        return np.repeat(self.starts[order] - ends + counts, counts) + np.arange(ends[-1] if len(ends) else 0)

    def index(self, numbers: Any) -> Tensor:
        """Return numbers of rows as a tensor where the offsets are."""
        return tensor(numbers, dtype=int64, device=self.offsets.device)

    def compact(self) -> Structure:
        """Return the structure of the rows alone that are in a sequence, of the same size."""
        ends = np.concatenate([[0], np.cumsum(self.counts)])
        return Structure(self.index(ends), None, self.live, self.size)

    def on(self, device: Any) -> Structure:
        """Return it with its tensors on a device."""
        lengths = None if self.lengths is None else self.lengths.to(device)  # type: ignore[attr-defined]
        return Structure(self.offsets.to(device), lengths, self.total, self.size)  # type: ignore[attr-defined]

    def fits(self, other: Structure) -> bool:
        """Return whether another's rows are the same rows."""
        return self is other or (self.offsets is other.offsets and self.lengths is other.lengths
                                 and self.total == other.total)  # fmt: skip
