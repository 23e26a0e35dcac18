"""Kernels and wrappers in the styles that other people's have, for the tests of `tune.capture` and `tune.adopt`."""

from __future__ import annotations

import functools
import types

import numpy as np
import triton
import triton.language as tl
from triton.language import zeros_like
from triton.language.extra.libdevice import tanh

LOG2E = tl.constexpr(1.4426950408889634)
HALF: tl.constexpr = 0.5
cdiv = triton.cdiv
absolute = tl.math.abs
int_of = triton.constexpr_function(tl.core.get_int_dtype)


@triton.jit
def halved(x):
    return x * HALF


helpers = types.ModuleType("helpers_of_a_library")
helpers.halved = halved  # type: ignore[attr-defined]
helpers.version = types.ModuleType("helpers_of_a_library.version")  # type: ignore[attr-defined]
helpers.version.hip, helpers.version.cuda = None, "12.8"  # type: ignore[attr-defined]


@triton.jit
def of_this_gpu(x):
    return x if helpers.version.cuda else 0.0 * x


@triton.jit
def asked_of_modules(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    v = of_this_gpu(tl.load(x + at))
    if helpers.version.hip is None:
        v = helpers.halved(v)
    tl.store(out + at, v)


@tl.constexpr
def summed_in(dtype: tl.dtype) -> tl.dtype:
    return tl.float64 if dtype.is_fp32() else dtype


@triton.jit
def by_functions_of_its_own(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    v = tl.load(x + at).to(summed_in(x.dtype.element_ty))
    v += (int_of(32, True) == tl.int32) * 0
    tl.store(out + at, absolute(v) + zeros_like(v) + tl.sum(v, 0))


@triton.jit
def row_softmax(out, x, stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * stride + at, mask=at < columns, other=-float("inf"))
    e = tl.exp2((v - tl.max(v, 0)) * LOG2E)
    tl.store(out + row * stride + at, e / tl.sum(e, 0), mask=at < columns)


def softmax(x):
    """A whole row in a block, which the wrapper computes; the grid is a tuple."""
    out = np.empty_like(x)
    row_softmax[(x.shape[0],)](out, x, x.shape[1], x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return out


@triton.jit
def scaled(x, out, BLOCK: tl.constexpr, n, scale):  # a constexpr before another argument
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, helpers.halved(tl.load(x + at, mask=at < n)) * scale, mask=at < n)


def scale(x, factor=3.0):
    """A grid that the wrapper makes a tuple of, by the kernel's block."""
    out = np.empty_like(x)
    scaled[(cdiv(x.size, 64),)](x, out, 64, x.size, factor)
    return out


def _large_enough(configs, named, **_):
    return [c for c in configs if c.kwargs["BLOCK"] <= named["n"]]


@triton.autotune(
    [triton.Config({"BLOCK": b}, num_warps=w) for b, w in ((4096, 8), (128, 4), (64, 2))],
    key=["n"],
    reset_to_zero=["total"],
    prune_configs_by={"early_config_prune": _large_enough},
)
@triton.heuristics({"EVEN": lambda given: given["n"] % given["BLOCK"] == 0})
@triton.jit
def summed(x, total, n, EVEN: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at) if EVEN else tl.load(x + at, mask=at < n, other=0.0)
    tl.atomic_add(total, tl.sum(v, 0))


def total(x):
    """Atomics into what the autotuner sets to zero."""
    out = np.full(1, 7.0, np.float32)
    summed[lambda meta: (cdiv(x.size, meta["BLOCK"]),)](x, Zeroed(out), x.size)
    return out


class Zeroed:
    """An array with the method that `reset_to_zero` calls, as PyTorch's tensors have it."""

    def __init__(self, array):
        self.array, self.dtype, self.shape = array, array.dtype, array.shape

    def data_ptr(self):
        return self.array.ctypes.data

    def zero_(self):
        self.array[...] = 0


@triton.autotune(
    [triton.Config({"BLOCK": 128, "FACTOR": 64}), triton.Config({"BLOCK": 64, "FACTOR": 8})],
    key=["n"],
    prune_configs_by={"early_config_prune": lambda configs, named, **_: configs[1:]},
)
@triton.jit
def multiplied(x, out, n, FACTOR: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) * FACTOR, mask=at < n)


def multiply(x):
    """One config is left by the pruning, and it is not the first."""
    out = np.empty_like(x)
    multiplied[lambda meta: (cdiv(x.size, meta["BLOCK"]),)](x, out, x.size)
    return out


@triton.jit
def _in_place(x, seen, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n)
    tl.store(x + at, tanh(v), mask=at < n)
    tl.store(seen + at, v, mask=(at < n) & (v > 0))


in_place = triton.jit(_in_place.fn)  # made by a call, not by a decorator


@triton.jit
def pair_sum(pair, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(pair[0] + at, mask=at < n) + tl.load(pair[1] + at, mask=at < n), mask=at < n)


@triton.jit
def through_table(table, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(table + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    tl.store(out + tl.program_id(0) * n + at, tl.load(x + at, mask=at < n), mask=at < n)


@triton.jit
def strays(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at))


@triton.jit
def product(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    i, j = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    s = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        at = k + tl.arange(0, BK)
        left = tl.load(a + i[:, None] * K + at[None, :], mask=(i[:, None] < M) & (at[None, :] < K), other=0.0)
        right = tl.load(b + at[:, None] * N + j[None, :], mask=(at[:, None] < K) & (j[None, :] < N), other=0.0)
        s += tl.dot(left, right)
    tl.store(c + i[:, None] * N + j[None, :], s, mask=(i[:, None] < M) & (j[None, :] < N))


def matmul(a, b):
    """Two axes of a grid, in a function."""
    out = np.empty((a.shape[0], b.shape[1]), np.float32)
    grid = (cdiv(a.shape[0], 16), cdiv(b.shape[1], 32))
    product[grid](a, b, out, *out.shape, a.shape[1], BM=16, BN=32, BK=16)
    return out


@triton.jit
def words_for_masks(x, out, n, columns, BLOCK: tl.constexpr):
    rows, at = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    mask = (rows < n) and not (at >= columns)
    corner = rows == 0 or at == 0
    place = rows * columns + at
    tl.store(out + place, tl.where(corner, 1.0, tl.load(x + place, mask=mask, other=0.0)), mask=mask)


@triton.jit
def by_a_size(x, out, size):  # which its callers give as a tl.constexpr
    at = tl.arange(0, size)
    tl.store(out + size - 1 - at, tl.load(x + at))


@triton.jit
def sums_of_twelve(x, out, BLOCK: tl.constexpr):  # whatever the block
    at = tl.arange(0, BLOCK)
    tl.store(out + tl.program_id(0), tl.sum(tl.load(x + tl.program_id(0) * 12 + at, mask=at < 12, other=0.0), 0))


@triton.jit
def every_third(x, out, n, STEP: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for k in tl.range(0, n):
        total += tl.load(x + (k * STEP).to(tl.int32) * BLOCK + at) + (k + 0.5).to(tl.float32)
    tl.store(out + at, total)


@triton.jit
def sum_of_rows(x, out, n, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for row in range(n):
        total += tl.load(x + row.to(tl.int64) * columns + at, mask=at < columns, other=0.0)
    for row in tl.range(0, n):
        total += (row + 1).to(tl.float32)
    tl.store(out + at, total, mask=at < columns)


@triton.jit
def assembled(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    v = tl.inline_asm_elementwise(
        "ld.global.b32 $0, [$1];", "=r,r", [tl.load(x + at)], dtype=tl.int32, is_pure=True, pack=1
    )
    tl.store(out + at, v)


@triton.autotune(configs=[triton.Config({"BLOCK": 8}), triton.Config({"BLOCK": 16})], key=[])
@triton.jit
def handed_on(x, out, BLOCK: tl.constexpr):
    start = tl.program_id(0) * BLOCK
    at = start + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at) + tl.load(out + start - 1, mask=start > 0, other=0.0))


def activated(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, activate(tl.load(x + at)))  # noqa: F821


def activated_by(function):
    """A kernel of one text for every activation, which its own globals have, under a name of its own."""
    copied = types.FunctionType(activated.__code__, {**globals(), "activate": function}, f"activated_by_{function}")
    functools.update_wrapper(copied, activated).__name__ = f"activated_by_{function.fn.__name__}"
    return triton.jit(copied)
