"""Programs of kernels and wrappers in the styles of libraries, for what a whole program is judged by: partial sums by
block, buffers that a wrapper sizes by its own constants, two kernels of which one reads what the other writes."""

from __future__ import annotations

import numpy as np
import triton
import triton.language as tl

cdiv = triton.cdiv
CHUNK = 64


class Sizes:
    """A library's own settings."""

    ROWS = 16


@triton.jit
def partial_sums(x, parts, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(parts + tl.program_id(0), tl.sum(tl.load(x + at, mask=at < n, other=0.0), 0))


def total(x):
    """A buffer and a grid by a name that is set to a number."""
    BLOCK = 128
    parts = np.empty(cdiv(x.size, BLOCK), np.float32)
    partial_sums[(cdiv(x.size, BLOCK),)](x, parts, x.size, BLOCK=BLOCK)
    return parts.sum()


def total_by_default(x, block=128):
    """By a parameter's default."""
    parts = np.empty(cdiv(x.size, block), np.float32)
    partial_sums[(cdiv(x.size, block),)](x, parts, x.size, block)
    return parts.sum()


def total_by_module(x):
    """By a number of the module."""
    parts = np.empty(cdiv(x.size, CHUNK), np.float32)
    partial_sums[(cdiv(x.size, CHUNK),)](x, parts, x.size, BLOCK=CHUNK)
    return parts.sum()


def total_with_room(x):
    """A buffer that has room for smaller blocks, and zeros where nothing is written."""
    parts = np.zeros(cdiv(x.size, 16), np.float32)
    partial_sums[lambda meta: (cdiv(x.size, meta["BLOCK"]),)](x, parts, x.size, BLOCK=128)
    return parts.sum()


@triton.jit
def column_sums(x, parts, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    i, j = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    inside = (i[:, None] < rows) & (j[None, :] < columns)
    v = tl.load(x + i[:, None] * columns + j[None, :], mask=inside, other=0.0)
    tl.store(parts + tl.program_id(0) * columns + j, tl.sum(v, 0), mask=j < columns)


@triton.jit
def added_up(parts, out, count, columns, COLUMNS: tl.constexpr):
    j = tl.arange(0, COLUMNS)
    s = tl.zeros((COLUMNS,), tl.float32)
    for k in range(count):
        s += tl.load(parts + k * columns + j, mask=j < columns, other=0.0)
    tl.store(out + j, s, mask=j < columns)


class Gradient:
    """Two kernels, the second of which adds up what the first has left by block; the block is a class's number."""

    @staticmethod
    def of_bias(x):
        rows, columns = x.shape
        parts = np.empty((cdiv(rows, Sizes.ROWS), columns), np.float32)
        width = triton.next_power_of_2(columns)
        column_sums[(parts.shape[0],)](x, parts, rows, columns, ROWS=Sizes.ROWS, COLUMNS=width)
        out = np.empty(columns, np.float32)
        added_up[(1,)](parts, out, parts.shape[0], columns, COLUMNS=width)
        return {"bias": out}


@triton.jit
def wrong_if_halved(x, parts, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n, other=0.0)
    tl.store(parts + tl.program_id(0), tl.sum(v if BLOCK >= 128 else tl.abs(v), 0))


@triton.jit
def half_if_halved(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    done = (at < n) & ((BLOCK >= 128) | (at % 2 == 0))
    tl.store(out + at, tl.load(x + at, mask=at < n), mask=done)


def copied(x):
    """A copy, of which a smaller block leaves out each second number; and memory that nobody writes to."""
    out = np.empty_like(x)
    half_if_halved[lambda meta: (cdiv(x.size, meta["BLOCK"]),)](x, out, x.size, BLOCK=128)
    return out, np.empty(7, np.float32)


def total_wrong_if_halved(x):
    """Partial sums that are wrong with a smaller block."""
    BLOCK = 128
    parts = np.empty(cdiv(x.size, BLOCK), np.float32)
    wrong_if_halved[(cdiv(x.size, BLOCK),)](x, parts, x.size, BLOCK=BLOCK)
    return parts.sum()
