"""Which tensors lie in the same memory, and the bytes of that memory."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from ..base.device import device as Device
from ..base.errors import text
from ..tensors.tensor import Tensor


class Block:
    """A piece of memory that tensors share: from the lowest byte that any of them reads to the highest."""

    def __init__(self, array: Any, where: Device, low: int, high: int) -> None:
        self.dtype: np.dtype[Any] = array.dtype
        self.where, self.low, self.high, self.arrays = where, low, high, [array]

    @property
    def size_bytes(self) -> int:
        return self.high - self.low

    def bytes(self) -> Any:
        """Return the bytes; of memory on the CPU without a copy."""
        n = self.size_bytes
        if not n:
            return b""
        a = self.arrays[0]
        if isinstance(a, np.ndarray):
            return memoryview((ctypes.c_ubyte * n).from_address(self.low)).cast("B")
        flat = type(a)((n,), dtype=np.uint8, memptr=a.data + (self.low - a.data.ptr))
        return memoryview(flat.get())


def address(a: Any) -> int:
    """Of the first element."""
    return int(a.ctypes.data if isinstance(a, np.ndarray) else a.data.ptr)


def _extent(a: Any) -> tuple[int, int]:
    low = high = address(a)
    if a.size == 0:
        return low, low
    for n, st in zip(a.shape, a.strides, strict=True):
        low, high = low + min(0, (n - 1) * st), high + max(0, (n - 1) * st)
    return low, high + a.itemsize


def whole(a: Any) -> Any:
    """Return the array itself, or a copy where it runs backwards, which no format can say."""
    return a.copy() if any(st < 0 for st in a.strides) else a


def blocks(tensors: list[tuple[Any, Device]]) -> list[Block]:
    """Return the block of every array; those that overlap get one.

    *Raises*: RuntimeError for memory that is seen as two dtypes.
    """
    found: list[Block | None] = [None] * len(tensors)
    extents = [_extent(a) for a, _ in tensors]
    last: Block | None = None
    for k in sorted(range(len(tensors)), key=lambda k: (str(tensors[k][1]), extents[k])):
        (a, where), (low, high) = tensors[k], extents[k]
        if last is None or low == high or where is not last.where or low >= last.high:
            block = Block(a, where, low, high)
            last = last if low == high else block
        else:
            block = last
            block.high = max(block.high, high)
            block.arrays.append(a)
            if a.dtype != block.dtype or (low - block.low) % a.itemsize:
                raise RuntimeError(
                    text(
                        "Cannot save multiple tensors or storages that view the same data as different types",
                        op="save",
                        came=f"{block.dtype} and {a.dtype} in one memory",
                        remedy="clone() one of them",
                    )
                )
        found[k] = block
    return [b for b in found if b is not None]


def array_of(t: Tensor | np.ndarray[Any, Any]) -> Any:
    """Return the array of a tensor, running forwards."""
    return whole(t._a if isinstance(t, Tensor) else t)
