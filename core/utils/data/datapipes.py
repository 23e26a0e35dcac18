"""Data sets in a chain: `IterDataPipe` and `MapDataPipe`, whose steps are methods of each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

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
