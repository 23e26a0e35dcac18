"""Variance, standard deviation and log-sum-exp over any axes of any strided array, in one walk.

Algorithm: as in `reduce`, a program owns BLOCK_KEPT results and walks the reduced elements BLOCK_REDUCE at a time. Each
lane keeps a count, a mean and a sum of squared differences (Welford), or its greatest element and a sum of exponentials
relative to it (Milakov and Gimelshein); the lanes are joined at the end, by Chan's formula or by the greatest element
of all. Where results are too few to fill a GPU, programs share a result, and a second launch joins the shares in order.
No atomics: the bits depend on shape, strides and config alone. Half types are computed in float32.

Bytes moved: the array once. Operations: 6 an element; of a log-sum-exp two exponentials.
Sources: Welford (1962); Chan, Golub and LeVeque, Updating formulae and a pairwise algorithm for variances (1979);
Milakov and Gimelshein, Online normalizer calculation for softmax (2018).
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator"
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import triton
import triton.language as tl

from . import reduce, runtime, scalar
from .cases import Case
from .reduce import SPACE, _offset
from .runtime import FLOATING, INTERPRET, Launch, Memo
from .tune.declared import TritonKernel, call, each, empty, float64, normal
from .tune.space import Config

KINDS = ("var", "std", "logsumexp")
_FILL_PROGRAMS = 264  # two for each of the 132 multiprocessors of an H100
_launches: Memo = Memo()


@triton.jit
def _finite(x):
    """What an exponential's argument is taken relative to: an infinity would make NaN of itself."""
    return tl.where(tl.abs(x) == float("inf"), 0.0, x)


@triton.jit
def moments_kernel(
    x_ptr, out_ptr, free: tl.float64,
    kept, reduced, part,
    k1, k2, k3, ks0, ks1, ks2, ks3,
    r1, r2, r3, rs0, rs1, rs2, rs3,
    o1, o2, o3, os0, os1, os2, os3,
    KIND: tl.constexpr, SHARES: tl.constexpr, COMPUTE: tl.constexpr, INDEX: tl.constexpr, KEPT_DIMS: tl.constexpr,
    REDUCED_DIMS: tl.constexpr, OUT_DIMS: tl.constexpr, BLOCK_KEPT: tl.constexpr, BLOCK_REDUCE: tl.constexpr,
):  # fmt: skip
    """With SHARES each program's count, mean and spread, or greatest and sum, go to out_ptr, a plane each."""
    row = tl.program_id(0).to(INDEX) * BLOCK_KEPT + tl.arange(0, BLOCK_KEPT)
    live = row < kept
    start = tl.program_id(1).to(INDEX) * part
    stop = tl.minimum(start + part, reduced)
    base = x_ptr + _offset(row, k1, k2, k3, ks0, ks1, ks2, ks3, KEPT_DIMS)[:, None]
    counts = tl.zeros([BLOCK_KEPT, BLOCK_REDUCE], COMPUTE)
    spreads = tl.zeros([BLOCK_KEPT, BLOCK_REDUCE], COMPUTE)
    if KIND == "logsumexp":
        middle = tl.full([BLOCK_KEPT, BLOCK_REDUCE], -float("inf"), COMPUTE)
    else:
        middle = tl.zeros([BLOCK_KEPT, BLOCK_REDUCE], COMPUTE)
    for begin in range(start, stop, BLOCK_REDUCE):
        i = begin + tl.arange(0, BLOCK_REDUCE)
        mask = live[:, None] & (i < stop)[None, :]
        at = base + _offset(i, r1, r2, r3, rs0, rs1, rs2, rs3, REDUCED_DIMS)[None, :]
        if KIND == "logsumexp":
            x = tl.load(at, mask=mask, other=-float("inf")).to(COMPUTE)
            higher = tl.maximum(middle, x)
            to = _finite(higher)
            spreads = spreads * scalar.exp(middle - to) + scalar.exp(x - to)
            middle = higher
        else:
            x = tl.load(at, mask=mask, other=0).to(COMPUTE)
            counts += mask.to(COMPUTE)
            delta = tl.where(mask, x - middle, 0.0)
            middle += delta / tl.maximum(counts, 1.0)
            spreads += tl.where(mask, delta * (x - middle), 0.0)
    if KIND == "logsumexp":
        center = tl.max(middle, 1)
        spread = tl.sum(spreads * scalar.exp(middle - _finite(center)[:, None]), 1)
        count = spread
    else:
        count = tl.sum(counts, 1)
        center = scalar.div(tl.sum(counts * middle, 1), tl.maximum(count, 1.0))
        off = middle - center[:, None]
        spread = tl.sum(spreads + counts * off * off, 1)
    if SHARES:
        plane = tl.num_programs(1).to(tl.int64) * kept
        to = out_ptr + row * tl.num_programs(1) + tl.program_id(1)
        tl.store(to, center, mask=live)
        tl.store(to + plane, spread, mask=live)
        if KIND != "logsumexp":
            tl.store(to + 2 * plane, count, mask=live)
    else:
        to = out_ptr + _offset(row, o1, o2, o3, os0, os1, os2, os3, OUT_DIMS)
        tl.store(to, _result(center, spread, free, KIND, COMPUTE).to(out_ptr.dtype.element_ty), mask=live)


@triton.jit
def _result(center, spread, free, KIND: tl.constexpr, COMPUTE: tl.constexpr):
    if KIND == "logsumexp":
        result = tl.log(spread) + _finite(center)
    else:
        result = scalar.div(spread, tl.zeros_like(spread) + free.to(COMPUTE))
        if KIND == "std":
            result = scalar.sqrt(result)
    return result


@triton.jit
def moments_join_kernel(
    share_ptr, out_ptr, free: tl.float64, kept, shares, o1, o2, o3, os0, os1, os2, os3,
    KIND: tl.constexpr, COMPUTE: tl.constexpr, OUT_DIMS: tl.constexpr, BLOCK_KEPT: tl.constexpr,
    BLOCK_REDUCE: tl.constexpr,
):  # fmt: skip
    """The results from at most BLOCK_REDUCE shares of each."""
    row = tl.program_id(0).to(tl.int64) * BLOCK_KEPT + tl.arange(0, BLOCK_KEPT)
    live = row < kept
    share = tl.arange(0, BLOCK_REDUCE)
    mask = live[:, None] & (share < shares)[None, :]
    at = share_ptr + row[:, None] * shares + share[None, :]
    plane = tl.full([1, 1], 1, tl.int64) * kept * shares
    spreads = tl.load(at + plane, mask=mask, other=0.0)
    if KIND == "logsumexp":
        middle = tl.load(at, mask=mask, other=-float("inf"))
        center = tl.max(middle, 1)
        # a share is relative to its own greatest element, or to 0 where that is infinite
        spread = tl.sum(spreads * scalar.exp(tl.where(mask, _finite(middle), 0.0) - _finite(center)[:, None]), 1)
    else:
        middle = tl.load(at, mask=mask, other=0.0)
        counts = tl.load(at + 2 * plane, mask=mask, other=0.0)
        center = scalar.div(tl.sum(counts * middle, 1), tl.maximum(tl.sum(counts, 1), 1.0))
        off = middle - center[:, None]
        spread = tl.sum(spreads + counts * off * off, 1)
    to = out_ptr + _offset(row, o1, o2, o3, os0, os1, os2, os3, OUT_DIMS)
    tl.store(to, _result(center, spread, free, KIND, COMPUTE).to(out_ptr.dtype.element_ty), mask=live)


def moments_forward(kind: str, x: Any, axes: Sequence[int], out: Any, correction: float = 1.0,
                    config: Config | None = None, shares: int | None = None) -> None:  # fmt: skip
    """One of `KINDS` of `x` over `axes` into `out`, x's shape without those axes or with ones in their place.

    A variance is divided by the count less `correction`, at least 0. `shares`: among how many programs a result is
    split.
    """
    key = (kind, tuple(axes), correction, shares, config and tuple(config.items()), *runtime.key_of(x, out))
    run = _launches.get(key)
    if run is None:
        run = _launches[key] = _prepare(kind, x, tuple(axes), out, correction, config, shares)
    run(x, out)


def _prepare(kind: str, x: Any, axes: tuple[int, ...], out: Any, correction: float, config: Config | None,
             shares: int | None) -> Any:  # fmt: skip
    if kind not in KINDS or x.dtype not in FLOATING:
        raise TypeError(f"moments: takes floating-point arrays and {', '.join(KINDS)}, got {x.dtype} and {kind!r}")
    over = sorted({a % max(x.ndim, 1) for a in axes})
    keep = [a for a in range(x.ndim) if a not in over]
    if tuple(n for n in out.shape if n != 1) != tuple(x.shape[a] for a in keep if x.shape[a] != 1):
        raise ValueError(f"{kind}: out has shape {tuple(out.shape)}, x {tuple(x.shape)} over {axes} leaves another")
    count = math.prod(x.shape[a] for a in over)
    if out.size == 0 or count == 0:
        raise ValueError(f"{kind}: takes no empty arrays, got shape {tuple(x.shape)} over {axes}")
    kept_dims, kept = reduce._axes(kind, x, keep)
    reduced_dims, reduced = reduce._axes(kind, x, over)
    out_dims, target = reduce._axes(kind, out, range(out.ndim))
    compute = tl.float64 if x.dtype == np.float64 else tl.float32
    tuned = config or runtime.tuned(moments_kernel, SPACE, (out.size, count), x.dtype)
    settings = reduce._settings(tuned, out.size, count)
    if tuned is None and not INTERPRET:
        settings |= default_for((out.size, count), x.dtype)
    warps = settings.pop("num_warps")
    programs = triton.cdiv(out.size, settings["BLOCK_KEPT"])
    if shares is None:
        wanted = 1 if INTERPRET else triton.cdiv(_FILL_PROGRAMS, programs)
        shares = min(wanted, triton.cdiv(count, 8 * settings["BLOCK_REDUCE"]))
    step = triton.cdiv(triton.cdiv(count, shares), settings["BLOCK_REDUCE"]) * settings["BLOCK_REDUCE"]
    shares = triton.cdiv(count, step)
    constants = {"KIND": kind, "COMPUTE": compute, **settings}
    floats = (max(0.0, count - float(correction)),)
    dims = {"INDEX": reduce._index_type(x, out), "KEPT_DIMS": kept_dims, "REDUCED_DIMS": reduced_dims,
            "OUT_DIMS": out_dims, "SHARES": shares > 1}  # fmt: skip
    ints = [out.size, count, step, *kept, *reduced, *target]
    first = Launch(moments_kernel, (programs, shares), ints, {**constants, **dims}, num_warps=warps)
    if shares == 1:
        return lambda x, out: first((x, out), floats)
    side = {
        **constants,
        "OUT_DIMS": out_dims,
        "BLOCK_KEPT": 1,
        "BLOCK_REDUCE": max(triton.next_power_of_2(shares), 128),
    }
    last = Launch(moments_join_kernel, (out.size,), [out.size, shares, *target], side, num_warps=4)
    shape, scratch_type = (3, out.size, shares), np.dtype(np.float64 if compute == tl.float64 else np.float32)

    def both(x: Any, out: Any) -> None:
        scratch = runtime.empty(shape, scratch_type)
        first((x, scratch), floats)
        last((scratch, out), floats)

    return both


def default_for(shape: tuple[int, ...], dtype: Any = None) -> Config:
    """Return what is launched on a GPU where nothing was tuned, in so far as the shape decides it."""
    found = reduce.default_for(shape, dtype)
    return found or (_WIDE if dtype == np.float64 else {})


_WIDE = {"BLOCK_REDUCE": 256}  # float64 takes two registers an element


def compile_cases(dtype: str) -> list[Case]:
    """Return what the compile check compiles, for one dtype."""
    pointer, wide = f"*{dtype}", "*fp64" if dtype == "fp64" else "*fp32"
    compute, ones = tl.float64 if dtype == "fp64" else tl.float32, (1, 1, 1, 1000, 0, 0, 0)
    cases = []
    for kind in KINDS[1:]:
        kinds = {"KIND": kind, "COMPUTE": compute, "OUT_DIMS": 1}
        dims = {"SHARES": False, "INDEX": tl.int32, "KEPT_DIMS": 1, "REDUCED_DIMS": 1}
        arguments = (pointer, pointer, 999.0, 999, 1000, 1000, *ones, *ones, *ones)
        default = {**SPACE.default, **_WIDE} if dtype == "fp64" else {}
        cases.append(Case(f"moments_{kind}", moments_kernel, arguments, {**kinds, **dims}, SPACE, default))
        join = (wide, pointer, 999.0, 999, 264, *ones)
        cases.append(Case(f"moments_{kind}_join", moments_join_kernel, join, kinds, _JOIN_SPACE))
    return cases


_JOIN_SPACE = reduce.Space(
    [reduce.Tunable("BLOCK_KEPT", (1,), default=1), reduce.Tunable("BLOCK_REDUCE", (128, 512), default=512),
     reduce.Tunable("num_warps", (4,), default=4)]
)  # fmt: skip


def tuning() -> list[TritonKernel]:
    """Return what the tuner is told: of the kinds the variance."""

    def arrays(shape: Any, dtype: str, rng: Any) -> Any:
        return [normal(rng, shape, dtype)], [empty(shape[:1], dtype)]

    def expected(inputs: Any) -> Any:
        (x,) = float64(inputs)
        return [(x.var(1, ddof=1), (x * x).mean(1) * x.shape[1] / (x.shape[1] - 1), x.shape[1])]

    return [TritonKernel(moments_kernel, ("rows", "columns"), SPACE, arrays,
                         lambda i, o, c: call(moments_forward, "var", *i, (1,), *o, config=c), expected, each(1, 6),
                         (5, 4099), lambda shape, dtype, target: default_for(shape, dtype),
                         limits={"columns": (2, 1 << 40)})]  # fmt: skip
