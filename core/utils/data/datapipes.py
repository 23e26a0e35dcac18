"""Data sets in a chain: `IterDataPipe` and `MapDataPipe`, whose steps are methods of each other."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, ClassVar

from ...random import randint
from .dataset import Dataset, IterableDataset

__all__ = ["IterDataPipe", "MapDataPipe", "functional_datapipe"]


class _Chained:
    """What finds the steps that `functional_datapipe` named."""

    functions: ClassVar[dict[str, type]] = {}

    def __getattr__(self, name: str) -> Any:
        step = self.functions.get(name)
        if step is None:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}")
        return lambda *args, **kwargs: step(self, *args, **kwargs)

    @classmethod
    def register_datapipe_as_function(cls, function_name: str, cls_to_register: type,
                                      enable_df_api_tracing: bool = False) -> None:  # fmt: skip
        """Let each pipe have a class as a method. *Raises*: Exception where another has that name."""
        if function_name in cls.functions and cls.functions[function_name].__qualname__ != cls_to_register.__qualname__:
            raise Exception(f"Unable to add DataPipe function name {function_name} as it is already taken")
        cls.functions[function_name] = cls_to_register


class IterDataPipe(_Chained, IterableDataset[Any]):
    """A step that is gone through: write `__iter__`, and take the step before in `__init__`.

    >>> from core.utils.data import IterDataPipe, functional_datapipe
    >>> class Numbers(IterDataPipe):
    ...     def __iter__(self):
    ...         return iter(range(3))
    >>> @functional_datapipe("doubled")
    ... class Doubled(IterDataPipe):
    ...     def __init__(self, source):
    ...         self.source = source
    ...     def __iter__(self):
    ...         return (2 * x for x in self.source)
    >>> list(Numbers().doubled())
    [0, 2, 4]
    """

    functions: ClassVar[dict[str, type]] = {}

    def reset(self) -> None:
        """Begin anew: a subclass that keeps a place writes this."""


class MapDataPipe(_Chained, Dataset[Any]):
    """A step that is asked by an index: write `__getitem__` and `__len__`."""

    functions: ClassVar[dict[str, type]] = {}


DFIterDataPipe = IterDataPipe


class functional_datapipe:
    """Name a class of steps, as a method of those before it."""

    def __init__(self, name: str, enable_df_api_tracing: bool = False) -> None:
        self.name = name

    def __call__(self, cls: Any) -> Any:
        """Return the class. *Raises*: TypeError for what is no step."""
        if not (isinstance(cls, type) and issubclass(cls, _Chained)):
            raise TypeError("`functional_datapipe` can only decorate IterDataPipe")
        base: Callable[..., Any] = IterDataPipe if issubclass(cls, IterDataPipe) else MapDataPipe
        base.register_datapipe_as_function(self.name, cls)  # type: ignore[attr-defined]
        return cls


class Batcher(IterDataPipe):
    """Lists of `batch_size` elements, each through `wrapper_class`; the last may be shorter unless `drop_last`.

    >>> import core
    >>> list(core.utils.data.datapipes.Wrapper([1, 2, 3]).batch(2))
    [[1, 2], [3]]
    """

    def __init__(self, datapipe: Any, batch_size: int, drop_last: bool = False, wrapper_class: Any = list) -> None:
        if batch_size <= 0:
            raise AssertionError("Batch size is required to be larger than 0!")
        self.datapipe, self.batch_size, self.drop_last, self.wrapper_class = (
            datapipe, batch_size, drop_last, wrapper_class)  # fmt: skip

    def __iter__(self) -> Iterator[Any]:
        batch: list[Any] = []
        for one in self.datapipe:
            batch.append(one)
            if len(batch) == self.batch_size:
                yield self.wrapper_class(batch)
                batch = []
        if batch and not self.drop_last:
            yield self.wrapper_class(batch)


class Shuffler(IterDataPipe):
    """Elements in random order, drawn from `buffer_size` that are held."""

    def __init__(self, datapipe: Any, *, buffer_size: int = 10000, unbatch_level: int = 0) -> None:
        if buffer_size <= 0:
            raise ValueError("buffer_size should be larger than 0")
        if unbatch_level:
            raise NotImplementedError("Shuffler: unbatch_level is not here; needed: 0")
        self.datapipe, self.buffer_size, self.enabled = datapipe, buffer_size, True
        self.rng, self.seed = random.Random(), None

    def set_shuffle(self, shuffle: bool = True) -> Shuffler:
        """Say whether the order is random."""
        self.enabled = shuffle
        return self

    def set_seed(self, seed: int) -> Shuffler:
        """Say with which number the next order begins."""
        self.seed = seed  # type: ignore[assignment]
        return self

    def __iter__(self) -> Iterator[Any]:
        if not self.enabled:
            yield from self.datapipe
            return
        self.rng.seed(int(randint(0, 2**31, (1,)).item()) if self.seed is None else self.seed)
        self.seed = None
        held: list[Any] = []
        for one in self.datapipe:
            if len(held) == self.buffer_size:
                k = self.rng.randint(0, len(held) - 1)
                held[k], one = one, held[k]
                yield one
            else:
                held.append(one)
        self.rng.shuffle(held)
        yield from held


class Mapper(IterDataPipe):
    """What a function makes of each element."""

    def __init__(self, datapipe: Any, fn: Callable[..., Any]) -> None:
        self.datapipe, self.fn = datapipe, fn

    def __iter__(self) -> Iterator[Any]:
        return map(self.fn, self.datapipe)


class Filter(IterDataPipe):
    """The elements for which a function says True."""

    def __init__(self, datapipe: Any, filter_fn: Callable[..., bool]) -> None:
        self.datapipe, self.filter_fn = datapipe, filter_fn

    def __iter__(self) -> Iterator[Any]:
        return filter(self.filter_fn, self.datapipe)


class Wrapper(IterDataPipe):
    """The elements of anything that can be gone through."""

    def __init__(self, iterable: Any, deepcopy: bool = True) -> None:
        self.iterable, self.deepcopy = iterable, deepcopy

    def __iter__(self) -> Iterator[Any]:
        yield from copy.deepcopy(self.iterable) if self.deepcopy else self.iterable

    def __len__(self) -> int:
        return len(self.iterable)


class ShardingFilter(IterDataPipe):
    """Of each `n` elements one: a worker's part."""

    def __init__(self, source_datapipe: Any, sharding_group_filter: Any = None) -> None:
        self.source_datapipe, self.num_of_instances, self.instance_id = source_datapipe, 1, 0

    def apply_sharding(self, num_of_instances: int, instance_id: int, sharding_group: Any = None) -> None:
        """Say how many parts there are, and which this is. *Raises*: ValueError for a part that is none."""
        if instance_id >= num_of_instances:
            raise ValueError(f"instance_id({instance_id}) should be smaller than num_of_instances({num_of_instances})")
        self.num_of_instances, self.instance_id = num_of_instances, instance_id

    def __iter__(self) -> Iterator[Any]:
        return islice(self.source_datapipe, self.instance_id, None, self.num_of_instances)


for _name, _step in (("batch", Batcher), ("shuffle", Shuffler), ("map", Mapper), ("filter", Filter),
                     ("sharding_filter", ShardingFilter)):  # fmt: skip
    IterDataPipe.register_datapipe_as_function(_name, _step)
BatcherIterDataPipe, ShufflerIterDataPipe, MapperIterDataPipe = Batcher, Shuffler, Mapper
IterableWrapper = IterableWrapperIterDataPipe = Wrapper

# -- a chain as a whole ------------------------------------------------------------------------------------------------


def steps(datapipe: Any) -> list[Any]:
    """Return the steps of a chain, the last one first: a step and the steps that it holds."""
    found, seen = [], set()
    left = [datapipe]
    while left:
        one = left.pop(0)
        if isinstance(one, _Chained) and id(one) not in seen:
            seen.add(id(one))
            found.append(one)
            for value in vars(one).values():
                left += value if isinstance(value, list | tuple) else [value]
    return found


def apply_sharding(datapipe: Any, num_of_instances: int, instance_id: int, sharding_group: Any = None) -> Any:
    """Tell every step that has `apply_sharding` of the parts; return the chain."""
    for step in steps(datapipe):
        if "apply_sharding" in dir(type(step)):
            step.apply_sharding(num_of_instances, instance_id)
    return datapipe


def apply_shuffle_settings(datapipe: Any, shuffle: bool | None = None) -> Any:
    """Tell every shuffling step whether the order is random; return the chain."""
    for step in steps(datapipe) if shuffle is not None else ():
        if "set_shuffle" in dir(type(step)):
            step.set_shuffle(shuffle)
    return datapipe


def apply_random_seed(datapipe: Any, rng: Any) -> Any:
    """Give every step that has `set_seed` a number of its own; return the chain."""
    for step in steps(datapipe):
        if "set_seed" in dir(type(step)):
            step.set_seed(int(randint(0, 2**31, (1,), generator=rng).item()))
    return datapipe
