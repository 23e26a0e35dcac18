"""PyTorch's older path of weights by address: `load_url`, which is `hub.load_state_dict_from_url`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any, Self

from ..hub_urls import load_state_dict_from_url as load_url

__all__ = ["load_url", "tqdm"]


class tqdm:
    """A loop without a bar: PyTorch's module has that of the package tqdm here where it is installed.

    >>> import core
    >>> list(core.utils.model_zoo.tqdm([1, 2]))
    [1, 2]
    """

    def __init__(self, iterable: Iterable[Any] = (), *ignored: Any, **more: Any) -> None:
        self.iterable, self.n = iterable, 0

    def __iter__(self) -> Iterator[Any]:
        for x in self.iterable:
            yield x
            self.n += 1

    def update(self, n: int = 1) -> None:
        """Count."""
        self.n += n

    def close(self) -> None:
        """End."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:  # fmt: skip
        self.close()
