"""Programs for `planted`: kernels in the styles of libraries, each with a wrapper that takes its sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import triton
import triton.language as tl

from . import adopted_kernels, whole_programs

cdiv = triton.cdiv
RNG = np.random.default_rng(0)


def _floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@triton.jit
def layer_norm(x, y, w, b, mean, rstd, stride, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    s = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, n, BLOCK):
        at = first + tl.arange(0, BLOCK)
        s += tl.load(x + row * stride + at, mask=at < n, other=0.0)
    m = tl.sum(s, 0) / n
    s = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, n, BLOCK):
        at = first + tl.arange(0, BLOCK)
        v = tl.where(at < n, tl.load(x + row * stride + at, mask=at < n, other=0.0) - m, 0.0)
        s += v * v
    r = 1 / tl.sqrt(tl.sum(s, 0) / n + eps)
    tl.store(mean + row, m)
    tl.store(rstd + row, r)
    for first in range(0, n, BLOCK):
        at = first + tl.arange(0, BLOCK)
        v = (tl.load(x + row * stride + at, mask=at < n, other=0.0) - m) * r
        v = v * tl.load(w + at, mask=at < n) + tl.load(b + at, mask=at < n)
        tl.store(y + row * stride + at, v, mask=at < n)


def normed(rows: int, columns: int) -> Any:
    """Rows of a wider array, so that the stride is not the number of columns."""
    x = _floats(rows, columns + 24)[:, :columns]
    y, mean, rstd = np.empty((rows, columns + 24), np.float32), np.empty(rows, np.float32), np.empty(rows, np.float32)
    layer_norm[(rows,)](x, y, _floats(columns), _floats(columns), mean, rstd, columns + 24, columns, 1e-5, BLOCK=64)
    return y[:, :columns], mean, rstd


@triton.jit
def transpose(x, y, rows, columns, x_stride, y_stride, BM: tl.constexpr, BN: tl.constexpr):
    i, j = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    inside = (i[:, None] < rows) & (j[None, :] < columns)
    v = tl.load(x + i[:, None] * x_stride + j[None, :], mask=inside)
    tl.store(y + j[None, :] * y_stride + i[:, None], v, mask=inside)


def transposed(rows: int, columns: int) -> Any:
    """A copy in two axes."""
    y = np.empty((columns, rows), np.float32)
    grid = lambda meta: (cdiv(rows, meta["BM"]), cdiv(columns, meta["BN"]))
    transpose[grid](_floats(rows, columns), y, rows, columns, columns, rows, BM=16, BN=32)
    return y


@triton.jit
def quantise(x, q, scale, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * n + at, mask=at < n, other=0.0)
    s = tl.maximum(tl.max(tl.abs(v), 0) / 127.0, 1e-8)
    tl.store(scale + row, s)
    v = v / s
    tl.store(q + row * n + at, (v + tl.where(v >= 0, 0.5, -0.5)).to(tl.int8), mask=at < n)


def quantised(rows: int, columns: int) -> Any:
    """Integers out, and a scale for each row."""
    q, scale = np.empty((rows, columns), np.int8), np.empty(rows, np.float32)
    quantise[(rows,)](_floats(rows, columns), q, scale, columns, BLOCK=triton.next_power_of_2(columns))
    return q, scale


@triton.jit
def half_product(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    width = tl.cdiv(N, BN)
    i = tl.program_id(0) // width * BM + tl.arange(0, BM)
    j = tl.program_id(0) % width * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    s = tl.zeros((BM, BN), dtype=tl.float32)
    for step in range(tl.cdiv(K, BK)):
        left = K - step * BK
        u = tl.load(a + i[:, None] * K + step * BK + k[None, :], mask=(i[:, None] < M) & (k[None, :] < left), other=0.0)
        v = tl.load(
            b + (step * BK + k[:, None]) * N + j[None, :], mask=(k[:, None] < left) & (j[None, :] < N), other=0.0
        )
        s += tl.dot(u, v)
    tl.store(c + i[:, None] * N + j[None, :], s.to(tl.float16), mask=(i[:, None] < M) & (j[None, :] < N))


def half_matmul(m: int, n: int) -> Any:
    """A product of halves, one axis of programs for both of blocks; as deep as it is wide, and half as much."""
    k = n + n // 2
    c = np.empty((m, n), np.float16)
    grid = lambda meta: (cdiv(m, meta["BM"]) * cdiv(n, meta["BN"]),)
    a, b = _floats(m, k).astype(np.float16), _floats(k, n).astype(np.float16)
    half_product[grid](a, b, c, m, n, k, BM=16, BN=32, BK=16)
    return c


@triton.jit
def counted(x, counts, n, bins, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n, other=0)
    tl.atomic_add(counts + v, 1, mask=(at < n) & (v < bins))


def histogram(n: int, bins: int) -> Any:
    """Atomics on integers."""
    x, counts = RNG.integers(0, bins + 3, n).astype(np.int32), np.zeros(bins, np.int32)
    counted[(cdiv(n, 64),)](x, counts, n, bins, BLOCK=64)
    return counts


@triton.jit
def running_sums(x, y, n, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    before = 0.0
    for block in range(tl.cdiv(n, BLOCK)):
        at = block * BLOCK + tl.arange(0, BLOCK)
        v = tl.load(x + row * stride + at, mask=at < n, other=0.0)
        tl.store(y + row * stride + at, tl.cumsum(v, 0) + before, mask=at < n)
        before += tl.sum(v, 0)


def cumulated(rows: int, columns: int) -> Any:
    """A scan that carries from block to block."""
    y = np.empty((rows, columns), np.float32)
    running_sums[(rows,)](_floats(rows, columns), y, columns, columns, BLOCK=32)
    return y


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = {
    "scaled": (lambda n: adopted_kernels.scale(_floats(n)), (256,), (300,), (1000,)),
    "row_softmax": (lambda r, c: adopted_kernels.softmax(_floats(r, c)), (5, 64), (7, 100), (3, 300)),
    "product": (lambda m, n: adopted_kernels.matmul(_floats(m, 32), _floats(32, n)), (32, 64), (40, 70), (90, 33)),
    "partial_sums": (lambda n: whole_programs.total(_floats(n)), (512,), (300,), (1000,)),
    "column_sums": (lambda r, c: whole_programs.Gradient.of_bias(_floats(r, c)), (32, 16), (50, 20), (100, 70)),
    "layer_norm": (normed, (4, 128), (5, 100), (3, 300)),
    "transpose": (transposed, (32, 64), (40, 50), (70, 100)),
    "quantise": (quantised, (4, 64), (5, 100), (3, 200)),
    "half_product": (half_matmul, (32, 64), (40, 50), (70, 44)),
    "counted": (histogram, (256, 16), (300, 10), (1000, 40)),
    "running_sums": (cumulated, (4, 64), (5, 100), (3, 200)),
}
"""By its kernel's name: a program, two sizes that it is captured at (the first a multiple of its blocks, the second
not), and a third that tells what these two have not shown."""
