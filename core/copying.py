"""Deep copies that keep what tensors share: views of one memory are views of one copy of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from .node import Storage


def copied(a: Any, memo: dict[int, Any]) -> tuple[Any, Storage | None]:
    """A copy of an array with its strides, in the copy of the memory that it and others lie in, and their version
    counter; None for that where the memory is not known as a whole, so that nothing can be shared."""
    root = a
    while isinstance(getattr(root, "base", None), np.ndarray):
        root = root.base
    if not isinstance(a, np.ndarray) or type(root) is not np.ndarray or root.base is not None or not _whole(root):
        return a.copy(), None
    kept = memo.get(id(root))
    if kept is None:
        kept = memo[id(root)] = (root.copy(order="K"), Storage(), root)  # the root stays, lest its id be another's
    new, storage, _ = kept
    offset = a.__array_interface__["data"][0] - root.__array_interface__["data"][0]
    memory = np.lib.stride_tricks.as_strided(new, (new.size,), (new.itemsize,)).view(np.uint8)
    return np.ndarray(a.shape, a.dtype, buffer=memory, offset=offset, strides=a.strides), storage


def _whole(root: np.ndarray) -> bool:
    """Whether the elements fill their memory without holes."""
    return root.size > 0 and (root.flags.c_contiguous or root.flags.f_contiguous)
