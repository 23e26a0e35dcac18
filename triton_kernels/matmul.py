"""Matrix products of strided, broadcast batches, with an optional bias.

Algorithm: a program computes a BLOCK_M x BLOCK_N tile, walking K by BLOCK_K; programs are numbered in groups of GROUP_M
rows of tiles, so that the tiles in flight share operands in the L2 cache. Strides are free: transposed views cost no
copy. float16 and bfloat16 accumulate in float32, float32 in float32 and, by default, multiplies in float32 too
(`input_precision="ieee"`; "tf32" is 8 times as fast on an A100 and keeps 10 bits), float64 in float64.

Bytes moved: 2 M N K (1 / BLOCK_M + 1 / BLOCK_N) elements at worst, M K + K N + M N at best. Operations: 2 M N K.
Source: Triton's tutorial on matrix multiplication (grouped ordering).
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator"
from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import triton
import triton.language as tl

from . import runtime
from .cases import Case
from .runtime import FLOATING, INTERPRET, Launch, Memo
from .tune.space import Config, Constraint, Space, Tunable, powers_of_two


def _shared_bytes(c: Mapping[str, Any]) -> int:
    return (c["BLOCK_M"] + c["BLOCK_N"]) * c["BLOCK_K"] * 2 * c["num_stages"]


SPACE = Space(
    [
        powers_of_two("BLOCK_M", 32, 128, default=64),
        powers_of_two("BLOCK_N", 32, 128, default=64),
        Tunable("BLOCK_K", (32,), default=32),
        Tunable("GROUP_M", (8,), default=8),
        powers_of_two("num_warps", 4, 8, default=4),
        Tunable("num_stages", (2, 3), default=3),
    ],
    [
        Constraint("8 warps for tiles above 4096 elements, 4 below",
                   lambda c: (c["BLOCK_M"] * c["BLOCK_N"] > 4096) == (c["num_warps"] == 8)),
        Constraint("tiles at most twice as long as wide",
                   lambda c: max(c["BLOCK_M"], c["BLOCK_N"]) <= 2 * min(c["BLOCK_M"], c["BLOCK_N"])),
        Constraint("operands of 16 bits fit 96 KiB of shared memory", lambda c: _shared_bytes(c) <= 96 * 1024),
        Constraint("a third stage only for tiles of 4096 elements and more",
                   lambda c: c["num_stages"] == 2 or c["BLOCK_M"] * c["BLOCK_N"] >= 4096),
    ],
)  # fmt: skip
_BATCH_DIMENSIONS = 3
_INTERPRETED_TILE = 512
_launches: Memo = Memo()


@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, bias_ptr, out_ptr,
    M, N, K, am, ak, bk, bn, bias_stride, om, on,
    n1, n2, a0, a1, a2, b0, b1, b2, o0, o1, o2,
    PRECISION: tl.constexpr, COMPUTE: tl.constexpr, HAS_BIAS: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    columns = tl.cdiv(N, BLOCK_N)
    tiles = tl.cdiv(M, BLOCK_M) * columns
    tile = tl.program_id(0) % tiles
    batch = (tl.program_id(0) // tiles).to(tl.int64)
    group = tile // (GROUP_M * columns)
    height = tl.minimum(tl.cdiv(M, BLOCK_M) - group * GROUP_M, GROUP_M)
    within = tile % (GROUP_M * columns)
    row = ((group * GROUP_M + within % height) * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    column = ((within // height) * BLOCK_N + tl.arange(0, BLOCK_N)).to(tl.int64)
    i2 = batch % n2
    i1 = batch // n2 % n1
    i0 = batch // (n2 * n1)
    k = tl.arange(0, BLOCK_K).to(tl.int64)
    a_at = a_ptr + (i0 * a0 + i1 * a1 + i2 * a2) + row[:, None] * am + k[None, :] * ak
    b_at = b_ptr + (i0 * b0 + i1 * b1 + i2 * b2) + k[:, None] * bk + column[None, :] * bn
    acc = tl.zeros([BLOCK_M, BLOCK_N], COMPUTE)
    for begin in range(0, K, BLOCK_K):
        left = k < K - begin
        a = tl.load(a_at, mask=(row < M)[:, None] & left[None, :], other=0.0)
        b = tl.load(b_at, mask=left[:, None] & (column < N)[None, :], other=0.0)
        acc = tl.dot(a, b, acc, input_precision=PRECISION, out_dtype=COMPUTE)
        a_at += BLOCK_K * ak
        b_at += BLOCK_K * bk
    if HAS_BIAS:
        bias = tl.load(bias_ptr + column * bias_stride, mask=column < N, other=0.0)
        acc += bias.to(COMPUTE)[None, :]
    at = out_ptr + (i0 * o0 + i1 * o1 + i2 * o2) + row[:, None] * om + column[None, :] * on
    tl.store(at, acc.to(out_ptr.dtype.element_ty), mask=(row < M)[:, None] & (column < N)[None, :])


def matmul_forward(
    a: Any,
    b: Any,
    out: Any,
    config: Config | None = None,
    bias: Any | None = None,
    input_precision: str = "ieee",
) -> None:
    """``out = a @ b + bias``: (..., M, K) by (..., K, N), batch dimensions broadcast, any strides.

    `a` and `b` have one floating dtype; `bias` is a vector of N. `input_precision` is for float32: ``"ieee"``,
    ``"tf32"`` or ``"tf32x3"``.
    """
    key = (*runtime.key_of(a, b, out), bias is not None and runtime.key_of(bias), input_precision,
           config and tuple(config.items()))  # fmt: skip
    launch = _launches.get(key)
    if launch is None:
        launch = _launches[key] = _prepare(a, b, out, config, bias, input_precision)
    if out.size:
        launch((a, b, a if bias is None else bias, out))


def _prepare(a: Any, b: Any, out: Any, config: Config | None, bias: Any, input_precision: str) -> Launch:
    shapes = f"{tuple(a.shape)} @ {tuple(b.shape)} -> {tuple(out.shape)}"
    if min(a.ndim, b.ndim, out.ndim) < 2 or a.shape[-1] != b.shape[-2]:
        raise ValueError(
            f"matmul: mat1 and mat2 shapes cannot be multiplied: {shapes} needs (..., M, K) and (..., K, N)"
        )
    if a.dtype != b.dtype or a.dtype not in FLOATING:
        raise TypeError(f"matmul: expected two arrays of one floating dtype, got {a.dtype} and {b.dtype}")
    (m, k), n = a.shape[-2:], b.shape[-1]
    if tuple(out.shape[-2:]) != (m, n) or (bias is not None and tuple(bias.shape) != (n,)):
        raise ValueError(
            f"matmul: {shapes} with bias {None if bias is None else tuple(bias.shape)}: N is {n}, M is {m}"
        )
    sizes, (sa, sb, so) = _batches(out.shape[:-2], (a, b, out), shapes)
    compute = np.dtype(np.float64 if a.dtype == np.float64 else np.float32)
    settings = _settings(config or runtime.tuned(matmul_kernel, SPACE, (m, n, k), a.dtype), m, n, k, a.dtype)
    warps, stages = settings.pop("num_warps"), settings.pop("num_stages")
    am, ak = runtime.element_strides(a)[-2:]
    bk, bn = runtime.element_strides(b)[-2:]
    om, on = runtime.element_strides(out)[-2:]
    bias_stride = 0 if bias is None else runtime.element_strides(bias)[0]
    tiles = triton.cdiv(m, settings["BLOCK_M"]) * triton.cdiv(n, settings["BLOCK_N"])
    constants = {"PRECISION": input_precision, "COMPUTE": tl.float64 if compute == np.float64 else tl.float32,
                 "HAS_BIAS": bias is not None, **settings}  # fmt: skip
    return Launch(
        matmul_kernel,
        (tiles * math.prod(sizes),),
        [m, n, k, am, ak, bk, bn, bias_stride, om, on, *sizes[1:], *sa, *sb, *so],
        constants,
        num_warps=warps,
        num_stages=stages,
    )


def _settings(config: Config | None, m: int, n: int, k: int, dtype: Any) -> Config:
    if config is not None:
        return SPACE.complete(config)
    settings = default_for((m, n, k), dtype)
    if INTERPRET:  # one tile where it fits: the interpreter's cost is by tile
        largest = _INTERPRETED_TILE
        for name, size in (("BLOCK_M", m), ("BLOCK_N", n), ("BLOCK_K", k)):
            settings[name] = min(triton.next_power_of_2(max(size, 1)), largest)
    return settings


def default_for(shape: tuple[int, ...], dtype: Any) -> Config:
    """What is launched on a GPU where nothing was tuned."""
    m, n, _ = shape
    settings = SPACE.default
    if dtype == np.float64:
        settings.update(BLOCK_M=32, BLOCK_N=32, num_stages=2)  # a tile of accumulators takes twice the registers
    elif m <= 32 or n <= 32:
        settings.update(BLOCK_M=32, BLOCK_N=32, num_stages=2)
    return settings


def _batches(shape: tuple[int, ...], arrays: tuple[Any, ...], shapes: str) -> tuple[list[int], list[list[int]]]:
    """Merge the batch dimensions into three sizes, and three strides an array (0 where it broadcasts)."""
    views = []
    for x in arrays:
        own, steps = x.shape[:-2], runtime.element_strides(x)[:-2]
        missing = len(shape) - len(own)
        if missing < 0 or any(n not in (1, full) for n, full in zip(own, shape[missing:], strict=True)):
            raise ValueError(f"matmul: the batch dimensions do not broadcast: {shapes}")
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
    if len(sizes) > _BATCH_DIMENSIONS:
        raise ValueError(
            f"matmul: {len(sizes)} separate batch dimensions remain after merging, the kernel takes "
            f"{_BATCH_DIMENSIONS}: {shapes}. Remedy: make the operands contiguous, or flatten the batch."
        )
    padding = _BATCH_DIMENSIONS - len(sizes)
    return [1] * padding + sizes, [[0] * padding + m for m in merged]


def compile_cases(dtype: str) -> list[Case]:
    """What the compile check compiles, for one dtype."""
    pointer, compute = f"*{dtype}", tl.float64 if dtype == "fp64" else tl.float32
    arguments = (pointer, pointer, pointer, pointer, 1000, 1024, 999, 1024, 1, 1024, 1, 1, 1024, 1, *[1] * 2, *[0] * 9)
    constants = {"PRECISION": "ieee", "COMPUTE": compute, "HAS_BIAS": True}
    default = {"BLOCK_M": 32, "BLOCK_N": 32, "num_stages": 2} if dtype == "fp64" else {}
    return [Case("matmul", matmul_kernel, arguments, constants, SPACE, {**SPACE.default, **default})]
