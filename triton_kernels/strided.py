"""How matrices that lie in memory in any way are handed to a kernel: batches merged, offsets wide enough."""

from __future__ import annotations

from typing import Any

import triton.language as tl

from . import runtime

BATCH_DIMENSIONS = 3


def described(along: int, k: int, x: Any) -> bool:
    """Return whether a tensor descriptor can stand for a matrix: one step is 1, the other whole 16 bytes."""
    other = along if k == 1 else k
    return x.dtype.itemsize == 2 and 1 in (along, k) and other > 0 and other % 8 == 0


def index_type(*arrays: Any) -> Any:
    """64 bits only where an offset within a matrix needs them."""
    spans = [sum(abs(s) * n for n, s in zip(x.shape[-2:], runtime.element_strides(x)[-2:], strict=True))
             for x in arrays]  # fmt: skip
    return tl.int64 if max(spans) >= 2**31 - 2**20 else tl.int32


def merge_batches(
    op: str, shape: tuple[int, ...], arrays: tuple[Any, ...], shapes: str
) -> tuple[list[int], list[list[int]]]:
    """Merge the batch dimensions into three sizes, and three strides an array (0 where it broadcasts)."""
    views = []
    for x in arrays:
        own, steps = x.shape[:-2], runtime.element_strides(x)[:-2]
        missing = len(shape) - len(own)
        if missing < 0 or any(n not in (1, full) for n, full in zip(own, shape[missing:], strict=True)):
            raise ValueError(f"{op}: the batch dimensions do not broadcast: {shapes}")
        views.append([0] * missing + [0 if n == 1 else s for n, s in zip(own, steps, strict=True)])
    sizes: list[int] = []
    merged: list[list[int]] = [[] for _ in arrays]
    for d, n in enumerate(shape):
        if n == 1:
            continue
        if sizes and all(m[-1] == v[d] * n for m, v in zip(merged, views, strict=True)):
            sizes[-1] *= n
            for m, v in zip(merged, views, strict=True):
                m[-1] = v[d]
        else:
            sizes.append(n)
            for m, v in zip(merged, views, strict=True):
                m.append(v[d])
    if len(sizes) > BATCH_DIMENSIONS:
        raise ValueError(
            f"{op}: {len(sizes)} separate batch dimensions remain after merging, the kernel takes "
            f"{BATCH_DIMENSIONS}: {shapes}. Remedy: make the operands contiguous, or flatten the batch."
        )
    padding = BATCH_DIMENSIONS - len(sizes)
    return [1] * padding + sizes, [[0] * padding + m for m in merged]
