"""Dropout without a stored mask: the random numbers are made where they are needed, forward and backward.

Algorithm: element i in row-major order is kept, and multiplied by a factor, where ``tl.rand(seed, offset + i) >= p``: a
number of Philox4x32-10, a function of (seed, offset + i) alone. The gradient is the same kernel on the gradient. The
CPU's kernel makes the same numbers, so a seed gives one mask on all devices. In a CUDA graph, whose launches are
frozen, the seed and what is added to the offset are read from device memory, and are others at each replay.

Bytes moved: the array in and out; no mask. Operations: some 60 integer ones an element for ten rounds of Philox, more
than memory hides on an H100 (a quarter of the four words that a counter gives is used, since any part of a draw must
be one that can be made by itself). Sources: Salmon et al., Parallel random numbers: as easy as 1, 2, 3 (2011);
Srivastava et al., Dropout (2014).
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator"
from __future__ import annotations

from typing import Any

import numpy as np
import triton
import triton.language as tl

from . import runtime
from .cases import Case
from .runtime import FLOATING, INTERPRET, Launch, Memo
from .tune import references
from .tune.declared import TritonKernel, call, each, empty, float64, normal
from .tune.space import Config, Constraint, Space, powers_of_two

SPACE = Space(
    [powers_of_two("BLOCK", 512, 2048, default=1024), powers_of_two("num_warps", 4, 8, default=4)],
    [Constraint("at least 4 elements a thread", lambda c: c["BLOCK"] >= 128 * c["num_warps"])],
)
_INTERPRETED_BLOCK = 1 << 16
_launches: Memo = Memo()


@triton.jit
def dropout_kernel(
    x_ptr, y_ptr, place_ptr, p: tl.float64, factor: tl.float64, seed_high: tl.float64, seed_low: tl.float64,
    offset: tl.float64, numel, COMPUTE: tl.constexpr, PLACED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Seed (in two halves) and offset come as float64, which holds them exactly: a launch freezes its integers."""
    first = offset.to(tl.int64)
    if PLACED:
        seed = tl.load(place_ptr)
        first += tl.load(place_ptr + 1)
    else:
        seed = (seed_high.to(tl.int64) << 32) | seed_low.to(tl.int64)
    index = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = index < numel
    keep = tl.rand(seed, first + index) >= p.to(tl.float32)
    x = tl.load(x_ptr + index, mask=mask, other=0.0).to(COMPUTE)
    y = tl.where(keep, x * factor.to(COMPUTE), 0.0)
    tl.store(y_ptr + index, y.to(y_ptr.dtype.element_ty), mask=mask)


def dropout_forward(
    x: Any, y: Any, p: float, seed: int, offset: int, config: Config | None = None, place: Any | None = None
) -> None:
    """``y = x / (1 - p)`` where a random number is at least `p`, else 0; of a gradient, the gradient.

    Arrays are contiguous. `seed` has 64 bits, `offset` at most 53. place : two int64 in device memory, a seed that is
    taken instead, and what is added to the offset.
    """
    key = (config and tuple(config.items()), place is None, *runtime.key_of(x, y))
    launch = _launches.get(key)
    if launch is None:
        launch = _launches[key] = _prepare(x, y, place is not None, config)
    if not 0 <= offset < 1 << 53:
        raise ValueError(f"dropout: the offset is 0 to 2**53 - 1, got {offset}. Remedy: a new seed.")
    factor = 1 / (1 - p) if p < 1 else 0.0
    launch((x, y, x if place is None else place), (float(p), factor, *_halves(seed), float(offset)))


def _halves(seed: int) -> tuple[float, float]:
    return float(seed >> 32 & 0xFFFFFFFF), float(seed & 0xFFFFFFFF)


def _prepare(x: Any, y: Any, placed: bool, config: Config | None) -> Launch:
    if x.dtype not in FLOATING or y.dtype != x.dtype or y.shape != x.shape:
        raise TypeError(f"dropout: takes floating-point arrays of one type and shape, got {x.dtype} {x.shape} and "
                        f"{y.dtype} {y.shape}")  # fmt: skip
    if not (runtime.is_contiguous(x) and runtime.is_contiguous(y)):
        raise ValueError(f"dropout: takes contiguous arrays, got strides {x.strides} and {y.strides}")
    config = config or runtime.tuned(dropout_kernel, SPACE, (x.size,), x.dtype)
    settings = SPACE.complete(config)
    warps = settings.pop("num_warps")
    if INTERPRET and config is None:
        settings["BLOCK"] = min(triton.next_power_of_2(max(x.size, 1)), _INTERPRETED_BLOCK)
    compute = tl.float64 if x.dtype == np.float64 else tl.float32
    grid = (triton.cdiv(x.size, settings["BLOCK"]),)
    constants = {"COMPUTE": compute, "PLACED": placed, **settings}
    return Launch(dropout_kernel, grid, [x.size], constants, num_warps=warps)


def compile_cases(dtype: str) -> list[Case]:
    """Return what the compile check compiles, for one dtype."""
    arguments = (f"*{dtype}", f"*{dtype}", "*i64", 0.5, 2.0, 1.0, 7.0, 1e10, 1_000_000)
    constants = {"COMPUTE": tl.float64 if dtype == "fp64" else tl.float32}
    return [Case("dropout", dropout_kernel, arguments, {**constants, "PLACED": False}, SPACE),
            Case("dropout_placed", dropout_kernel, arguments, {**constants, "PLACED": True},
                 Space.of([SPACE.default]))]  # fmt: skip


def tuning() -> list[TritonKernel]:
    """Return what the tuner is told."""

    def expected(inputs: Any) -> Any:
        (x,) = float64(inputs)
        y = np.where(references.philox(7, x.size) >= np.float32(0.25), x / 0.75, 0.0)
        return [(y, np.abs(x), 1)]

    return [TritonKernel(dropout_kernel, ("items",), SPACE,
                         lambda shape, dtype, rng: ([normal(rng, shape, dtype)], [empty(shape, dtype)]),
                         lambda i, o, c: call(dropout_forward, *i, *o, 0.25, 7, 0, config=c), expected, each(2, 60),
                         (5000,))]  # fmt: skip
