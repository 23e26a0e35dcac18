"""Triton kernels as people write them: some mask their last block, some are right at multiples of it alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import triton
import triton.language as tl

from .c_as_written import Rng, Shape, _line, _plane, _softmax


@triton.jit
def square_masked(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    tl.store(out + i, v * v, mask=i < n)


@triton.jit
def square_unmasked(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i)
    tl.store(out + i, v * v)


@triton.jit
def softmax_of_one_block(x, out, h, w, BLOCK: tl.constexpr):
    j = tl.arange(0, BLOCK)  # right as long as a row fits
    row = tl.program_id(0) * w
    v = tl.load(x + row + j, mask=j < w, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(out + row + j, e / tl.sum(e, 0), mask=j < w)


@triton.jit
def blur_tiles(x, out, h, w, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    j = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    at = i * w + j
    here = tl.load(x + at, mask=j < w)  # rows are not masked
    edge = (j == 0) | (j == w - 1)
    left = tl.load(x + at - 1, mask=(j > 0) & (j < w), other=0.0)
    right = tl.load(x + at + 1, mask=j < w - 1, other=0.0)
    tl.store(out + at, tl.where(edge, here, (left + here + right) / 3), mask=j < w)


def _blurred(x: np.ndarray) -> np.ndarray:
    out = x.copy()
    if x.shape[1] > 2:
        out[:, 1:-1] = (x[:, :-2] + x[:, 1:-1] + x[:, 2:]) / 3
    return out


def up(n: int, block: int) -> int:
    return -(-n // block)


LINES = (((512,), (256,)), ((511,), (500,), (16,), (3,)))
EXACT = (((512,), (256,)), ((496,), (272,), (16,)))  # multiples of the default's 16
WRITTEN: list[tuple[Any, Any, Any, Any, Any, tuple[Shape, ...], tuple[Shape, ...]]] = [
    (square_masked, {"BLOCK": (16, 64, 256)}, _line, lambda x, out, n: x * x,
     lambda s: lambda c: (up(s[0], c["BLOCK"]),), *LINES),
    (square_unmasked, {"BLOCK": (16, 64, 256)}, _line, lambda x, out, n: x * x,
     lambda s: lambda c: (up(s[0], c["BLOCK"]),), *EXACT),
    (softmax_of_one_block, {"BLOCK": (128, 32, 64)}, _plane, lambda x, out, h, w: _softmax(x),
     lambda s: lambda c: (s[0],), ((8, 32), (5, 60)), ((8, 33), (3, 100), (1, 128), (7, 64))),
    (blur_tiles, {"ROWS": (1, 2, 4), "BLOCK": (16, 64)}, _plane, lambda x, out, h, w: _blurred(x),
     lambda s: lambda c: (up(s[0], c["ROWS"]), up(s[1], c["BLOCK"])), ((8, 64), (16, 40)),
     ((7, 64), (9, 33), (1, 5), (5, 64))),
]  # fmt: skip
"""Kernel, configs, arguments, reference, grid of a shape, shapes to tune at, shapes to call at. Rng is `make`'s."""
assert Rng is np.random.Generator
