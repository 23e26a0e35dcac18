"""Convolutions that sum over one channel: depthwise ones, their transposes and their weight's gradient.

Algorithm: nothing is shared between channels, so there is no product to make: a program owns BLOCK places of one
channel (or of neighbouring channels where those lie side by side: CHANNELS), and adds up the taps in registers. The
transpose tests each tap for a whole quotient by the stride. The weight's gradient: a program owns one output channel
and a part of the places; a lane adds up its places for every tap, and the lanes are added at the end. Parts go to
scratch and are added in order by conv.sum_parts_kernel.

Bytes moved: the input and the output once (taps are served by the L1 cache), for the gradient both inputs once.
Operations: 2 outputs places taps. Bound by memory.
Source: Howard et al., MobileNets, arXiv:1704.04861, for what it is good for.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator"
from __future__ import annotations

import math
from typing import Any

import numpy as np
import triton
import triton.language as tl

from . import runtime
from .cases import Case
from .lanes import together
from .runtime import INTERPRET, Launch
from .tune import references
from .tune.declared import SINGLES, TritonKernel, call, empty, float64, normal, plane
from .tune.space import Config, Space, Tunable, powers_of_two
from .windows import Walk, strides_of, three

SPACE = Space([powers_of_two("BLOCK", 256, 512, default=512), Tunable("num_warps", (4,), default=4)])
WEIGHT_SPACE = Space([powers_of_two("BLOCK", 64, 128, default=128), Tunable("num_warps", (4,), default=4)])
_MAX_TAPS = 16  # that a program of the gradient holds
_WANTED = 1056  # programs of the gradient: eight for each processor of the largest GPU of the targets
_INTERPRETED_TILE = 1 << 14


@triton.jit
def _tap(w_at, x_at, tap, acc, ok, inside, i1, i2, i3, pace1, pace2, pace3, d1, d2, d3, x1, x2, x3, xs1, xs2, xs3,
         ws1, ws2, ws3, TRANSPOSED: tl.constexpr, K2: tl.constexpr, K3: tl.constexpr):  # fmt: skip
    """The sum and what one tap adds to it."""
    j1, j2, j3 = tap // (K3 * K2), tap // K3 % K2, tap % K3
    if TRANSPOSED:
        h1, h2, h3 = i1 - j1 * d1, i2 - j2 * d2, i3 - j3 * d3
        here = (h1 >= 0) & (h2 >= 0) & (h3 >= 0) & (h1 % pace1 == 0) & (h2 % pace2 == 0) & (h3 % pace3 == 0)
        h1, h2, h3 = h1 // pace1, h2 // pace2, h3 // pace3
    else:
        h1, h2, h3 = i1 + j1 * d1, i2 + j2 * d2, i3 + j3 * d3
        here = (h1 >= 0) & (h2 >= 0) & (h3 >= 0)
    here &= (h1 < x1) & (h2 < x2) & (h3 < x3)
    step = h1.to(tl.int64) * xs1 + h2.to(tl.int64) * xs2 + h3.to(tl.int64) * xs3
    x = tl.load(x_at + step[:, None], mask=ok & here[:, None], other=0.0)
    w = tl.load(w_at + (j1 * ws1 + j2 * ws2 + j3 * ws3), mask=inside, other=0.0)
    return acc + x.to(tl.float32) * w.to(tl.float32)[None, :]


@triton.jit
def depthwise_kernel(
    x_ptr, w_ptr, bias_ptr, out_ptr,
    outputs, several, q1, q2, q3, x1, x2, x3, pace1, pace2, pace3, d1, d2, d3, b1, b2, b3,
    xn, xc, xs1, xs2, xs3, wc, wo, ws1, ws2, ws3, on, oc, os1, os2, os3, bias_stride,
    HAS_BIAS: tl.constexpr, TRANSPOSED: tl.constexpr, K1: tl.constexpr, K2: tl.constexpr, K3: tl.constexpr,
    CHANNELS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    PLACES: tl.constexpr = BLOCK // CHANNELS
    TAPS: tl.constexpr = K1 * K2 * K3
    total = q1 * q2 * q3
    tiles = tl.cdiv(total, PLACES)
    columns = tl.cdiv(outputs, CHANNELS)
    at = tl.program_id(0) % tiles * PLACES + tl.arange(0, PLACES)
    rest = tl.program_id(0) // tiles
    channel = rest % columns * CHANNELS + tl.arange(0, CHANNELS)
    n = (rest // columns).to(tl.int64)
    to1, to2, to3 = at // (q3 * q2), at // q3 % q2, at % q3
    i1, i2, i3 = to1 * pace1 + b1, to2 * pace2 + b2, to3 * pace3 + b3
    if TRANSPOSED:
        i1, i2, i3 = to1 + b1, to2 + b2, to3 + b3
    x_at = x_ptr + n * xn + ((channel // several).to(tl.int64) * xc)[None, :]
    w_at = w_ptr + (channel // several).to(tl.int64) * wc + (channel % several).to(tl.int64) * wo
    inside = channel < outputs
    ok = (at < total)[:, None] & inside[None, :]
    acc = tl.zeros([PLACES, CHANNELS], tl.float32)
    if TAPS <= 32:
        for tap in tl.static_range(TAPS):
            acc = _tap(w_at, x_at, tap, acc, ok, inside, i1, i2, i3, pace1, pace2, pace3, d1, d2, d3, x1, x2, x3,
                       xs1, xs2, xs3, ws1, ws2, ws3, TRANSPOSED, K2, K3)  # fmt: skip
    else:
        for tap in range(TAPS):
            acc = _tap(w_at, x_at, tap, acc, ok, inside, i1, i2, i3, pace1, pace2, pace3, d1, d2, d3, x1, x2, x3,
                       xs1, xs2, xs3, ws1, ws2, ws3, TRANSPOSED, K2, K3)  # fmt: skip
    if HAS_BIAS:
        acc += tl.load(bias_ptr + channel * bias_stride, mask=inside, other=0.0).to(tl.float32)[None, :]
    to = out_ptr + n * on + to1.to(tl.int64) * os1 + to2.to(tl.int64) * os2 + to3.to(tl.int64) * os3
    tl.store(to[:, None] + (channel.to(tl.int64) * oc)[None, :], acc.to(out_ptr.dtype.element_ty), mask=ok)


@triton.jit
def depthwise_weight_kernel(
    x_ptr, y_ptr, out_ptr,
    outputs, several, batch, q1, q2, q3, x1, x2, x3, s1, s2, s3, d1, d2, d3, b1, b2, b3, chunk,
    xn, xc, xs1, xs2, xs3, yn, yc, ys1, ys2, ys3,
    K1: tl.constexpr, K2: tl.constexpr, K3: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    TAPS: tl.constexpr = K1 * K2 * K3
    channel = (tl.program_id(0) % outputs).to(tl.int64)
    rest = tl.program_id(0) // outputs
    tap = rest % tl.cdiv(TAPS, WIDTH) * WIDTH + tl.arange(0, WIDTH)
    part = (rest // tl.cdiv(TAPS, WIDTH)).to(tl.int64)
    f1, f2, f3 = tap // (K3 * K2) * d1 + b1, tap // K3 % K2 * d2 + b2, tap % K3 * d3 + b3
    x_column = x_ptr + channel // several * xc
    x_column += f1.to(tl.int64) * xs1 + f2.to(tl.int64) * xs2 + f3.to(tl.int64) * xs3
    begin = (part * chunk).to(tl.int32)
    end = tl.minimum(begin + chunk, batch * q1 * q2 * q3)
    lane = tl.arange(0, BLOCK)
    acc = tl.zeros([WIDTH, BLOCK], tl.float32)
    for at in range(begin, end, BLOCK):
        k = at + lane
        p3, p2, p1 = k % q3, k // q3 % q2, k // (q3 * q2) % q1
        n = (k // (q3 * q2 * q1)).to(tl.int64)
        y_step = n * yn + p1.to(tl.int64) * ys1 + p2.to(tl.int64) * ys2 + p3.to(tl.int64) * ys3
        y = tl.load(y_ptr + channel * yc + y_step, mask=k < end, other=0.0).to(tl.float32)
        h1 = f1[:, None] + (p1 * s1)[None, :]
        h2 = f2[:, None] + (p2 * s2)[None, :]
        h3 = f3[:, None] + (p3 * s3)[None, :]
        ok = (tap < TAPS)[:, None] & (k < end)[None, :] & (h1 >= 0) & (h1 < x1)
        ok &= (h2 >= 0) & (h2 < x2) & (h3 >= 0) & (h3 < x3)
        x_step = n * xn + (p1 * s1).to(tl.int64) * xs1 + (p2 * s2).to(tl.int64) * xs2 + (p3 * s3).to(tl.int64) * xs3
        x = tl.load(x_column[:, None] + together(x_step, True)[None, :], mask=ok, other=0.0).to(tl.float32)
        acc += y[None, :] * x
    to = out_ptr + (part * outputs + channel) * TAPS + tap
    tl.store(to, tl.sum(acc, 1).to(out_ptr.dtype.element_ty), mask=tap < TAPS)


def prepare_map(
    forward: bool, walk: Walk, sums: tuple[int, int, int, int], several: int, x: Any, weight: Any, out: Any, bias: Any,
    config: Config | None = None,
) -> Launch:  # fmt: skip
    """Return the launch of (x, weight, bias, out) for groups of one channel with `several` outputs each; the
    arguments are those of `conv._prepare`."""
    _, _, wo, wg = sums
    places, channels = math.prod(out.shape[2:]), out.shape[1]
    side = strides_of(x)[1] == 1 and places > 1 and channels > 1 and not INTERPRET
    asked = (x.shape[0], channels, places, math.prod(weight.shape[2:]))
    config = config or runtime.tuned(depthwise_kernel, SPACE, asked, x.dtype)
    settings = SPACE.complete(config) if config else default_for()
    if INTERPRET and config is None:
        settings["BLOCK"] = min(triton.next_power_of_2(max(places * channels, 1)), _INTERPRETED_TILE)
    block, warps = settings["BLOCK"], settings["num_warps"]
    lanes = INTERPRET and config is None  # one program does for few places
    width = min(triton.next_power_of_2(max(channels, 1)), block) if lanes else 64 if side else 1
    ints = [
        channels, several, *three(out.shape[2:], 1), *three(x.shape[2:], 1), *(walk.pace if forward else walk.leap),
        *walk.dilation, *walk.base, *strides_of(x), wg, wo,
        *strides_of(weight)[2:], *strides_of(out),
        0 if bias is None else runtime.element_strides(bias)[0],
    ]  # fmt: skip
    constants = {
        "HAS_BIAS": bias is not None, "TRANSPOSED": not forward,
        **dict(zip(("K1", "K2", "K3"), three(weight.shape[2:], 1), strict=True)), "CHANNELS": width, "BLOCK": block,
    }  # fmt: skip
    grid = (triton.cdiv(places, block // width) * triton.cdiv(channels, width) * x.shape[0],)
    return Launch(depthwise_kernel, grid, ints, constants, num_warps=warps)


def prepare_weight(
    stride: Any, padding: Any, dilation: Any, x: Any, y: Any, out: Any, parts: int | None,
    config: Config | None = None,
) -> tuple[Launch, int]:  # fmt: skip
    """Return the launch of (x, y, out), and among how many parts it divides the places."""
    outputs, taps = out.shape[0], math.prod(out.shape[2:])
    places = len(y) * math.prod(y.shape[2:])
    asked = (len(y), outputs, math.prod(y.shape[2:]), taps)
    config = config or runtime.tuned(depthwise_weight_kernel, WEIGHT_SPACE, asked, x.dtype)
    settings = WEIGHT_SPACE.complete(config)
    if INTERPRET and config is None:
        settings["BLOCK"] = min(triton.next_power_of_2(max(places, 1)), _INTERPRETED_TILE)
    block, width = settings["BLOCK"], min(triton.next_power_of_2(max(taps, 1)), _MAX_TAPS)
    tiles = outputs * triton.cdiv(taps, width)
    if parts is None:
        parts = 1 if INTERPRET else max(1, min(_WANTED // max(tiles, 1), places // (8 * block)))
    chunk = triton.cdiv(triton.cdiv(max(places, 1), parts), block) * block
    parts = triton.cdiv(max(places, 1), chunk)
    ints = [
        outputs, outputs // max(x.shape[1], 1), len(x), *three(y.shape[2:], 1), *three(x.shape[2:], 1),
        *three(stride, 1), *three(dilation, 1), *(-p for p in three(padding, 0)), chunk,
        *strides_of(x), *strides_of(y),
    ]  # fmt: skip
    kernel = dict(zip(("K1", "K2", "K3"), three(out.shape[2:], 1), strict=True))
    constants = {**kernel, "WIDTH": width, "BLOCK": block}
    return Launch(depthwise_weight_kernel, (tiles * parts,), ints, constants, num_warps=settings["num_warps"]), parts


def default_for(shape: tuple[int, ...] = (), dtype: Any = None) -> Config:
    """Return what is launched on a GPU where nothing was tuned."""
    return SPACE.default


def compile_cases(dtype: str) -> list[Case]:
    """Return what the compile check compiles, for one dtype."""
    if dtype == "fp64":
        return []
    pointer, one, image = f"*{dtype}", (1, 1, 1), (1, 56, 56)
    first, last = (200704, 3136, 0, 56, 1), (200704, 1, 0, 3584, 64)
    kernel = {"K1": 1, "K2": 3, "K3": 3}
    cases = []
    arguments: tuple[Any, ...]
    for name, transposed, width, strides in [("depthwise", False, 1, first), ("depthwise_last", False, 64, last),
                                             ("depthwise_transpose", True, 1, first)]:  # fmt: skip
        pace = (1, 2, 2) if transposed else one
        arguments = (pointer,) * 4 + (64, 1, *image, *image, *pace, *one, 0, -1, -1, *strides, 9, 9, 0, 3, 1, *strides,
                                      1)  # fmt: skip
        constants = {"HAS_BIAS": True, "TRANSPOSED": transposed, "CHANNELS": width, **kernel}
        cases.append(Case(name, depthwise_kernel, arguments, constants, SPACE))
    arguments = (pointer, pointer, "*fp32", 64, 1, 32, *image, *image, *one, *one, 0, -1, -1, 4096, *first, *first)
    cases.append(Case("depthwise_weight", depthwise_weight_kernel, arguments, {**kernel, "WIDTH": 16}, WEIGHT_SPACE))
    return cases


def tuning() -> list[TritonKernel]:
    """Return what the tuner is told: steps of one, and as many channels in as out."""
    from . import conv, conv_weight  # which launch what is here

    def pictures(shape: Any, dtype: str, rng: Any) -> Any:
        images, channels = shape[:2]
        sizes, taps = plane(*shape[2:])
        inner = [q + (k % 2 == 0) for q, k in zip(sizes, taps, strict=True)]
        return [normal(rng, (images, channels, *inner), dtype), normal(rng, (channels, 1, *taps), dtype)], [
            empty((images, channels, *sizes), dtype)
        ]

    def of_weight(shape: Any, dtype: str, rng: Any) -> Any:
        (x, weight), (y,) = pictures(shape, dtype, rng)
        return [x, normal(rng, y.shape, dtype), np.zeros(weight.shape[2:])], [weight]

    def expected(inputs: Any) -> Any:
        x, weight = float64(inputs)
        taps = weight.reshape(1, len(weight), 1, 1, -1)
        seen = references.windows(x, weight.shape[2:], 1, 0.0)
        return [((seen * taps).sum(-1), np.abs(seen * taps).sum(-1), taps.shape[-1])]

    def gradient(inputs: Any) -> Any:
        x, y, taps = float64(inputs)
        seen = references.windows(x, taps.shape, 1, 0.0)
        found = (np.einsum("nchwt,nchw->ct", a, b) for a, b in ((seen, y), (np.abs(seen), np.abs(y))))
        return [(*(f.reshape(-1, 1, *taps.shape) for f in found), len(y) * y[0, 0].size)]

    def work(s: Any, size: int, c: Config) -> Any:
        return 2.0 * math.prod(s), 2.0 * size * s[0] * s[1] * s[2]

    common: Any = {"axes": ("images", "channels", "places", "taps"), "small": (2, 3, 49, 9), "dtypes": SINGLES,
                   "kept": ("taps",), "work": work}  # fmt: skip

    def forward(i: Any, o: Any, c: Any) -> None:
        call(conv.conv_forward, *i, *o, *conv.centred(i[1].shape[2:]), i[1].shape[0], config=c)

    def backward(i: Any, o: Any, c: Any) -> None:
        call(conv_weight.conv_weight, *i[:2], *o, *conv.centred(i[2].shape), i[0].shape[1], c)

    return [
        TritonKernel(depthwise_kernel, space=SPACE, arrays=pictures, reference=expected, launch=forward, **common),
        TritonKernel(depthwise_weight_kernel, space=WEIGHT_SPACE, arrays=of_weight, reference=gradient,
                     launch=backward, **common),
    ]  # fmt: skip
