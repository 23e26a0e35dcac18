"""Samples, and batches of them, out of a data set: the same in this process and in a worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .collate import default_collate
from .dataset import Subset, TensorDataset

# What a worker is at, told instead of a place in the batch.
COLLATING, WHOLE_BATCH, SINGLE, STARTING, IDLE = -1, -2, -3, -4, -5


class MapFetcher:
    """Batches of a data set with `__getitem__`. `at` is told the place in the batch before each sample is made."""

    def __init__(self, dataset: Any, batched: bool, collate: Callable[[Any], Any], at: Callable[[int], Any]) -> None:
        self.dataset, self.batched, self.collate, self.at = dataset, batched, collate, at

    def fetch(self, wanted: Any) -> Any:
        """Return the batch of these indices; without batching the sample of this one."""
        whole = self._gathered(wanted)
        if whole is not None:
            return whole
        if not self.batched:
            self.at(SINGLE)
            samples = self.dataset[wanted]
        else:
            many = getattr(self.dataset, "__getitems__", None)
            if many:
                self.at(WHOLE_BATCH)
                samples = many(wanted)
            else:
                samples = []
                for place, i in enumerate(wanted):
                    self.at(place)
                    samples.append(self.dataset[i])
        self.at(COLLATING)
        return self.collate(samples)

    def _gathered(self, wanted: Any) -> list[Any] | None:
        """Return a batch of a `TensorDataset`, or a part of one, by one indexing instead of many and a stack; else
        None."""
        dataset = self.dataset
        if self.collate is not default_collate or type(wanted) is not list:
            return None
        while type(dataset) is Subset:
            wanted, dataset = [dataset.indices[i] for i in wanted], dataset.dataset
        if type(dataset) is not TensorDataset or not all(type(i) is int for i in wanted):
            return None
        self.at(WHOLE_BATCH)
        return [t[wanted] for t in dataset.tensors]  # type: ignore[index]


class StreamFetcher:
    """Batches of a data set that can only be gone through. `at` is told how many samples were read before."""

    def __init__(self, dataset: Any, batched: bool, collate: Callable[[Any], Any], drop_last: bool,
                 at: Callable[[int], Any]) -> None:  # fmt: skip
        self.batched, self.collate, self.drop_last, self.at = batched, collate, drop_last, at
        self.samples: Iterator[Any] = iter(dataset)
        self.read = 0
        self.ended = False

    def fetch(self, wanted: Any) -> Any:
        """Return the next samples, as many as there are in `wanted`. *Raises*: StopIteration at the end."""
        if self.ended:
            raise StopIteration
        if not self.batched:
            self.at(self.read)
            self.ended = True  # unless a sample comes
            samples = next(self.samples)
            self.ended = False
            self.read += 1
        else:
            samples = []
            for _ in wanted:
                self.at(self.read)
                try:
                    samples.append(next(self.samples))
                except StopIteration:
                    self.ended = True
                    break
                self.read += 1
            if not samples or (self.drop_last and len(samples) < len(wanted)):
                raise StopIteration
        self.at(COLLATING)
        return self.collate(samples)
