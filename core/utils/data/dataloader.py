"""`DataLoader`: batches of a data set, in the order a sampler gives."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from .collate import default_collate, default_convert
from .dataset import IterableDataset, Subset, TensorDataset
from .sampler import BatchSampler, RandomSampler, SequentialSampler, draw_seed

_FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")


def get_worker_info() -> None:
    """In a worker process, what it is; None in the main one."""
    return


class _Endless:
    """The sampler of an iterable data set, which knows its own end."""

    def __iter__(self) -> Iterator[None]:
        while True:
            yield None


class DataLoader:
    """Batches of a data set.

    shuffle : a new random order for every pass. sampler, batch_sampler : orders of your own.
    batch_size : None gives single samples. drop_last : leave out a shorter last batch.
    collate_fn : makes a batch from a list of samples. generator : what orders are drawn from.

    *Raises*: ValueError for options that exclude each other; NotImplementedError for worker processes.

    >>> import core
    >>> for batch in core.utils.data.DataLoader(range(5), batch_size=2):
    ...     print(batch)
    tensor([0, 1])
    tensor([2, 3])
    tensor([4])
    """

    _initialized = False

    def __init__(self, dataset: Any, batch_size: int | None = 1, shuffle: bool | None = None, sampler: Any = None,
                 batch_sampler: Any = None, num_workers: int = 0, collate_fn: Callable[[Any], Any] | None = None,
                 pin_memory: bool = False, drop_last: bool = False, timeout: float = 0,
                 worker_init_fn: Callable[[int], None] | None = None, multiprocessing_context: Any = None,
                 generator: Any = None, *, prefetch_factor: int | None = None, persistent_workers: bool = False,
                 pin_memory_device: str = "", in_order: bool = True) -> None:  # fmt: skip
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers, multiprocessing_context)
        iterable = isinstance(dataset, IterableDataset)
        if iterable:
            if shuffle not in (False, None):
                raise ValueError(
                    f"DataLoader with IterableDataset: expected unspecified shuffle option, but got shuffle={shuffle}"
                )
            for name, given in (("sampler", sampler), ("batch_sampler", batch_sampler)):
                if given is not None:
                    raise ValueError(
                        f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={given}"
                    )
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
                )
            batch_size, drop_last = None, False
        elif batch_size is None and drop_last:
            raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
        if sampler is None:
            sampler = (_Endless() if iterable else RandomSampler(dataset, generator=generator) if shuffle
                       else SequentialSampler(dataset))  # fmt: skip
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.dataset, self.batch_size, self.drop_last = dataset, batch_size, drop_last
        self.sampler, self.batch_sampler, self.generator = sampler, batch_sampler, generator
        self.collate_fn = collate_fn or (default_convert if batch_sampler is None else default_collate)
        self.num_workers, self.timeout, self.worker_init_fn = num_workers, timeout, worker_init_fn
        self.prefetch_factor, self.persistent_workers, self.in_order = prefetch_factor, persistent_workers, in_order
        self.pin_memory, self.pin_memory_device = pin_memory, pin_memory_device
        self.multiprocessing_context = multiprocessing_context
        self._iterable = iterable
        self._said_length: int | None = None
        self._initialized = True

    def __setattr__(self, name: str, value: Any) -> None:
        if self._initialized and name in _FIXED:
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(name, value)

    def __iter__(self) -> _Batches:
        return _Batches(self)

    def __len__(self) -> int:
        if not self._iterable:
            return len(self.sampler if self.batch_sampler is None else self.batch_sampler)
        n = self._said_length = len(self.dataset)
        if self.batch_size is None:
            return n
        return n // self.batch_size if self.drop_last else math.ceil(n / self.batch_size)


class _Batches:
    """One pass over a loader."""

    def __init__(self, loader: DataLoader) -> None:
        self._loader = loader
        self._order = iter(loader.sampler if loader.batch_sampler is None else loader.batch_sampler)
        # PyTorch draws the workers' seed here even without workers: the orders that follow depend on it
        self._base_seed = draw_seed(loader.generator)
        self._samples = iter(loader.dataset) if loader._iterable else None
        self._num_yielded = 0

    def __iter__(self) -> _Batches:
        return self

    def __len__(self) -> int:
        loader = self._loader
        return len(loader.sampler if loader.batch_sampler is None else loader.batch_sampler)

    def __next__(self) -> Any:
        loader = self._loader
        wanted = next(self._order)
        batch = self._gathered(wanted)
        if batch is None:
            samples = self._from_map(wanted) if self._samples is None else self._from_stream(wanted)
            batch = loader.collate_fn(samples)
        self._num_yielded += 1
        said = loader._said_length
        if self._samples is not None and said is not None and self._num_yielded > said:
            warnings.warn(
                f"Length of IterableDataset {loader.dataset} was reported to be {said}"
                "(when accessing len(dataloader)), "
                f"but {self._num_yielded} samples have been fetched. ",
                stacklevel=2,
            )
        return batch

    def _gathered(self, wanted: Any) -> list[Any] | None:
        """A batch of a `TensorDataset`, or a part of one, by one indexing instead of many and a stack; else None."""
        dataset = self._loader.dataset
        if self._loader.collate_fn is not default_collate or type(wanted) is not list:
            return None
        while type(dataset) is Subset:
            wanted, dataset = [dataset.indices[i] for i in wanted], dataset.dataset
        if type(dataset) is not TensorDataset or not all(type(i) is int for i in wanted):
            return None
        return [t[wanted] for t in dataset.tensors]  # type: ignore[index]

    def _from_map(self, wanted: Any) -> Any:
        dataset = self._loader.dataset
        if self._loader.batch_sampler is None:
            return dataset[wanted]
        many = getattr(dataset, "__getitems__", None)
        return many(wanted) if many else [dataset[i] for i in wanted]

    def _from_stream(self, wanted: Any) -> Any:
        assert self._samples is not None
        if self._loader.batch_sampler is None:
            return next(self._samples)
        samples = [s for _, s in zip(wanted, self._samples, strict=False)]
        if not samples or (self._loader.drop_last and len(samples) < len(wanted)):
            raise StopIteration
        return samples


def _check_workers(num_workers: int, timeout: float, prefetch_factor: int | None, persistent: bool,
                   context: Any) -> None:  # fmt: skip
    if num_workers < 0:
        raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
    if num_workers > 0:
        raise NotImplementedError(
            f"DataLoader: worker processes come with a later version\n  came: num_workers={num_workers}; needed: 0; "
            "remedy: num_workers=0 loads in this process"
        )
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if prefetch_factor is not None:
        raise ValueError("prefetch_factor option could only be specified in multiprocessing.let num_workers > 0 "
                         "to enable "
                         "multiprocessing, otherwise set prefetch_factor to None.")  # fmt: skip
    if persistent:
        raise ValueError("persistent_workers option needs num_workers > 0")
    if context is not None:
        raise ValueError("multiprocessing_context can only be used with multi-process loading (num_workers > "
                         "0), but got "
                         f"num_workers={num_workers}")  # fmt: skip
