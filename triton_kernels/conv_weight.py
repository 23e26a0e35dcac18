"""The gradient of a convolution's weight: implicit GEMM over all places of all samples.

Algorithm: an output channel is a row, a channel of the window's input at one tap a column, an output place of a sample
a step of the sum. Where a group has many channels a program's columns are channels at one tap, so that what falls on
the padding is masked by places alone; where it has few (`DENSE`) channels and taps are numbered as one. Where tiles are
too few to fill a GPU the places are divided among `parts`, whose sums lie in scratch and are added by a second kernel,
in one order: the result does not vary. A group with a single channel goes to depthwise.py.

Bytes moved: the gradient once a tile of columns, the input once a tile of rows and tap (its taps from the caches), the
weight once; scratch: 8 parts outputs channels taps. Operations: 2 places outputs channels taps.
Source: Chetlur et al., cuDNN: Efficient Primitives for Deep Learning, arXiv:1410.0759, section 3.1.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator"
from __future__ import annotations

import math
from typing import Any

import numpy as np
import triton
import triton.language as tl

from . import depthwise, runtime
from .cases import Case
from .conv import (
    AXES,
    WANTED,
    centred,
    check,
    checked_space,
    default_for,
    index_type,
    is_dense,
    pictures,
    settings_for,
    space_for,
)
from .lanes import is_first, together, within
from .runtime import INTERPRET, Launch, Memo
from .tune import references
from .tune.declared import SINGLES, TritonKernel, call, float64, of_products
from .tune.space import Config, Space, Tunable
from .windows import strides_of, three

_SUM_BLOCK = 1024
_launches: Memo = Memo()


@triton.jit
def conv_weight_kernel(
    x_ptr, y_ptr, out_ptr,
    channels, outputs, groups, batch, q1, q2, q3, x1, x2, x3, s1, s2, s3, d1, d2, d3, b1, b2, b3, chunk,
    xn, xc, xs1, xs2, xs3, yn, yc, ys1, ys2, ys3, part_stride, oo, oc, os1, os2, os3,
    PRECISION: tl.constexpr, DENSE: tl.constexpr, DIMS: tl.constexpr, INDEX: tl.constexpr,
    X_FIRST: tl.constexpr, Y_FIRST: tl.constexpr,
    K1: tl.constexpr, K2: tl.constexpr, K3: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    TAPS: tl.constexpr = K1 * K2 * K3
    if DENSE:  # a column is a channel at a tap; else a channel, at the tap of this program
        width = channels * TAPS
    else:
        width = channels
    columns = tl.cdiv(width, BLOCK_N)
    rows = tl.cdiv(outputs, BLOCK_M)
    column = tl.program_id(0) % columns * BLOCK_N + tl.arange(0, BLOCK_N)
    rest = tl.program_id(0) // columns
    row = rest % rows * BLOCK_M + tl.arange(0, BLOCK_M)
    rest = rest // rows
    if DENSE:
        c, tap = column // TAPS, column % TAPS
    else:
        c, tap = column, rest % TAPS
        rest = rest // TAPS
    group = rest % groups
    part = (rest // groups).to(tl.int64)
    j3 = tap % K3
    j2 = tap // K3 % K2
    j1 = tap // (K3 * K2)
    f1, f2, f3 = b1 + j1 * d1, b2 + j2 * d2, b3 + j3 * d3
    x_ptr += group.to(tl.int64) * channels * xc
    y_ptr += group.to(tl.int64) * outputs * yc
    x_column = c.to(INDEX) * xc + (f1.to(INDEX) * xs1 + f2.to(INDEX) * xs2 + f3.to(INDEX) * xs3)
    y_row = row.to(INDEX) * yc
    total = batch * q1 * q2 * q3
    begin = (part * chunk).to(tl.int32)
    end = tl.minimum(begin + chunk, total)
    lane = tl.arange(0, BLOCK_K)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for at in range(begin, end, BLOCK_K):
        k = at + lane
        p3 = k % q3
        p2 = k // q3 % q2
        p1 = k // (q3 * q2) % q1
        n = (k // (q3 * q2 * q1)).to(INDEX)
        y_step = n * yn + p1.to(INDEX) * ys1 + p2.to(INDEX) * ys2 + p3.to(INDEX) * ys3
        y_step = together(y_step, Y_FIRST)
        a = tl.load(
            y_ptr + (y_row[:, None] + y_step[None, :]), mask=(row < outputs)[:, None] & (k < end)[None, :], other=0.0
        )
        if DENSE:
            h3 = f3[:, None] + (p3 * s3)[None, :]
            ok = (c < channels)[:, None] & (k < end)[None, :] & within(h3, x3)
            if DIMS > 1:
                h2 = f2[:, None] + (p2 * s2)[None, :]
                ok &= within(h2, x2)
            if DIMS > 2:
                h1 = f1[:, None] + (p1 * s1)[None, :]
                ok &= within(h1, x1)
        else:
            h3 = p3 * s3 + f3
            there = (k < end) & within(h3, x3)
            if DIMS > 1:
                h2 = p2 * s2 + f2
                there &= within(h2, x2)
            if DIMS > 2:
                h1 = p1 * s1 + f1
                there &= within(h1, x1)
            ok = (c < channels)[:, None] & there[None, :]
        x_step = n * xn + (p1 * s1).to(INDEX) * xs1 + (p2 * s2).to(INDEX) * xs2 + (p3 * s3).to(INDEX) * xs3
        x_step = together(x_step, X_FIRST)
        b = tl.load(x_ptr + (x_column[:, None] + x_step[None, :]), mask=ok, other=0.0)  # places lie side by side
        acc = tl.dot(a, tl.trans(b), acc, input_precision=PRECISION)
    to = out_ptr + part * part_stride + ((group * outputs + row).to(tl.int64) * oo)[:, None]
    step = c.to(tl.int64) * oc + j1 * os1 + j2 * os2 + j3 * os3
    tl.store(to + step[None, :], acc.to(out_ptr.dtype.element_ty),
             mask=(row < outputs)[:, None] & (c < channels)[None, :])  # fmt: skip


@triton.jit
def sum_parts_kernel(parts_ptr, out_ptr, parts, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros([BLOCK], tl.float32)
    for _ in range(parts):
        acc += tl.load(parts_ptr + at, mask=at < n, other=0.0)
        parts_ptr += n
    tl.store(out_ptr + at, acc.to(out_ptr.dtype.element_ty), mask=at < n)


def conv_weight(
    x: Any, y: Any, out: Any, stride: Any, padding: Any, dilation: Any, groups: int = 1, config: Config | None = None,
    dense: bool | None = None, parts: int | None = None, input_precision: str = "ieee",
) -> None:  # fmt: skip
    """``out[o, c, k] = sum of y[n, o, p] x[n, c, stride p + dilation k - padding]``: the gradient of the weight.

    `x` is (N, C, sizes...), `y` (N, O, sizes...), `out` (O, C / groups, kernel...) and row-major. The places are
    divided among `parts` sums, which are then added in order.
    """
    settings = (stride, padding, dilation)
    key = ("weight", *runtime.key_of(x, y, out), settings, groups, dense, parts, input_precision,
           config and tuple(config.items()))  # fmt: skip
    found = _launches.get(key)
    if found is None:
        check("conv_weight", x, y, x, 1, x.shape[1], x.shape[1])
        if tuple(out.shape[:2]) != (y.shape[1], x.shape[1] // groups) or not runtime.is_contiguous(out):
            raise ValueError(f"conv_weight: the output must be ({y.shape[1]}, {x.shape[1] // groups}, kernel...) and "
                             f"row-major, got {tuple(out.shape)} strides {tuple(out.strides)}")  # fmt: skip
        if out.shape[1] == 1 and dense is None and (config is None or "BLOCK" in config):
            launch, parts = depthwise.prepare_weight(*settings, x, y, out, parts, config)
        else:
            launch, parts = _prepare_weight(*settings, x, y, out, groups, config, dense, parts, input_precision)
        add = Launch(sum_parts_kernel, (triton.cdiv(out.size, _SUM_BLOCK),), [parts, out.size], {"BLOCK": _SUM_BLOCK})
        found = _launches[key] = (launch, add, parts)
    if not out.size:
        return
    launch, add, parts = found
    if parts == 1:
        launch((x, y, out))
        return
    scratch = runtime.empty((parts, *out.shape), np.dtype(np.float32))
    launch((x, y, scratch))
    add((scratch, out))


def _prepare_weight(
    stride: Any, padding: Any, dilation: Any, x: Any, y: Any, out: Any, groups: int, config: Config | None,
    dense: bool | None, parts: int | None, precision: str,
) -> tuple[Launch, int]:  # fmt: skip
    outputs, channels, taps = out.shape[0] // groups, out.shape[1], math.prod(out.shape[2:])
    places = len(y) * math.prod(y.shape[2:])
    shape = (outputs, channels * taps, places)
    asked = (len(y), math.prod(y.shape[2:]), channels, outputs, taps)
    config = config or runtime.tuned(conv_weight_kernel, space_for(x.dtype), asked, x.dtype)
    settings = settings_for(config, shape, x.dtype, shape)
    warps, stages = settings.pop("num_warps"), settings.pop("num_stages")
    if dense is None:
        dense = is_dense(channels, taps, settings["BLOCK_N"])
    tiles = triton.cdiv(outputs, settings["BLOCK_M"]) * groups
    width = settings["BLOCK_N"]
    tiles *= triton.cdiv(channels * taps, width) if dense else triton.cdiv(channels, width) * taps
    chunk, parts = divided(places, tiles, settings["BLOCK_K"], parts)
    base = [-p for p in three(padding, 0)]
    ints = [
        channels, outputs, groups, len(x), *three(y.shape[2:], 1), *three(x.shape[2:], 1), *three(stride, 1),
        *three(dilation, 1), *base, chunk,
        *strides_of(x), *strides_of(y), out.size, *strides_of(out),
    ]  # fmt: skip
    constants = {
        "PRECISION": precision, "DENSE": dense, "DIMS": x.ndim - 2, "INDEX": index_type(x, y),
        "X_FIRST": is_first(x, y.shape[-1], taps == 1 and stride[-1] == 1 and not any(padding)),
        "Y_FIRST": is_first(y, y.shape[-1], True),
        **dict(zip(("K1", "K2", "K3"), three(out.shape[2:], 1), strict=True)), **settings,
    }  # fmt: skip
    return Launch(conv_weight_kernel, (tiles * parts,), ints, constants, num_warps=warps, num_stages=stages), parts


def divided(places: int, tiles: int, step: int, parts: int | None) -> tuple[int, int]:
    """Return how many places a part sums, and how many parts there are: as many as fill a GPU, each of 8 steps at
    least."""
    if parts is None:
        parts = 1 if INTERPRET else max(1, min(WANTED // max(tiles, 1), places // (8 * step)))
    chunk = triton.cdiv(triton.cdiv(max(places, 1), parts), step) * step
    return chunk, triton.cdiv(max(places, 1), chunk)


def compile_cases(dtype: str) -> list[Case]:
    """Return what the compile check compiles, for one dtype: by taps and with an image's few channels."""
    if dtype == "fp64":
        return []
    pointer, image, one, cases = f"*{dtype}", (56, 56), (1, 1, 1), []
    x_strides = (200704, 3136, 0, 56, 1)
    for name, is_few, channels in [("conv_weight", False, 64), ("conv_weight_few", True, 3)]:
        target = pointer if is_few else "*fp32"
        arguments = (pointer, pointer, target, channels, 128, 1, 32, 1, *image, 1, *image, *one, *one, 0, -1, -1, 4096,
                     *x_strides, *x_strides, 73728, 576, 9, 0, 3, 1)  # fmt: skip
        constants = {"PRECISION": "ieee", "DENSE": is_few, "DIMS": 2, "INDEX": tl.int32, "X_FIRST": True,
                     "Y_FIRST": True, "K1": 1, "K2": 3, "K3": 3}  # fmt: skip
        cases.append(Case(name, conv_weight_kernel, arguments, constants, checked_space(dtype, is_few)))
    if dtype == "fp32":
        first = cases[0]
        only, constants = Space.of([first.space.default]), {**first.constexprs, "PRECISION": "tf32"}
        cases.append(Case("conv_weight_tf32", conv_weight_kernel, first.arguments, constants, only))
    only = Space([Tunable("BLOCK", (_SUM_BLOCK,), default=_SUM_BLOCK)])
    cases.append(Case("conv_sum_parts", sum_parts_kernel, ("*fp32", pointer, 8, 73728), {}, only))
    return cases


def tuning() -> list[TritonKernel]:
    """Return what the tuner is told."""

    def arrays(shape: Any, dtype: str, rng: Any) -> Any:
        (x, weight), (y,) = pictures(shape, dtype, rng)
        if rng is not None:
            y[...] = rng.standard_normal(y.shape, np.float32).astype(y.dtype)
        return [x, y, np.zeros(weight.shape[2:])], [weight]  # of the last input the shape alone is wanted

    def expected(inputs: Any) -> Any:
        x, y, taps = float64(inputs)
        found = (references.convolved_weight(a, b, taps.shape) for a, b in ((x, y), (np.abs(x), np.abs(y))))
        return [(*found, len(y) * math.prod(y.shape[2:]))]

    def sizes(shape: Any) -> Any:
        return shape[3], shape[2] * shape[4], shape[0] * shape[1]

    return [TritonKernel(
        conv_weight_kernel, AXES, space_for, arrays,
        lambda i, o, c: call(conv_weight, *i[:2], *o, *centred(i[2].shape), config=c), expected, of_products(sizes),
        (2, 25, 20, 20, 9), lambda shape, dtype, target: default_for(sizes(shape), dtype), SINGLES, ("taps",),
        limits={"channels": (2, 1 << 31)},
    )]  # fmt: skip
