"""Convolution, and its transpose, as products whose operands are gathered: implicit GEMM.

Algorithm: an output place is a row, an output channel a column, a channel of the window's input at one tap a step of
the sum. No column matrix is written: a tile of rows knows where its windows begin, and each step adds the tap's offset;
what falls on the padding is masked. Steps go by taps, and within a tap by BLOCK_K channels; where a group has few
channels (`DENSE`) channels and taps are numbered as one. The transpose with a stride runs as stride**d phases: output
places that are equal modulo the stride share their taps, so nothing is multiplied by the zeros between the inputs.

Strides are free: channels-first arrays are read as they are, channels-last ones too, the latter in wider loads. One
kernel serves one to three dimensions (a dimension of one place costs nothing: its size is compiled in). Groups run in
the same launch. A group with a single channel to sum over goes to depthwise.py.

Bytes moved: the input once a tile of columns (its taps come from the caches), the weight once a tile of rows, the
output once. Operations: 2 places outputs channels taps.
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
from .lanes import is_first, together, within
from .runtime import BFLOAT16, INTERPRET, Launch, Memo
from .tune import references
from .tune.declared import SINGLES, TritonKernel, call, empty, float64, normal, of_products, plane
from .tune.space import Config, Constraint, Space, Tunable, powers_of_two
from .windows import Walk, forward_walk, strides_of, three, transposed_walk

DTYPES = (np.dtype(np.float16), BFLOAT16, np.dtype(np.float32))
_SHAPES = [
    Constraint("8 warps for tiles above 4096 elements, 4 below",
               lambda c: (c["BLOCK_M"] * c["BLOCK_N"] > 4096) == (c["num_warps"] == 8)),
    Constraint("tiles no wider than long, at most twice as long as wide",
               lambda c: c["BLOCK_N"] <= c["BLOCK_M"] <= 2 * c["BLOCK_N"]),
    Constraint("longer steps only for tiles of 4096 elements and more",
               lambda c: c["BLOCK_K"] <= 32 or c["BLOCK_M"] * c["BLOCK_N"] >= 4096),
]  # fmt: skip
SPACE = Space(
    [powers_of_two("BLOCK_M", 64, 128, default=64), powers_of_two("BLOCK_N", 32, 128, default=64),
     powers_of_two("BLOCK_K", 32, 64, default=32), powers_of_two("num_warps", 4, 8, default=4),
     Tunable("num_stages", (2, 3), default=2)],
    [*_SHAPES, Constraint("a third stage only for tiles of 128 x 128 in short steps",
                          lambda c: c["num_stages"] == 2 or (c["BLOCK_N"], c["BLOCK_K"]) == (128, 32))],
)  # fmt: skip
# float32 multiplied exactly runs on the ordinary units, an accumulator a register: shorter steps.
SPACE_FLOAT32 = Space(
    [powers_of_two("BLOCK_M", 64, 128, default=64), powers_of_two("BLOCK_N", 32, 64, default=64),
     powers_of_two("BLOCK_K", 16, 32, default=16), powers_of_two("num_warps", 4, 8, default=4),
     Tunable("num_stages", (2,), default=2)],
    [*_SHAPES, Constraint("longer steps only for tiles of 64 x 64",
                          lambda c: c["BLOCK_K"] == 16 or c["BLOCK_M"] == c["BLOCK_N"])],
)  # fmt: skip
_NARROW = {"BLOCK_M": 64, "BLOCK_N": 32, "num_warps": 4, "num_stages": 2}
WANTED = 264  # programs that fill the largest GPU of the targets twice; a constant, so that results are one everywhere
_INTERPRETED_TILE = 512
_launches: Memo = Memo()


@triton.jit
def taps_of(r, taps, leap, base, dilation, tap_step):
    """A phase's first tap, its number of taps, and where the first one stands in the input."""
    first = taps + r * 0
    for tap in range(tl.minimum(taps, tap_step)):
        first = tl.where((r + base - dilation * tap) % leap == 0, tap, first)
    return first, tl.cdiv(taps - first, tap_step), (r + base - dilation * first) // leap


@triton.jit
def conv_kernel(
    x_ptr, w_ptr, bias_ptr, out_ptr,
    channels, outputs, groups, batch, u1, u2, u3, q1, q2, q3, x1, x2, x3,
    pace1, pace2, pace3, leap1, leap2, leap3, delta1, delta2, delta3, base1, base2, base3,
    dilation1, dilation2, dilation3, step1, step2, step3,
    xn, xc, xs1, xs2, xs3, wg, wc, wo, ws1, ws2, ws3, on, oc, os1, os2, os3, bias_stride,
    PRECISION: tl.constexpr, HAS_BIAS: tl.constexpr, PHASED: tl.constexpr, DENSE: tl.constexpr, DIMS: tl.constexpr,
    INDEX: tl.constexpr, X_FIRST: tl.constexpr, OUT_FIRST: tl.constexpr,
    K1: tl.constexpr, K2: tl.constexpr, K3: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    columns = tl.cdiv(outputs, BLOCK_N)
    total = batch * u1 * u2 * u3
    rows = tl.cdiv(total, BLOCK_M)
    column = tl.program_id(0) % columns * BLOCK_N + tl.arange(0, BLOCK_N)
    rest = tl.program_id(0) // columns
    row = rest % rows * BLOCK_M + tl.arange(0, BLOCK_M)
    group = rest // rows % groups
    phase = rest // (rows * groups)
    t1, t2, t3 = K1, K2, K3
    first1, first2, first3 = 0, 0, 0
    r1, r2, r3 = 0, 0, 0
    start1, start2, start3 = base1, base2, base3
    if PHASED:
        r3 = phase % leap3
        r2 = phase // leap3 % leap2
        r1 = phase // (leap3 * leap2)
        first1, t1, start1 = taps_of(r1, K1, leap1, base1, dilation1, step1)
        first2, t2, start2 = taps_of(r2, K2, leap2, base2, dilation2, step2)
        first3, t3, start3 = taps_of(r3, K3, leap3, base3, dilation3, step3)
    v3 = row % u3
    v2 = row // u3 % u2
    v1 = row // (u3 * u2) % u1
    n = (row // (u3 * u2 * u1)).to(INDEX)
    to1, to2, to3 = r1 + v1 * leap1, r2 + v2 * leap2, r3 + v3 * leap3
    live = (row < total) & (to1 < q1) & (to2 < q2) & (to3 < q3)
    i1, i2, i3 = start1 + v1 * pace1, start2 + v2 * pace2, start3 + v3 * pace3
    x_ptr += group.to(tl.int64) * channels * xc
    x_row = together(n * xn + i1.to(INDEX) * xs1 + i2.to(INDEX) * xs2 + i3.to(INDEX) * xs3, X_FIRST)
    w_ptr += group.to(tl.int64) * wg + first1 * ws1 + first2 * ws2 + first3 * ws3
    w_column = column.to(INDEX) * wo
    inside = column < outputs
    lane = tl.arange(0, BLOCK_K)
    acc = tl.zeros([BLOCK_N, BLOCK_M], tl.float32)  # an output channel a row, so that places lie side by side
    if DENSE:
        for begin in range(0, channels * t1 * t2 * t3, BLOCK_K):
            k = begin + lane
            c = (k // (t1 * t2 * t3)).to(INDEX)
            j3 = k % t3
            j2 = k // t3 % t2
            j1 = k // (t3 * t2) % t1
            h3 = (j3 * delta3)[:, None] + i3[None, :]
            ok = (c < channels)[:, None] & live[None, :] & within(h3, x3)
            if DIMS > 1:
                h2 = (j2 * delta2)[:, None] + i2[None, :]
                ok &= within(h2, x2)
            if DIMS > 2:
                h1 = (j1 * delta1)[:, None] + i1[None, :]
                ok &= within(h1, x1)
            x_step = c * xc + (j1 * delta1).to(INDEX) * xs1 + (j2 * delta2).to(INDEX) * xs2
            x_step += (j3 * delta3).to(INDEX) * xs3
            x = tl.load(x_ptr + (x_step[:, None] + x_row[None, :]), mask=ok, other=0.0)
            w_step = c * wc + (j1 * step1 * ws1 + j2 * step2 * ws2 + j3 * step3 * ws3)
            w = tl.load(w_ptr + (w_column[:, None] + w_step[None, :]),
                        mask=inside[:, None] & (c < channels)[None, :], other=0.0)  # fmt: skip
            acc = tl.dot(w, x, acc, input_precision=PRECISION)
    else:
        blocks = tl.cdiv(channels, BLOCK_K)
        for i in range(blocks * t1 * t2 * t3):
            c = i % blocks * BLOCK_K + lane
            j3 = i // blocks % t3
            j2 = i // (blocks * t3) % t2
            j1 = i // (blocks * t3 * t2)
            h3 = i3 + j3 * delta3
            ok = live & within(h3, x3)
            if DIMS > 1:
                h2 = i2 + j2 * delta2
                ok &= within(h2, x2)
            if DIMS > 2:
                h1 = i1 + j1 * delta1
                ok &= within(h1, x1)
            x_step = c.to(INDEX) * xc + (j1 * delta1 * xs1 + j2 * delta2 * xs2 + j3 * delta3 * xs3)
            x = tl.load(x_ptr + (x_step[:, None] + x_row[None, :]),
                        mask=(c < channels)[:, None] & ok[None, :], other=0.0)  # fmt: skip
            w_step = c.to(INDEX) * wc + (j1 * step1 * ws1 + j2 * step2 * ws2 + j3 * step3 * ws3)
            w = tl.load(w_ptr + (w_column[:, None] + w_step[None, :]),
                        mask=inside[:, None] & (c < channels)[None, :], other=0.0)  # fmt: skip
            acc = tl.dot(w, x, acc, input_precision=PRECISION)
    channel = group * outputs + column
    if HAS_BIAS:
        acc += tl.load(bias_ptr + channel * bias_stride, mask=inside, other=0.0).to(tl.float32)[:, None]
    at = together(n * on + to1.to(INDEX) * os1 + to2.to(INDEX) * os2 + to3.to(INDEX) * os3, OUT_FIRST)
    tl.store(out_ptr + ((channel.to(INDEX) * oc)[:, None] + at[None, :]), acc.to(out_ptr.dtype.element_ty),
             mask=inside[:, None] & live[None, :])  # fmt: skip


def conv_forward(
    x: Any, weight: Any, out: Any, stride: Any, padding: Any, dilation: Any, groups: int = 1, bias: Any | None = None,
    config: Config | None = None, dense: bool | None = None, input_precision: str = "ieee",
) -> None:  # fmt: skip
    """``out[n, o, p] = bias[o] + sum of x[n, c, stride p + dilation k - padding] weight[o, c, k]``, any strides.

    `x` is (N, C, sizes...), `weight` (O, C / groups, kernel...), `out` (N, O, sizes...). `dense` numbers channels and
    taps as one; left out, it is so where channels are few.
    """
    _run("conv", x, weight, out, (stride, padding, dilation), groups, bias, config, dense, input_precision)


def conv_transpose_forward(
    x: Any, weight: Any, out: Any, stride: Any, padding: Any, dilation: Any, groups: int = 1, bias: Any | None = None,
    config: Config | None = None, dense: bool | None = None, input_precision: str = "ieee",
) -> None:  # fmt: skip
    """The transpose of `conv_forward` as a map of its input, then the bias: the input's gradient, and a layer.

    `x` is (N, C, sizes...), `weight` (C, O / groups, kernel...), `out` (N, O, sizes...), whose sizes tell the output
    padding.
    """
    _run("conv_transpose", x, weight, out, (stride, padding, dilation), groups, bias, config, dense, input_precision)


def _run(
    name: str, x: Any, weight: Any, out: Any, window: tuple[Any, Any, Any], groups: int, bias: Any,
    config: Config | None, dense: bool | None, precision: str,
) -> None:  # fmt: skip
    key = (name, window, groups, *runtime.key_of(x, weight, out), bias is not None and runtime.key_of(bias), dense,
           precision, config and tuple(config.items()))  # fmt: skip
    launch = _launches.get(key)
    if launch is None:
        forward, steps = name == "conv", runtime.element_strides(weight)
        inside, of_sum = (weight.shape[0] // groups, 1) if forward else (weight.shape[1], 0)
        channels = weight.shape[1] if forward else weight.shape[0] // groups
        sums = (channels, steps[of_sum], steps[1 - of_sum], weight.shape[0] // groups * steps[0])
        check(name, x, weight, out, groups, inside, channels)
        if bias is not None and tuple(bias.shape) != (out.shape[1],):
            raise ValueError(f"{name}: expected bias of shape ({out.shape[1]},), got {tuple(bias.shape)}")
        walk = (forward_walk if forward else transposed_walk)(out.shape[2:], *window)
        if channels == 1 and dense is None and (config is None or "BLOCK" in config):
            launch = depthwise.prepare_map(forward, walk, sums, inside, x, weight, out, bias, config)
        else:
            launch = _prepare(walk, sums, inside, x, weight, out, groups, bias, config, dense, precision)
        _launches[key] = launch
    if out.size:
        launch((x, weight, x if bias is None else bias, out))


def check(name: str, x: Any, weight: Any, out: Any, groups: int, outputs: int, channels: int) -> None:
    if any(a.dtype not in DTYPES or a.dtype != x.dtype for a in (x, weight)):
        raise TypeError(f"{name}: expected float16, bfloat16 or float32 arrays of one dtype, got {x.dtype} and "
                        f"{weight.dtype}")  # fmt: skip
    fits = 3 <= x.ndim <= 5 and x.ndim == weight.ndim == out.ndim and x.shape[0] == out.shape[0]
    if not fits or x.shape[1] != channels * groups or out.shape[1] != outputs * groups:
        raise ValueError(
            f"{name}: input {tuple(x.shape)}, weight {tuple(weight.shape)} and output {tuple(out.shape)} with "
            f"groups={groups} do not fit: a group sums over {channels} channels and gives {outputs}"
        )


def _prepare(
    walk: Walk, sums: tuple[int, int, int, int], outputs: int, x: Any, weight: Any, out: Any, groups: int, bias: Any,
    config: Config | None, dense: bool | None, precision: str,
) -> Launch:  # fmt: skip
    """`sums` are the channels that a group sums over, and the weight's strides of channel, output and group."""
    (channels, wc, wo, wg), taps = sums, math.prod(weight.shape[2:])
    places = x.shape[0] * math.prod(walk.places)
    shape = (places * walk.phases, outputs, channels * taps)
    asked = (x.shape[0], math.prod(out.shape[2:]), channels, outputs, taps)
    config = config or runtime.tuned(conv_kernel, space_for(x.dtype), asked, x.dtype)
    settings = settings_for(config, shape, x.dtype, (places, outputs, channels * taps))
    warps, stages = settings.pop("num_warps"), settings.pop("num_stages")
    ints = [
        channels, outputs, groups, x.shape[0], *walk.places, *three(out.shape[2:], 1), *three(x.shape[2:], 1),
        *walk.pace, *walk.leap, *walk.delta, *walk.base, *walk.dilation, *walk.tap_step,
        *strides_of(x), wg, wc, wo, *strides_of(weight)[2:], *strides_of(out),
        0 if bias is None else runtime.element_strides(bias)[0],
    ]  # fmt: skip
    constants = {
        "PRECISION": precision, "HAS_BIAS": bias is not None, "PHASED": walk.phases > 1, "DIMS": x.ndim - 2,
        "INDEX": index_type(x, weight, out),
        "X_FIRST": is_first(x, walk.places[-1], taps == 1 and walk.pace[-1] == 1 and not any(walk.base)),
        "OUT_FIRST": is_first(out, walk.places[-1], walk.phases == 1),
        "DENSE": is_dense(channels, taps, settings["BLOCK_K"]) if dense is None else dense,
        **dict(zip(("K1", "K2", "K3"), three(weight.shape[2:], 1), strict=True)), **settings,
    }  # fmt: skip
    grid = (triton.cdiv(places, settings["BLOCK_M"]) * triton.cdiv(outputs, settings["BLOCK_N"])
            * groups * walk.phases,)  # fmt: skip
    return Launch(conv_kernel, grid, ints, constants, num_warps=warps, num_stages=stages)


def index_type(*arrays: Any) -> Any:
    """Return the type to count elements in: 32 bits take half the registers, where no array reaches further, nor its
    windows on the padding."""
    reach = max(
        sum((n + 64) * abs(s) for n, s in zip(a.shape, runtime.element_strides(a), strict=True)) for a in arrays
    )
    return tl.int32 if reach < 2**31 else tl.int64


def is_dense(channels: int, taps: int, step: int) -> bool:
    """Return whether steps by taps would leave more than a third of their lanes empty."""
    return INTERPRET or (taps > 1 and 3 * channels < 2 * step * triton.cdiv(channels, step))


def space_for(dtype: Any) -> Space:
    """Return what may be tuned for this dtype."""
    return SPACE_FLOAT32 if np.dtype(dtype) == np.float32 else SPACE


def settings_for(config: Config | None, shape: tuple[int, ...], dtype: Any, sizes: tuple[int, int, int]) -> Config:
    if config is not None:
        return space_for(dtype).complete(config)
    settings = default_for(shape, dtype)
    if INTERPRET:  # one tile where it fits: the interpreter's cost is by tile
        for name, size in zip(("BLOCK_M", "BLOCK_N", "BLOCK_K"), sizes, strict=True):
            settings[name] = min(max(triton.next_power_of_2(max(size, 1)), 16), _INTERPRETED_TILE)
    return settings


def default_for(shape: tuple[int, ...], dtype: Any) -> Config:
    """Return what is launched on a GPU where nothing was tuned; `shape` is (rows, columns, terms of a sum)."""
    rows, columns, _ = shape
    settings = space_for(dtype).default
    if columns <= 32:
        settings.update(_NARROW)
    elif dtype != np.float32 and columns > 64 and rows * columns >= 128 * 128 * WANTED // 2:
        settings.update(BLOCK_M=128, BLOCK_N=128, num_warps=8)
    elif dtype != np.float32 and rows * columns >= 128 * 64 * WANTED:
        settings.update(BLOCK_M=128, num_warps=8)
    return settings


def checked_space(dtype: str, is_few: bool) -> Space:
    """Return what the compile check goes through: all, but of the form for few channels what is launched by default."""
    if not is_few:
        return SPACE_FLOAT32 if dtype == "fp32" else SPACE
    kind = np.dtype(np.float32 if dtype == "fp32" else np.float16)
    found = [default_for(shape, kind) for shape in ((64, 64, 27), (64, 32, 27), (1 << 22, 64, 27), (1 << 22, 128, 27))]
    return Space.of([c for i, c in enumerate(found) if c not in found[:i]])


def compile_cases(dtype: str) -> list[Case]:
    """Return what the compile check compiles, for one dtype: a 3 x 3 kernel by taps, the phases of its transpose with a
    stride, and an image's few channels."""
    if dtype == "fp64":
        return []
    pointer = f"*{dtype}"
    image, one = (56, 56), (1, 1, 1)
    x_strides, w_strides = (200704, 3136, 0, 56, 1), (64, 1, 576, 0, 192, 64)
    cases = []
    for name, phased, is_few, channels in [("conv", False, False, 64), ("conv_transpose", True, False, 64),
                                           ("conv_few", False, True, 3)]:  # fmt: skip
        leap = (1, 2, 2) if phased else one
        arguments = (pointer,) * 4 + (channels, 128, 1, 32, 1, *image, 1, *image, 1, *image, *one, *leap, *one,
                     0, -1, -1, *one, *leap, *x_strides, *w_strides, *x_strides, 1)  # fmt: skip
        constants = {"PRECISION": "ieee", "HAS_BIAS": True, "PHASED": phased, "DENSE": is_few, "DIMS": 2,
                     "INDEX": tl.int32, "X_FIRST": True, "OUT_FIRST": True,
                     "K1": 1, "K2": 3, "K3": 3}  # fmt: skip
        cases.append(Case(name, conv_kernel, arguments, constants, checked_space(dtype, is_few)))
    if dtype == "fp32":
        only, first = Space.of([SPACE_FLOAT32.default]), cases[0]
        cases.append(Case("conv_tf32", conv_kernel, first.arguments, {**first.constexprs, "PRECISION": "tf32"}, only))
    return cases


AXES = ("images", "places", "channels", "outputs", "taps")


def pictures(shape: Any, dtype: str, rng: Any) -> Any:
    """For the tuner an input, a weight and the place of an output, in steps of one: AXES as (N, H W, C, O, taps)."""
    images, _, channels, outputs, _ = shape
    sizes, taps = plane(shape[1], shape[4])
    inner = [q + (k % 2 == 0) for q, k in zip(sizes, taps, strict=True)]
    x, weight = normal(rng, (images, channels, *inner), dtype), normal(rng, (outputs, channels, *taps), dtype)
    return [x, weight], [empty((images, outputs, *sizes), dtype)]


def centred(taps: Any) -> Any:
    """Stride, padding and dilation that go with it."""
    return (1, 1), tuple((k - 1) // 2 for k in taps), (1, 1)


def tuning() -> list[TritonKernel]:
    """Return what the tuner is told: groups of their own, which is how a group of many is launched too."""

    def expected(inputs: Any) -> Any:
        x, weight = float64(inputs)
        y = references.convolved(x, weight)
        return [(y, references.convolved(np.abs(x), np.abs(weight)), weight[0].size)]

    def sizes(shape: Any) -> Any:
        return shape[0] * shape[1], shape[3], shape[2] * shape[4]

    return [TritonKernel(
        conv_kernel, AXES, space_for, pictures,
        lambda i, o, c: call(conv_forward, *i, *o, *centred(i[1].shape[2:]), config=c), expected, of_products(sizes),
        (2, 25, 20, 20, 9), lambda shape, dtype, target: default_for(sizes(shape), dtype), SINGLES, ("taps",),
        limits={"channels": (2, 1 << 31)},
    )]  # fmt: skip
