"""Products with weights of 8 or 4 bits, made numbers again where they are multiplied: never in memory.

Algorithm: a program computes a BLOCK_M x BLOCK_N tile of x wT. int8: the integers, which 16 bits hold exactly, are
multiplied, and each column of the result by its scale. int4: a byte holds two weights, that of the even place in its
low half; a block of K lies within one group, whose scale and zero make (q - zero) scale of its weights. Where tiles are
few, K is split among programs and the parts are added in order. Sums are kept in float32.

Bytes moved: K N (int8) or K N / 2 (int4) and the rows of x for each BLOCK_M: for few rows a half or a quarter of the
weights in 16 bits. Operations: 2 M N K. Sources: Dettmers et al., arXiv 2208.07339; Frantar et al., arXiv 2210.17323.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator"
from __future__ import annotations

from typing import Any

import numpy as np
import triton
import triton.language as tl

from . import runtime
from .cases import Case
from .matmul import join_kernel, parts_for
from .runtime import INTERPRET, Launch, Memo
from .tune.declared import SINGLES, TritonKernel, call, empty, integers, normal, of_products
from .tune.space import Config, Constraint, Space, Tunable, powers_of_two

SPACE = Space(
    [
        powers_of_two("BLOCK_M", 16, 64, default=64),
        powers_of_two("BLOCK_N", 32, 128, default=64),
        powers_of_two("BLOCK_K", 32, 128, default=64),
        powers_of_two("num_warps", 4, 8, default=4),
        Tunable("num_stages", (2, 3), default=2),
    ],
    [
        Constraint("8 warps for 64 x 128, or for 64 x 64",
                   lambda c: c["num_warps"] == 8 if c["BLOCK_M"] * c["BLOCK_N"] == 8192 else
                   c["num_warps"] == 4 or c["BLOCK_M"] == c["BLOCK_N"] == 64),
        Constraint("K by 32 only for tiles of 32 x 32, which have no other",
                   lambda c: (c["BLOCK_K"] == 32) == (c["BLOCK_M"] == c["BLOCK_N"] == 32)),
        Constraint("32 columns only with 32 rows", lambda c: c["BLOCK_N"] > 32 or c["BLOCK_M"] == 32),
        Constraint("K by 128 for 16 rows, by 64 for more, in three stages for 16 rows",
                   lambda c: c["BLOCK_K"] == 32 or ((c["BLOCK_K"] == 128) == (c["BLOCK_M"] == 16)
                                                    and (c["num_stages"] == 3 or c["BLOCK_M"] > 16))),
    ],
)  # fmt: skip
DTYPES = ("float16", "bfloat16", "float32")
_INTERPRETED_TILE = 256
_launches: Memo = Memo()


@triton.jit
def weight_kernel(
    x_ptr, w_ptr, scale_ptr, zero_ptr, bias_ptr, out_ptr,
    M, N, K, xm, xk, wn, wk, sn, sg, zn, zg, bias_stride, om, on, group, parts, part_size,
    FOUR: tl.constexpr, HAS_BIAS: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    columns = tl.cdiv(N, BLOCK_N)
    row = (tl.program_id(0) // columns) * BLOCK_M + tl.arange(0, BLOCK_M)
    column = (tl.program_id(0) % columns) * BLOCK_N + tl.arange(0, BLOCK_N)
    part = tl.program_id(1)
    share = tl.cdiv(tl.cdiv(K, BLOCK_K), parts) * BLOCK_K
    first = part * share
    last = tl.minimum(first + share, K)
    k = tl.arange(0, BLOCK_K)
    live = column < N
    x_at = x_ptr + row.to(tl.int64)[:, None] * xm
    w_at = w_ptr + column.to(tl.int64)[:, None] * wn
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for begin in range(first, last, BLOCK_K):
        more = k < last - begin
        x = tl.load(x_at + (begin + k)[None, :] * xk, mask=(row < M)[:, None] & more[None, :], other=0.0)
        if FOUR:
            half = tl.arange(0, BLOCK_K // 2)
            inside = live[:, None] & (2 * half < last - begin)[None, :]
            packed = tl.load(w_at + (begin // 2 + half)[None, :] * wk, mask=inside, other=0)
            w = tl.reshape(tl.join(packed & 15, packed >> 4), [BLOCK_N, BLOCK_K]).to(tl.float32)
            at = begin // group
            scale = tl.load(scale_ptr + column * sn + at * sg, mask=live, other=0.0).to(tl.float32)
            zero = tl.load(zero_ptr + column * zn + at * zg, mask=live, other=0.0).to(tl.float32)
            w = ((w - zero[:, None]) * scale[:, None]).to(x.dtype)
        else:
            w = tl.load(w_at + (begin + k)[None, :] * wk, mask=live[:, None] & more[None, :], other=0).to(x.dtype)
        acc = tl.dot(x, w.T, acc, input_precision=PRECISION)
    if not FOUR:
        acc *= tl.load(scale_ptr + column * sn, mask=live, other=0.0).to(tl.float32)[None, :]
    if HAS_BIAS:
        acc += tl.load(bias_ptr + column * bias_stride, mask=live, other=0.0).to(tl.float32)[None, :]
    at = out_ptr + part.to(tl.int64) * part_size + row.to(tl.int64)[:, None] * om + column[None, :] * on
    tl.store(at, acc.to(out_ptr.dtype.element_ty), mask=(row < M)[:, None] & live[None, :])


def weight_int8_forward(x: Any, weight: Any, scale: Any, out: Any, bias: Any | None = None,
                        config: Config | None = None, parts: int | None = None) -> None:  # fmt: skip
    """``out = (x @ weight.T) * scale + bias``: x (M, K) floating, weight (N, K) int8, scale and bias (N,)."""
    _run("weight_int8", x, weight, scale, None, out, bias, config, parts)


def weight_int4_forward(x: Any, weight: Any, scale: Any, zero: Any, out: Any, bias: Any | None = None,
                        config: Config | None = None, parts: int | None = None) -> None:  # fmt: skip
    """``out = x @ w.T + bias`` with ``w = (q - zero) * scale``.

    *Shapes*: x (M, K) floating, weight (N, K / 2) uint8, of which each holds two q, scale and zero (N, groups). A group
    is K / groups weights that follow one another, a multiple of 16.
    """
    _run("weight_int4", x, weight, scale, zero, out, bias, config, parts)


def _run(name: str, x: Any, weight: Any, scale: Any, zero: Any, out: Any, bias: Any, config: Config | None,
         parts: int | None) -> None:  # fmt: skip
    key = (*runtime.key_of(x, weight, scale, out), bias is not None and runtime.key_of(bias), zero is None or
           runtime.key_of(zero), config and tuple(config.items()), parts)  # fmt: skip
    found = _launches.get(key)
    if found is None:
        found = _launches[key] = _prepare(name, x, weight, scale, zero, out, bias, config, parts)
    launch, join, shape = found
    if not out.size:
        return
    other, shift = scale if zero is None else zero, x if bias is None else bias
    if join is None:
        launch((x, weight, scale, other, shift, out))
        return
    scratch = runtime.empty(shape, np.float32)
    launch((x, weight, scale, other, x, scratch))
    join((scratch, shift, out))


def _prepare(name: str, x: Any, weight: Any, scale: Any, zero: Any, out: Any, bias: Any, config: Config | None,
             parts: int | None) -> tuple[Launch, Launch | None, tuple[int, ...]]:  # fmt: skip
    four = zero is not None
    came = f"{name}: x {x.dtype} {tuple(x.shape)}, weight {weight.dtype} {tuple(weight.shape)}, scale {scale.shape}"
    if x.dtype.name not in DTYPES or weight.dtype != (np.uint8 if four else np.int8):
        raise TypeError(f"{came}: x is one of {', '.join(DTYPES)}, the weight {'uint8' if four else 'int8'}")
    (m, k), n = x.shape, weight.shape[0]
    groups = scale.shape[1] if four else 1
    if weight.shape != (n, k // 2 if four else k) or scale.shape[0] != n or tuple(out.shape) != (m, n):
        raise ValueError(f"{came}: the weight of (N, K) weights needs K = {k}, out {(m, n)}, a scale for each of N")
    if bias is not None and tuple(bias.shape) != (n,):
        raise ValueError(f"{came}: bias is {tuple(bias.shape)}, not ({n},)")
    if four and (zero.shape != scale.shape or k % max(groups, 1) or group_of(k, groups) % 16):
        raise ValueError(f"{came}: groups of a multiple of 16 weights are needed, as many zeros as scales")
    group = group_of(k, groups)
    config = config or runtime.tuned(weight_kernel, SPACE, (m, n, k), x.dtype)
    settings = SPACE.complete(config) if config else default_for((m, n, k), x.dtype)
    if INTERPRET and config is None:
        for axis, size in (("M", m), ("N", n), ("K", k)):
            settings[f"BLOCK_{axis}"] = min(max(16, triton.next_power_of_2(max(size, 1))), _INTERPRETED_TILE)
    warps, stages = settings.pop("num_warps"), settings.pop("num_stages")
    if four:
        settings["BLOCK_K"] = min(settings["BLOCK_K"], group & -group)  # a block of K lies within one group
    tiles = triton.cdiv(m, settings["BLOCK_M"]) * triton.cdiv(n, settings["BLOCK_N"])
    parts = parts_for(tiles, k, settings) if parts is None else parts
    om, on = runtime.element_strides(out)
    bias_stride = 0 if bias is None else runtime.element_strides(bias)[0]
    steps = [runtime.element_strides(a) for a in (scale, scale if zero is None else zero)]
    scales = [s for a in steps for s in (*a, 0)[:2]]
    ints = [m, n, k, *runtime.element_strides(x), *runtime.element_strides(weight), *scales, bias_stride]
    constants = {"FOUR": four, "HAS_BIAS": bias is not None and parts == 1, "PRECISION": "ieee", **settings}
    placed = [om, on] if parts == 1 else [n, 1]
    launch = Launch(weight_kernel, (tiles, parts), [*ints, *placed, group, parts, m * n], constants,
                    num_warps=warps, num_stages=stages)  # fmt: skip
    if parts == 1:
        return launch, None, ()
    join = Launch(join_kernel, (triton.cdiv(m * n, 1024),), [m * n, n, bias_stride, m, 1, 1, 0, 0, 0, om, on, parts],
                  {"ACTIVATION": "", "HAS_BIAS": bias is not None, "BLOCK": 1024})  # fmt: skip
    return launch, join, (parts, m, n)


def group_of(k: int, groups: int) -> int:
    """Weights in a group."""
    return max(k // max(groups, 1), 1)


def default_for(shape: tuple[int, ...], dtype: Any, target: str = "") -> Config:
    """Return what is launched on a GPU where nothing was tuned."""
    settings = SPACE.default
    if np.dtype(dtype) == np.float32:
        settings.update(BLOCK_M=32, BLOCK_N=32, BLOCK_K=32)
    elif shape[0] <= 16:
        settings.update(BLOCK_M=16, BLOCK_K=128, num_stages=3)
    elif (target or runtime.target()).startswith("sm_1"):  # where four warps spill
        settings.update(num_warps=8)
    return settings


def compile_cases(dtype: str) -> list[Case]:
    """Return what the compile check compiles, for one dtype."""
    if dtype == "fp64":
        return []
    pointer = f"*{dtype}"
    sizes, of = (1000, 1024, 4096), np.float32 if dtype == "fp32" else np.float16
    default, elsewhere = default_for(sizes, of, "sm_90"), {"sm_100": default_for(sizes, of, "sm_100")}
    cases = []
    for four in (False, True):
        weight = "*u8" if four else "*i8"
        steps = (4096, 1, 2048 if four else 4096, 1, 32, 1, 32, 1, 1, 1024, 1)
        arguments = (pointer, weight, *[pointer] * 4, *sizes, *steps, 128, 1, 1024000)
        constants = {"FOUR": four, "HAS_BIAS": True, "PRECISION": "ieee"}
        space = Space.of([default]) if dtype == "fp32" else SPACE
        cases.append(Case(f"weight_int{4 if four else 8}", weight_kernel, arguments, constants, space, default,
                          elsewhere))  # fmt: skip
    return cases


def tuning() -> list[TritonKernel]:
    """Return what the tuner is told: weights of 8 bits, whose choice those of 4 bits take too."""

    def arrays(shape: Any, dtype: str, rng: Any) -> Any:
        m, n, k = shape
        given = [normal(rng, (m, k), dtype), integers(rng, 255, (n, k), "int16").astype(np.int8), normal(rng, n, dtype)]
        return given, [empty((m, n), dtype)]

    def expected(inputs: Any) -> Any:
        x, scale = (a.astype(np.float64) for a in (inputs[0], inputs[2]))
        weight = inputs[1].astype(np.float64)
        return [((x @ weight.T) * scale, (np.abs(x) @ np.abs(weight).T) * np.abs(scale), x.shape[1])]

    return [TritonKernel(weight_kernel, ("M", "N", "K"), SPACE, arrays,
                         lambda i, o, c: call(weight_int8_forward, *i, *o, config=c), expected,
                         of_products(lambda s: s, second=0.5), (70, 70, 150),
                         lambda shape, dtype, target: default_for(shape, dtype, target), SINGLES)]  # fmt: skip
