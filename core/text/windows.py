"""`TokenWindows`: pieces of a long row of tokens, and the same a token later, for language models."""

from __future__ import annotations

import os
from typing import Any, Self

import numpy as np

from ..base.errors import text
from ..tensors.tensor import Tensor, from_array
from ..utils.data.dataset import Dataset


class TokenWindows(Dataset[Any]):
    """Windows of `length` tokens with what follows each of them: (tokens, next tokens), both int64.

    stride : from one window to the next, by default `length`, so that no token is seen twice.

    *Raises*: ValueError when the tokens do not fill one window.

    >>> data = TokenWindows([5, 6, 7, 8, 9], length=2)
    >>> len(data), data[1]
    (2, (tensor([7, 8]), tensor([8, 9])))
    """

    def __init__(self, tokens: Any, length: int, stride: int | None = None) -> None:
        self.tokens = tokens.cpu().numpy() if isinstance(tokens, Tensor) else np.asarray(tokens)
        self.length, self.stride = length, length if stride is None else stride
        if self.tokens.ndim != 1 or self.tokens.dtype.kind not in "iu":
            raise ValueError(text("tokens are one row of integers", op="TokenWindows",
                                  came=f"{self.tokens.shape} of {self.tokens.dtype}"))  # fmt: skip
        if length < 1 or self.stride < 1:
            raise ValueError(text("length and stride are at least 1", op="TokenWindows", came=f"{length}, {stride}"))
        if len(self.tokens) <= length:
            raise ValueError(text("the tokens do not fill one window", op="TokenWindows",
                                  came=f"{len(self.tokens)} tokens",
                                  needed=f"{length + 1}: a window, and the token that follows it"))  # fmt: skip

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], length: int, stride: int | None = None,
                  dtype: Any = np.uint16) -> Self:  # fmt: skip
        """Windows of a binary file of tokens, of which only what is asked for is read."""
        return cls(np.memmap(path, dtype, "r"), length, stride)

    def __len__(self) -> int:
        return (len(self.tokens) - self.length - 1) // self.stride + 1

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        n = len(self)
        if not -n <= index < n:
            raise IndexError(f"window {index} of {n}")
        begin = (index % n) * self.stride
        both = np.array(self.tokens[begin : begin + self.length + 1], np.int64)
        return from_array(both[:-1]), from_array(both[1:].copy())
