"""Resampling of the last one to three dimensions: each output a weighted sum of few inputs, by tables.

Algorithm: for every dimension a table says which inputs an output adds up and with what weights; a lane owns an output
and goes through the product of its taps. Nearest has one tap a dimension, linear two, cubic four, means and the
transposes as many as it takes: one kernel is all of them, and the gradient is the same with the tables turned round, so
that it gathers, without atomics. Sums are float32 (float64 of float64).

Bytes moved: the input once (neighbouring outputs share their taps in the caches), the output once; the tables are
small. Operations: 2 an output and tap. Bound by memory where taps are few.
Source: Keys, IEEE Trans. ASSP 29 (1981), for the weights of cubic taps; the tables are the caller's.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator"
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import triton
import triton.language as tl

from . import pool, runtime
from .cases import Case
from .runtime import FLOATING, INTERPRET, Launch, Memo
from .tune.declared import TritonKernel, empty, float64, integers, normal, plane
from .tune.space import Config, Space, Tunable, powers_of_two
from .windows import strides_of, three

SPACE = Space([powers_of_two("BLOCK", 256, 512, default=256), Tunable("num_warps", (4,), default=4)])
Table = tuple[Any, Any]
_INTERPRETED_TILE = 1 << 15
_launches: Memo = Memo()


@triton.jit
def resample_kernel(
    x_ptr, at1_ptr, w1_ptr, at2_ptr, w2_ptr, at3_ptr, w3_ptr, y_ptr, total, second, q1, q2, q3, xa, xb, xs1, xs2, xs3,
    COMPUTE: tl.constexpr, DIMS: tl.constexpr, T1: tl.constexpr, T2: tl.constexpr, T3: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    at, v1, v2, v3, a, b = pool.place_of(BLOCK, q1, q2, q3, second)
    live = at < total
    x_at = x_ptr + a * xa + b * xb
    acc = tl.zeros([BLOCK], COMPUTE)
    for tap in range(T1 * T2 * T3):
        n3 = v3 * T3 + tap % T3
        step = tl.load(at3_ptr + n3, mask=live, other=0).to(tl.int64) * xs3
        weight = tl.load(w3_ptr + n3, mask=live, other=0.0)
        if DIMS > 1:
            n2 = v2 * T2 + tap // T3 % T2
            step += tl.load(at2_ptr + n2, mask=live, other=0).to(tl.int64) * xs2
            weight *= tl.load(w2_ptr + n2, mask=live, other=0.0)
        if DIMS > 2:
            n1 = v1 * T1 + tap // (T3 * T2)
            step += tl.load(at1_ptr + n1, mask=live, other=0).to(tl.int64) * xs1
            weight *= tl.load(w1_ptr + n1, mask=live, other=0.0)
        x = tl.load(x_at + step, mask=live & (weight != 0.0), other=0.0)  # what has no weight may be infinite
        acc += x.to(COMPUTE) * weight
    tl.store(y_ptr + at, acc.to(y_ptr.dtype.element_ty), mask=live)


def resample(x: Any, tables: Sequence[Table], y: Any, config: Config | None = None) -> None:
    """``y[a, b, q...] = sum over taps of x[a, b, at[q, tap]...] w[q, tap]...``, the product over the dimensions.

    `x` is (A, B, sizes...) with any strides, `y` (A, B, places...) and row-major. Each dimension has a table (at, w) of
    (places, taps): int32, and float32 or for float64 float64, row-major and on the device.
    """
    many = (*[tables[0]] * (3 - len(tables)), *tables)  # what stands for a dimension that is not there is not read
    key = (*runtime.key_of(x, y, *(t for table in tables for t in table)), config and tuple(config.items()))
    launch = _launches.get(key)
    if launch is None:
        launch = _launches[key] = _prepare(x, tables, y, config)
    if y.size:
        launch((x, *(t for table in many for t in table), y))


def weight_type(dtype: Any) -> Any:
    """Return the type of the weights for inputs of this one."""
    return np.float64 if dtype == np.float64 else np.float32


def _prepare(x: Any, tables: Sequence[Table], y: Any, config: Config | None) -> Launch:
    fits = 3 <= x.ndim <= 5 and tuple(len(at) for at, _ in tables) == tuple(y.shape[2:])
    fits = fits and all(at.shape == w.shape and at.dtype == np.int32 and w.dtype == weight_type(x.dtype)
                        and runtime.is_contiguous(at) and runtime.is_contiguous(w) for at, w in tables)  # fmt: skip
    if x.dtype not in FLOATING or y.dtype != x.dtype or not fits or not runtime.is_contiguous(y) or y.size >= 2**31:
        raise TypeError(
            f"resample: takes floating-point arrays of one dtype, a row-major output of fewer than 2**31 elements, and "
            f"a table (places, taps) of int32 and {np.dtype(weight_type(x.dtype))} a dimension; got {x.dtype} "
            f"{tuple(x.shape)} -> {y.dtype} {tuple(y.shape)}, tables "
            + ", ".join(f"{at.dtype} {tuple(at.shape)} {w.dtype} {tuple(w.shape)}" for at, w in tables)
        )
    shape = (y.shape[0] * y.shape[1], math.prod(y.shape[2:]), math.prod(at.shape[1] for at, _ in tables))
    config = config or runtime.tuned(resample_kernel, SPACE, shape, x.dtype)
    settings = SPACE.complete(config) if config else default_for((y.size,))
    if INTERPRET and config is None:
        settings["BLOCK"] = min(triton.next_power_of_2(max(y.size, 1)), _INTERPRETED_TILE)
    warps = settings.pop("num_warps")
    taps = dict(zip(("T1", "T2", "T3"), three([at.shape[1] for at, _ in tables], 1), strict=True))
    compute = tl.float64 if x.dtype == np.float64 else tl.float32
    ints = (y.size, y.shape[1], *three(y.shape[2:], 1), *strides_of(x))
    return Launch(resample_kernel, (triton.cdiv(y.size, settings["BLOCK"]),), ints,
                  {"COMPUTE": compute, "DIMS": len(tables), **taps, **settings}, num_warps=warps)  # fmt: skip


def default_for(shape: tuple[int, ...], dtype: Any = None) -> Config:
    """Return what is launched on a GPU where nothing was tuned."""
    return SPACE.default


def compile_cases(dtype: str) -> list[Case]:
    """Return what the compile check compiles, for one dtype: the four taps of bilinear resampling."""
    pointer, wide = f"*{dtype}", "fp64" if dtype == "fp64" else "fp32"
    table = ("*i32", f"*{wide}")
    arguments = (pointer, *table * 3, pointer, 6422528, 64, 1, 56, 56, 50176, 784, 0, 28, 1)
    constants = {"COMPUTE": tl.float64 if dtype == "fp64" else tl.float32, "DIMS": 2, "T1": 1, "T2": 2, "T3": 2}
    return [Case("resample", resample_kernel, arguments, constants, SPACE)]


def tuning() -> list[TritonKernel]:
    """Return what the tuner is told: as many places as the input has."""

    def arrays(shape: Any, dtype: str, rng: Any) -> Any:
        sizes, taps = plane(*shape[1:])
        kind = np.dtype(weight_type(empty(0, dtype).dtype)).name
        tables = [t for q, k in zip(sizes, taps, strict=True)
                  for t in (integers(rng, q, (q, k), "int32"), normal(rng, (q, k), kind))]  # fmt: skip
        return [normal(rng, (1, shape[0], *sizes), dtype), *tables], [empty((1, shape[0], *sizes), dtype)]

    def expected(inputs: Any) -> Any:
        found = []
        for made in (lambda a: a, np.abs):
            x, at1, w1, at2, w2 = (made(a) for a in float64(inputs))
            columns = sum(x[..., at2[:, t]] * w2[:, t] for t in range(at2.shape[1]))
            found.append(sum(columns[..., at1[:, t], :] * w1[:, t, None] for t in range(at1.shape[1])))
        return [(found[0], found[1] + 1e-7, inputs[1].shape[1] * inputs[3].shape[1])]

    def launch(i: Any, o: Any, c: Any) -> None:
        resample(i[0], ((i[1], i[2]), (i[3], i[4])), o[0], c)

    def work(s: Any, size: int, c: Config) -> Any:
        return 2.0 * s[0] * s[1] * s[2], 2.0 * size * s[0] * s[1]

    return [TritonKernel(resample_kernel, ("planes", "places", "taps"), SPACE, arrays, launch, expected, work,
                         (3, 121, 9), lambda s, dtype, target: default_for(s), kept=("taps",))]  # fmt: skip
