"""`DataLoader`: batches of a data set, in the order a sampler gives."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from ...base.source import warn
from .collate import default_collate, default_convert
from .dataset import IterableDataset
from .info import get_worker_info  # noqa: F401 - it stands here in PyTorch
from .passes import Pass, SinglePass, WorkerPass, suggested_workers
from .sampler import BatchSampler, RandomSampler, SequentialSampler

_FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")
T_co = TypeVar("T_co", covariant=True)


_BaseDataLoaderIter, _SingleProcessDataLoaderIter, _MultiProcessingDataLoaderIter = Pass, SinglePass, WorkerPass


class _Endless:
    """The sampler of an iterable data set, which knows its own end."""

    def __iter__(self) -> Iterator[None]:
        while True:
            yield None


class DataLoader(Generic[T_co]):
    """Batches of a data set.

    shuffle : a new random order for every pass. sampler, batch_sampler : orders of your own.
    batch_size : None gives single samples. drop_last : leave out a shorter last batch.
    collate_fn : makes a batch from a list of samples. generator : what orders are drawn from.

    num_workers : processes that make the batches ahead, `prefetch_factor` each (2). They are fresh interpreters, which
        do not run the main module again: a script needs no ``if __name__ == "__main__"``, and what is defined in a
        script or in a notebook's cell reaches them through cloudpickle. Batches come back through shared memory that
        has no name, in the order of one process under the same seed; with ``in_order=False`` as they are done.
    worker_init_fn : is called in each worker with its number, after `random`, `numpy.random` and `core` were seeded
        with a base seed plus that number. persistent_workers : keep them for the next pass.
    timeout : seconds to wait for a batch; 0 is for ever. pin_memory : batches in page-locked memory, for a GPU.
    multiprocessing_context : PyTorch's name of a start method. All of them start workers in the one way there is.

    *Raises*: ValueError for options that exclude each other. From a pass with workers: what the data set raised, with
    the worker's traceback and the index of the sample; RuntimeError with the index for a worker that died, and for a
    time that ran out; TypeError or `pickle.PicklingError` for a data set that cannot be sent.

    >>> import core
    >>> for batch in core.utils.data.DataLoader(range(5), batch_size=2):
    ...     print(batch)
    tensor([0, 1])
    tensor([2, 3])
    tensor([4])
    """

    _initialized = False
    _iterator: WorkerPass | None = None

    def __init__(self, dataset: Any, batch_size: int | None = 1, shuffle: bool | None = None, sampler: Any = None,
                 batch_sampler: Any = None, num_workers: int = 0, collate_fn: Callable[[Any], Any] | None = None,
                 pin_memory: bool = False, drop_last: bool = False, timeout: float = 0,
                 worker_init_fn: Callable[[int], None] | None = None, multiprocessing_context: Any = None,
                 generator: Any = None, *, prefetch_factor: int | None = None, persistent_workers: bool = False,
                 pin_memory_device: str = "", in_order: bool = True) -> None:  # fmt: skip
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        self.num_workers = num_workers
        self.multiprocessing_context = multiprocessing_context
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
        self.timeout, self.worker_init_fn, self.in_order = timeout, worker_init_fn, in_order
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.persistent_workers = persistent_workers
        self.pin_memory, self.pin_memory_device = pin_memory, pin_memory_device
        self._iterable = iterable
        self._said_length: int | None = None
        self.check_worker_number_rationality()
        self._initialized = True

    def __setattr__(self, name: str, value: Any) -> None:
        if self._initialized and name in _FIXED:
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(name, value)

    @property
    def multiprocessing_context(self) -> Any:
        """The start method that was asked for."""
        return self._context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        if context is not None:
            _check_context(context, self.num_workers)
        self._context = context

    @property
    def _index_sampler(self) -> Any:
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in vars(self).items() if k != "_iterator"}  # a copy has workers of its own

    def __iter__(self) -> Pass:
        if not self.num_workers:
            return SinglePass(self)
        if not self.persistent_workers:
            return WorkerPass(self)
        if self._iterator is None or self._iterator.pool.closed:
            self._iterator = WorkerPass(self)
        else:
            self._iterator.again(self)
        return self._iterator

    def __len__(self) -> int:
        if not self._iterable:
            return len(self._index_sampler)
        n = self._said_length = len(self.dataset)
        if self.batch_size is None:
            return n
        return n // self.batch_size if self.drop_last else math.ceil(n / self.batch_size)

    def check_worker_number_rationality(self) -> None:
        """Warn where there are more workers than processors."""
        most = suggested_workers()
        if self.num_workers > most:
            warn(
                f"This DataLoader will create {self.num_workers} worker processes in total. Our suggested max number "
                f"of worker in current system is {most}, which is smaller than what this DataLoader is going to "
                "create.\n  remedy: fewer workers, unless they mostly wait",
            )


def _check_workers(num_workers: int, timeout: float, prefetch_factor: int | None, persistent: bool) -> None:
    if num_workers < 0:
        raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if num_workers == 0 and prefetch_factor is not None:
        raise ValueError("prefetch_factor option could only be specified in multiprocessing.let num_workers > 0 "
                         "to enable "
                         "multiprocessing, otherwise set prefetch_factor to None.")  # fmt: skip
    if prefetch_factor is not None and prefetch_factor < 1:
        raise ValueError("prefetch_factor option should be non-negative\n  op: DataLoader; "
                         f"came: prefetch_factor={prefetch_factor}; needed: 1 or more")  # fmt: skip
    if persistent and num_workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")


def _check_context(context: Any, num_workers: int) -> None:
    if num_workers == 0:
        raise ValueError("multiprocessing_context can only be used with multi-process loading (num_workers > "
                         "0), but got "
                         f"num_workers={num_workers}")  # fmt: skip
    import multiprocessing

    methods = multiprocessing.get_all_start_methods()
    if isinstance(context, str):
        if context not in methods:
            raise ValueError(f"multiprocessing_context option should specify a valid start method in {methods!r}, but "
                             f"got multiprocessing_context={context!r}")  # fmt: skip
    elif not isinstance(context, multiprocessing.context.BaseContext):
        raise TypeError("multiprocessing_context option should be a valid context object or a string specifying the "
                        f"start method, but got multiprocessing_context={context}")  # fmt: skip
    name = context if isinstance(context, str) else context.get_start_method(allow_none=True)
    if name == "fork":
        warn(
            "DataLoader: workers are fresh interpreters and never forks, which are not safe beside threads; "
            "multiprocessing_context='fork' changes nothing\n  remedy: leave it out, or 'spawn'"
        )
