"""Whose meaning core's names have: the PyTorch that the tests compare with; and PyTorch's names for what it was built
for."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["TorchVersion", "cuda", "debug", "git_version", "hip"]

MEANING = "2.13.0"
cuda: str | None = None
"""The CUDA that PyTorch would have been built for: none, kernels are compiled by Triton for the card that is there."""
hip: str | None = None
git_version = "core"
debug = False
__version__ = MEANING


class TorchVersion(str):
    """A version that can be compared with another one, in a string or in numbers.

    >>> TorchVersion("2.13.0") >= "2.4", TorchVersion("2.13.0") < (3,), TorchVersion("2.13.0") == "2.13"
    (True, True, True)
    """

    __slots__ = ()

    def _numbers(self, other: Any = None) -> tuple[int, ...]:
        """Return the numbers of a version: of this one, or of another."""
        if isinstance(other, tuple):
            given = tuple(int(n) for n in other if str(n).isdigit())
        else:
            given = tuple(map(int, re.findall(r"\d+", str(self if other is None else other).partition("+")[0])[:3]))
        return (*given, 0, 0, 0)[:3]

    def __lt__(self, other: Any) -> bool:
        return self._numbers() < self._numbers(other)

    def __le__(self, other: Any) -> bool:
        return self._numbers() <= self._numbers(other)

    def __gt__(self, other: Any) -> bool:
        return self._numbers() > self._numbers(other)

    def __ge__(self, other: Any) -> bool:
        return self._numbers() >= self._numbers(other)

    def __eq__(self, other: object) -> bool:
        return self._numbers() == self._numbers(other) if isinstance(other, str | tuple) else False

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(str(self))
