"""Data sets: what can be indexed, or gone through."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Generic, TypeVar

from ...base.source import warn
from ...random import randperm
from ...tensors.tensor import Tensor

T_co = TypeVar("T_co", covariant=True)


class Dataset(Generic[T_co]):
    """Base of data sets that give a sample for an index: write `__getitem__` and `__len__`.

    A `__getitems__` that takes a list of indices is used for whole batches, where there is one.
    """

    def __getitem__(self, index: Any) -> T_co:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Dataset[Any]) -> ConcatDataset[Any]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co]):
    """Base of data sets that can only be gone through: write `__iter__`."""

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError("Subclasses of IterableDataset should implement __iter__.")

    def __add__(self, other: Any) -> Any:
        return ChainDataset([self, other])


class TensorDataset(Dataset[Any]):
    """Samples are tuples of the rows of tensors.

    >>> import core
    >>> data = core.utils.data.TensorDataset(core.tensor([1.0, 2.0]), core.tensor([0, 1]))
    >>> data[1], len(data)
    ((tensor(2.), tensor(1)), 2)
    """

    def __init__(self, *tensors: Tensor) -> None:
        if any(t.shape[0] != tensors[0].shape[0] for t in tensors):
            raise AssertionError(
                "Size mismatch between tensors; came: " + ", ".join(str(tuple(t.shape)) for t in tensors)
            )
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(t[index] for t in self.tensors)  # type: ignore[index]

    def __len__(self) -> int:
        return int(self.tensors[0].shape[0])


class StackDataset(Dataset[T_co]):
    """Samples of several data sets together: as tuples, or by name as dicts."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if bool(args) == bool(kwargs):
            raise ValueError(
                "Supported either ``tuple``- (via ``args``) or``dict``- (via ``kwargs``) like input/output, but both "
                "types are given."
                if args
                else "At least one dataset should be passed"
            )
        self.datasets: Any = args or kwargs
        lengths = {len(d) for d in (args or kwargs.values())}
        if len(lengths) != 1:
            raise ValueError("Size mismatch between datasets")
        self._length = lengths.pop()

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: d[index] for name, d in self.datasets.items()}
        return tuple(d[index] for d in self.datasets)

    def __getitems__(self, indices: list[Any]) -> list[Any]:
        named = isinstance(self.datasets, dict)
        columns = []
        for dataset in self.datasets.values() if named else self.datasets:
            many = getattr(dataset, "__getitems__", None)
            column = many(indices) if callable(many) else [dataset[i] for i in indices]
            if len(column) != len(indices):
                raise ValueError("Nested dataset's output size mismatch."
                                 f" Expected {len(indices)}, got {len(column)}")  # fmt: skip
            columns.append(column)
        rows = zip(*columns, strict=True)
        return [dict(zip(self.datasets, row, strict=True)) for row in rows] if named else list(rows)

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset[T_co]):
    """Data sets one after the other.

    >>> import core
    >>> both = core.utils.data.ConcatDataset([[1, 2], [3]])
    >>> len(both), both[2], both[-3]
    (3, 3, 1)
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(d, IterableDataset) for d in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = self.cumsum(self.datasets)

    @staticmethod
    def cumsum(sequence: Iterable[Any]) -> list[int]:
        """Return where each of some data sets ends."""
        return list(accumulate(len(d) for d in sequence))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> Any:
        if index < 0:
            if -index > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            index += len(self)
        which = bisect_right(self.cumulative_sizes, index)
        if which == len(self.datasets):
            raise IndexError(f"list index out of range\n  op: ConcatDataset; came: {index}; needed: below {len(self)}")
        return self.datasets[which][index - (self.cumulative_sizes[which - 1] if which else 0)]


class ChainDataset(IterableDataset[Any]):
    """Iterable data sets one after the other."""

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = datasets

    def __iter__(self) -> Iterator[Any]:
        for d in self.datasets:
            if not isinstance(d, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield from d

    def __len__(self) -> int:
        return sum(len(d) for d in self.datasets)


class Subset(Dataset[T_co]):
    """Some samples of a data set, by their indices.

    >>> import core
    >>> core.utils.data.Subset("abcd", [3, 1])[0]
    'd'
    """

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, indices
        cls = type(self)
        if cls.__getitem__ is not Subset.__getitem__ and cls.__getitems__ is Subset.__getitems__:
            raise NotImplementedError(
                f"{cls.__name__} overrides __getitem__ but not __getitems__. When subclassing Subset and overriding "
                "__getitem__, you must also override __getitems__ to ensure DataLoader works correctly with "
                "your custom "
                "logic. A simple implementation:\n\ndef __getitems__(self, indices):\n"
                "    return [self.__getitem__(idx) for idx in indices]"
            )

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: list[int]) -> list[Any]:
        mine = [self.indices[i] for i in indices]
        many = getattr(self.dataset, "__getitems__", None)
        return many(mine) if callable(many) else [self.dataset[i] for i in mine]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(dataset: Any, lengths: Sequence[int | float], generator: Any = None) -> list[Subset[Any]]:
    """Return a data set split at random into parts of these lengths, or of these fractions of it, which sum to 1.

    *Raises*: ValueError where the lengths do not sum to the data set's.

    >>> import core
    >>> [len(part) for part in core.utils.data.random_split(range(10), [0.7, 0.3])]
    [7, 3]
    """
    n = len(dataset)
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        for i, share in enumerate(lengths):
            if share < 0 or share > 1:
                raise ValueError(f"Fraction at index {i} is not between 0 and 1")
        sizes = [math.floor(n * share) for share in lengths]
        for i in range(n - sum(sizes)):  # what rounding left over goes round
            sizes[i % len(sizes)] += 1
        for i, size in enumerate(sizes):
            if size == 0:
                warn(f"Length of split at index {i} is 0. This might result in an empty dataset.")
    else:
        sizes = list(lengths)  # type: ignore[arg-type]
    if sum(sizes) != n:
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!\n"
                         f"  op: random_split; came: {sizes}, together {sum(sizes)}; needed: {n}")  # fmt: skip
    order = randperm(n, generator=generator).tolist()
    return [Subset(dataset, order[stop - size : stop]) for stop, size in zip(accumulate(sizes), sizes, strict=True)]
