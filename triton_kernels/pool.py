"""Pooling over the last one to three dimensions: the greatest of each window, sums of windows, and their gradients.

Algorithm: a lane owns an output place, whichever direction it goes in. Forward it walks its window; backward it walks
the windows that it is in, and takes a window's gradient where the window's index names it (max) or where its tap is
(sums, and columns added back to an image). So there are no atomics, and the result does not vary. Adaptive windows
begin at ``q n // out``. A NaN is greater than all; padding is not seen at all. Sums are float32 (float64 of float64).

Bytes moved: forward the input once (overlapping windows come from the caches) and the output, for max with 8 bytes of
index an output; backward the same the other way. Operations: one an element of a window. Bound by memory.
Source: Boureau, Ponce, LeCun, A theoretical analysis of feature pooling (2010); the windows are PyTorch's.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator"
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import triton
import triton.language as tl

from . import runtime
from .cases import Case
from .runtime import FLOATING, INTERPRET, Launch, Memo
from .tune import references
from .tune.declared import TritonKernel, call, empty, float64, normal, plane, rounded
from .tune.space import Config, Space, Tunable, powers_of_two
from .windows import strides_of, three

SPACE = Space([powers_of_two("BLOCK", 256, 1024, default=512), Tunable("num_warps", (4,), default=4)])
_INTERPRETED_TILE = 1 << 15
Given = tuple[tuple[int, ...], dict[str, Any]]
_launches: Memo = Memo()


@triton.jit
def place_of(BLOCK: tl.constexpr, q1, q2, q3, second):
    """A lane's number, its three places, and which it is of the first and of the second leading dimension."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    plane = at // (q3 * q2 * q1)
    return (
        at,
        at // (q3 * q2) % q1,
        at // q3 % q2,
        at % q3,
        (plane // second).to(tl.int64),
        (plane % second).to(tl.int64),
    )


@triton.jit
def _first_inside(f, x, d):
    """The first tap of a window that is not on the padding."""
    return tl.minimum(tl.where(f < 0, f + tl.cdiv(-f, d) * d, f), x - 1)


@triton.jit
def _greater(tap, best, where, x_at, f1, f2, f3, e1, e2, e3, x2, x3, d1, d2, d3, xs1, xs2, xs3, live,
             K2: tl.constexpr, K3: tl.constexpr):  # fmt: skip
    """The greatest so far and its place, with one tap seen."""
    h1, h2, h3 = f1 + tap // (K3 * K2) * d1, f2 + tap // K3 % K2 * d2, f3 + tap % K3 * d3
    ok = live & (h1 >= 0) & (h1 < e1) & (h2 >= 0) & (h2 < e2) & (h3 >= 0) & (h3 < e3)
    v = tl.load(x_at + h1.to(tl.int64) * xs1 + h2.to(tl.int64) * xs2 + h3.to(tl.int64) * xs3, mask=ok, other=0.0)
    v = v.to(best.dtype)
    newer = ok & ((v > best) | ((v != v) & (best == best)))
    return tl.where(newer, v, best), tl.where(newer, (h1 * x2 + h2) * x3 + h3, where)


@triton.jit
def max_pool_kernel(
    x_ptr, y_ptr, index_ptr, total, second, q1, q2, q3, x1, x2, x3, s1, s2, s3, p1, p2, p3, d1, d2, d3,
    xa, xb, xs1, xs2, xs3,
    ADAPTIVE: tl.constexpr, COMPUTE: tl.constexpr, K1: tl.constexpr, K2: tl.constexpr, K3: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    at, v1, v2, v3, a, b = place_of(BLOCK, q1, q2, q3, second)
    if ADAPTIVE:
        f1, f2, f3 = v1 * x1 // q1, v2 * x2 // q2, v3 * x3 // q3
        e1, e2, e3 = tl.cdiv((v1 + 1) * x1, q1), tl.cdiv((v2 + 1) * x2, q2), tl.cdiv((v3 + 1) * x3, q3)
    else:
        f1, f2, f3 = v1 * s1 - p1, v2 * s2 - p2, v3 * s3 - p3
        e1, e2, e3 = x1 + v1 * 0, x2 + v2 * 0, x3 + v3 * 0
    x_at = x_ptr + a * xa + b * xb
    live = at < total
    best = tl.full([BLOCK], -float("inf"), COMPUTE)
    where = (_first_inside(f1, x1, d1) * x2 + _first_inside(f2, x2, d2)) * x3 + _first_inside(f3, x3, d3)
    if K1 * K2 * K3 <= 16:
        for tap in tl.static_range(K1 * K2 * K3):
            best, where = _greater(tap, best, where, x_at, f1, f2, f3, e1, e2, e3, x2, x3, d1, d2, d3, xs1, xs2, xs3,
                                   live, K2, K3)  # fmt: skip
    else:
        for tap in range(K1 * K2 * K3):
            best, where = _greater(tap, best, where, x_at, f1, f2, f3, e1, e2, e3, x2, x3, d1, d2, d3, xs1, xs2, xs3,
                                   live, K2, K3)  # fmt: skip
    tl.store(y_ptr + at, best.to(y_ptr.dtype.element_ty), mask=live)
    tl.store(index_ptr + at, where.to(tl.int64), mask=live)


@triton.jit
def max_pool_backward_kernel(
    g_ptr, index_ptr, out_ptr, total, second, x1, x2, x3, q1, q2, q3, s1, s2, s3, p1, p2, p3,
    ga, gb, gs1, gs2, gs3, ia, ib, is1, is2, is3,
    ADAPTIVE: tl.constexpr, COMPUTE: tl.constexpr, W1: tl.constexpr, W2: tl.constexpr, W3: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    at, i1, i2, i3, a, b = place_of(BLOCK, x1, x2, x3, second)
    if ADAPTIVE:
        l1, l2, l3 = ((i1 + 1) * q1 - 1) // x1, ((i2 + 1) * q2 - 1) // x2, ((i3 + 1) * q3 - 1) // x3
    else:
        l1, l2, l3 = (i1 + p1) // s1, (i2 + p2) // s2, (i3 + p3) // s3
    own = (i1 * x2 + i2) * x3 + i3
    acc = tl.zeros([BLOCK], COMPUTE)
    for w in range(W1 * W2 * W3):  # the windows that this place may be in, the last ones first
        v1, v2, v3 = l1 - w // (W3 * W2), l2 - w // W3 % W2, l3 - w % W3
        ok = (at < total) & (v1 >= 0) & (v1 < q1) & (v2 >= 0) & (v2 < q2) & (v3 >= 0) & (v3 < q3)
        v1, v2, v3 = v1.to(tl.int64), v2.to(tl.int64), v3.to(tl.int64)
        index = tl.load(index_ptr + a * ia + b * ib + v1 * is1 + v2 * is2 + v3 * is3, mask=ok, other=-1)
        ok &= index == own
        acc += tl.load(g_ptr + a * ga + b * gb + v1 * gs1 + v2 * gs2 + v3 * gs3, mask=ok, other=0.0).to(COMPUTE)
    tl.store(out_ptr + at, acc.to(out_ptr.dtype.element_ty), mask=at < total)


@triton.jit
def window_sum_kernel(
    x_ptr, y_ptr, total, second, q1, q2, q3, x1, x2, x3, s1, s2, s3, p1, p2, p3, xa, xb, xs1, xs2, xs3,
    COMPUTE: tl.constexpr, K1: tl.constexpr, K2: tl.constexpr, K3: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    at, v1, v2, v3, a, b = place_of(BLOCK, q1, q2, q3, second)
    x_at = x_ptr + a * xa + b * xb
    acc = tl.zeros([BLOCK], COMPUTE)
    for tap in range(K1 * K2 * K3):
        h1, h2, h3 = v1 * s1 - p1 + tap // (K3 * K2), v2 * s2 - p2 + tap // K3 % K2, v3 * s3 - p3 + tap % K3
        ok = (at < total) & (h1 >= 0) & (h1 < x1) & (h2 >= 0) & (h2 < x2) & (h3 >= 0) & (h3 < x3)
        step = h1.to(tl.int64) * xs1 + h2.to(tl.int64) * xs2 + h3.to(tl.int64) * xs3
        acc += tl.load(x_at + step, mask=ok, other=0.0).to(COMPUTE)
    tl.store(y_ptr + at, acc.to(y_ptr.dtype.element_ty), mask=at < total)


@triton.jit
def window_spread_kernel(
    x_ptr, y_ptr, total, second, i1, i2, i3, q1, q2, q3, s1, s2, s3, p1, p2, p3, d1, d2, d3, k1, k2, k3,
    xa, xb, xs1, xs2, xs3, t1, t2, t3,
    COMPUTE: tl.constexpr, W1: tl.constexpr, W2: tl.constexpr, W3: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    at, h1, h2, h3, a, b = place_of(BLOCK, i1, i2, i3, second)
    x_at = x_ptr + a * xa + b * xb
    acc = tl.zeros([BLOCK], COMPUTE)
    for w in range(W1 * W2 * W3):
        v1, v2, v3 = (h1 + p1) // s1 - w // (W3 * W2), (h2 + p2) // s2 - w // W3 % W2, (h3 + p3) // s3 - w % W3
        r1, r2, r3 = h1 + p1 - v1 * s1, h2 + p2 - v2 * s2, h3 + p3 - v3 * s3  # how far into the window
        ok = (at < total) & (v1 >= 0) & (v1 < q1) & (v2 >= 0) & (v2 < q2) & (v3 >= 0) & (v3 < q3)
        ok &= (r1 % d1 == 0) & (r2 % d2 == 0) & (r3 % d3 == 0) & (r1 < k1 * d1) & (r2 < k2 * d2) & (r3 < k3 * d3)
        step = v1.to(tl.int64) * xs1 + v2.to(tl.int64) * xs2 + v3.to(tl.int64) * xs3
        step += (r1 // d1).to(tl.int64) * t1 + (r2 // d2).to(tl.int64) * t2 + (r3 // d3).to(tl.int64) * t3
        acc += tl.load(x_at + step, mask=ok, other=0.0).to(COMPUTE)
    tl.store(y_ptr + at, acc.to(y_ptr.dtype.element_ty), mask=at < total)


@triton.jit
def unfold_kernel(
    x_ptr, y_ptr, total, second, q1, q2, q3, x1, x2, x3, s1, s2, s3, p1, p2, p3, d1, d2, d3, xa, xb, xs1, xs2, xs3,
    K1: tl.constexpr, K2: tl.constexpr, K3: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    TAPS: tl.constexpr = K1 * K2 * K3
    at, v1, v2, v3, a, b = place_of(BLOCK, q1, q2, q3, second * TAPS)
    tap = (b % TAPS).to(tl.int32)
    h1 = v1 * s1 - p1 + tap // (K3 * K2) * d1
    h2 = v2 * s2 - p2 + tap // K3 % K2 * d2
    h3 = v3 * s3 - p3 + tap % K3 * d3
    ok = (at < total) & (h1 >= 0) & (h1 < x1) & (h2 >= 0) & (h2 < x2) & (h3 >= 0) & (h3 < x3)
    step = h1.to(tl.int64) * xs1 + h2.to(tl.int64) * xs2 + h3.to(tl.int64) * xs3
    x = tl.load(x_ptr + a * xa + b // TAPS * xb + step, mask=ok, other=0.0)
    tl.store(y_ptr + at, x, mask=at < total)


def max_pool_forward(x: Any, y: Any, index: Any, window: Any = None, config: Config | None = None) -> None:
    """The greatest of each window of `x`, and its place in the row-major order of the spatial dimensions.

    `x` is (A, B, sizes...) with any strides, `y` and the int64 `index` are (A, B, places...) and row-major. `window` is
    (kernel, stride, padding, dilation), each with an entry a dimension; without it the windows share `x` out evenly.
    """

    def given() -> Given:
        sizes, places = three(x.shape[2:], 1), three(y.shape[2:], 1)
        kernel, stride, padding, dilation = _window(window)
        if window is None:
            kernel = tuple(-(-n // q) + (n % q > 0) if q else 0 for n, q in zip(sizes, places, strict=True))
        return ((*places, *sizes, *stride, *padding, *dilation, *strides_of(x)),
                {"ADAPTIVE": window is None, "COMPUTE": _compute(x), **_named("K", kernel)})  # fmt: skip

    _run(max_pool_kernel, (x, y, index), y, window, given, config)


def max_pool_backward(g: Any, index: Any, out: Any, window: Any = None, config: Config | None = None) -> None:
    """The gradient at max_pool's input from that at its output, `g`, and its `index`, both with any strides."""

    def given() -> Given:
        places, sizes = three(g.shape[2:], 1), three(out.shape[2:], 1)
        kernel, stride, padding, dilation = _window(window)
        if window is None:
            most = [-(-q // n) + (q % n > 0) for n, q in zip(sizes, places, strict=True)]
        else:
            most = _covering(kernel, stride, dilation)
        return ((*sizes, *places, *stride, *padding, *strides_of(g), *strides_of(index)),
                {"ADAPTIVE": window is None, "COMPUTE": _compute(g), **_named("W", most)})  # fmt: skip

    _run(max_pool_backward_kernel, (g, index, out), out, window, given, config)


def window_sum(x: Any, y: Any, kernel: Any, stride: Any, padding: Any, config: Config | None = None) -> None:
    """The sum of each window of `x` (A, B, sizes...), any strides; `y` is (A, B, places...) and row-major."""

    def given() -> Given:
        ints = *three(y.shape[2:], 1), *three(x.shape[2:], 1), *three(stride, 1), *three(padding, 0), *strides_of(x)
        return ints, {"COMPUTE": _compute(x), **_named("K", three(kernel, 1))}

    _run(window_sum_kernel, (x, y), y, (kernel, stride, padding), given, config)


def window_spread(x: Any, y: Any, kernel: Any, stride: Any, padding: Any, config: Config | None = None) -> None:
    """The transpose of `window_sum`: each element of `x` added to all places of its window in `y`."""

    def given() -> Given:
        return _spread(x, y, strides_of(x), x.shape[2:], (0,) * 3, (kernel, stride, padding, (1,) * (y.ndim - 2)))

    _run(window_spread_kernel, (x, y), y, (kernel, stride, padding), given, config)


def fold(columns: Any, y: Any, window: Any, config: Config | None = None) -> None:
    """Columns (A, B, kernel..., places...) added up at the places of their windows in `y` (A, B, sizes...)."""

    def given() -> Given:
        n, steps = y.ndim - 2, runtime.element_strides(columns)
        strides, taps = (*steps[:2], *three(steps[2 + n :], 0)), three(steps[2 : 2 + n], 0)
        return _spread(columns, y, strides, columns.shape[2 + n :], taps, window)

    _run(window_spread_kernel, (columns, y), y, window, given, config)


def unfold(x: Any, columns: Any, window: Any, config: Config | None = None) -> None:
    """Every window of `x` (A, B, sizes...) as a column: (A, B, kernel..., places...), row-major."""

    def given() -> Given:
        kernel, stride, padding, dilation = _window(window)
        places = three(columns.shape[x.ndim :], 1)
        return ((*places, *three(x.shape[2:], 1), *stride, *padding, *dilation, *strides_of(x)),
                _named("K", kernel))  # fmt: skip

    _run(unfold_kernel, (x, columns), columns, window, given, config)


def _spread(x: Any, y: Any, strides: Any, places: Any, taps: Any, window: Any) -> Given:
    kernel, stride, padding, dilation = _window(window)
    ints = *three(y.shape[2:], 1), *three(places, 1), *stride, *padding, *dilation, *kernel, *strides, *taps
    return ints, {"COMPUTE": _compute(x), **_named("W", _covering(kernel, stride, dilation))}


def _window(window: Any) -> tuple[tuple[int, ...], ...]:
    kernel, stride, padding, dilation = window or ((), (), (), ())
    return three(kernel, 1), three(stride, 1), three(padding, 0), three(dilation, 1)


def _covering(kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]) -> list[int]:
    """In how many windows a place can be, a dimension."""
    return [-(-(d * (k - 1) + 1) // s) for k, s, d in zip(kernel, stride, dilation, strict=True)]


def _named(letter: str, values: Sequence[int]) -> dict[str, int]:
    return {f"{letter}{i}": v for i, v in enumerate(values, 1)}


def _compute(x: Any) -> Any:
    return tl.float64 if x.dtype == np.float64 else tl.float32


def _run(
    kernel: Any, arrays: tuple[Any, ...], out: Any, window: Any, given: Callable[[], Given], config: Config | None
) -> None:
    """`given` says, the first time, which integers and constexprs the window and the arrays come to."""
    key = (kernel.fn, window, *runtime.key_of(*arrays), config and tuple(config.items()))
    launch = _launches.get(key)
    if launch is None:
        name = kernel.fn.__name__.removesuffix("_kernel")
        x = arrays[0]
        if x.dtype not in FLOATING or out.dtype != x.dtype or out.size >= 2**31 or not runtime.is_contiguous(out):
            raise TypeError(f"{name}: takes floating-point arrays of one dtype, and a row-major output of fewer than "
                            f"2**31 elements; got {x.dtype} {tuple(x.shape)} -> {out.dtype} {tuple(out.shape)} "
                            f"strides {tuple(out.strides)}")  # fmt: skip
        ints, constants = given()
        taps = math.prod(window[0] if window else [n for name, n in constants.items() if name[0] in "KW"])
        places = math.prod(out.shape[2:]) // (taps if kernel is unfold_kernel else 1)
        config = config or runtime.tuned(kernel, SPACE, (out.shape[0] * out.shape[1], places, taps), x.dtype)
        settings = SPACE.complete(config) if config else default_for((out.size,))
        if INTERPRET and config is None:
            settings["BLOCK"] = min(triton.next_power_of_2(max(out.size, 1)), _INTERPRETED_TILE)
        warps = settings.pop("num_warps")
        launch = _launches[key] = Launch(
            kernel, (triton.cdiv(out.size, settings["BLOCK"]),), (out.size, out.shape[1], *ints),
            {**constants, **settings}, num_warps=warps)  # fmt: skip
    if out.size:
        launch(arrays)


def default_for(shape: tuple[int, ...], dtype: Any = None) -> Config:
    """Return what is launched on a GPU where nothing was tuned: small blocks where there are few places."""
    return {"BLOCK": 512 if math.prod(shape) > 512 * 264 else 256, "num_warps": 4}


def compile_cases(dtype: str) -> list[Case]:
    """Return what the compile check compiles, for one dtype: windows of 3 x 3 at every second place."""
    pointer, compute = f"*{dtype}", tl.float64 if dtype == "fp64" else tl.float32
    only = Space.of([SPACE.default])  # for what differs from another case in its places alone
    small, large, one = (1, 28, 28), (1, 56, 56), (1, 1, 1)
    twice, border = (1, 2, 2), (0, 1, 1)
    near, far = (50176, 784, 0, 28, 1), (200704, 3136, 0, 56, 1)
    taps = {"COMPUTE": compute, "K1": 1, "K2": 3, "K3": 3}
    covers = {"COMPUTE": compute, "W1": 1, "W2": 2, "W3": 2}
    cases = []
    ints: tuple[int, ...]
    for adaptive in (False, True):
        name = "adaptive_max_pool" if adaptive else "max_pool"
        ints = (1605632, 64, *small, *large, *twice, *border, *one, *far)
        constants = {"ADAPTIVE": adaptive, **taps}
        space = only if adaptive else SPACE
        cases.append(Case(name, max_pool_kernel, (pointer, pointer, "*i64", *ints), constants, space))
        ints = (6422528, 64, *large, *small, *twice, *border, *near, *near)
        constants = {"ADAPTIVE": adaptive, **covers}
        cases.append(
            Case(f"{name}_backward", max_pool_backward_kernel, (pointer, "*i64", pointer, *ints), constants, space)
        )
    ints = (1605632, 64, *small, *large, *twice, *border, *far)
    cases.append(Case("window_sum", window_sum_kernel, (pointer, pointer, *ints), taps, SPACE))
    ints = (6422528, 64, *large, *small, *twice, *border, *one, 1, 3, 3, *near, 0, 0, 0)
    cases.append(Case("window_spread", window_spread_kernel, (pointer, pointer, *ints), covers, SPACE))
    ints = (14450688, 64, *small, *large, *twice, *border, *one, *far)
    kernel = {"K1": 1, "K2": 3, "K3": 3}
    cases.append(Case("unfold", unfold_kernel, (pointer, pointer, *ints), kernel, SPACE))
    return cases


def tuning() -> list[TritonKernel]:
    """Return what the tuner is told: windows at every second place. The shape is of the output, as that of a launch."""

    def window(taps: Any) -> Any:
        return taps.shape, (2, 2), tuple((k - 1) // 2 for k in taps.shape), (1, 1)

    def arrays(forward: bool, *kinds: str, columns: bool = False, index: bool = False) -> Any:
        def made(shape: Any, dtype: str, rng: Any) -> Any:
            sizes: Any
            places: Any
            sizes, taps = plane(*shape[1:])
            if forward:
                places, sizes = (
                    sizes,
                    tuple(1 if k == 1 == q else 2 * q - k % 2 for q, k in zip(sizes, taps, strict=True)),
                )
            else:
                places = tuple((n + 2 * ((k - 1) // 2) - k) // 2 + 1 for n, k in zip(sizes, taps, strict=True))
            picture, places = (1, shape[0], *sizes), (1, shape[0], *places)
            # what has a shape alone: the window's and the picture's
            given = [normal(rng, picture if forward else places, dtype), np.zeros(taps), np.zeros(sizes)]
            if index:
                given += [rounded(lambda: best([rng.standard_normal(picture), *given[1:]])[1], rng, places, "int64")]
            out = (*places[:2], *taps, *places[2:]) if columns else places if forward else picture
            return given, [empty(out, kind or dtype) for kind in kinds]

        return made

    def seen(inputs: Any, fill: float = 0.0) -> Any:
        return references.windows(inputs[0].astype(np.float64), inputs[1].shape, 2, fill)

    def best(inputs: Any) -> Any:
        """Return the greatest of each window, and its place."""
        found, (high, wide) = seen(inputs, -np.inf), inputs[1].shape
        i, j = np.divmod(found.argmax(-1), wide)
        row = np.arange(found.shape[-3])[:, None] * 2 - (high - 1) // 2 + i
        return found.max(-1), row * inputs[2].shape[1] + np.arange(found.shape[-2]) * 2 - (wide - 1) // 2 + j

    def greatest(inputs: Any) -> Any:
        top, index = best(inputs)
        return [top, index.astype(np.float64)]

    def back(inputs: Any) -> Any:
        g, _, sizes, index = float64(inputs)
        planes = g.shape[1]
        out, size = np.zeros((2, planes, sizes.size))
        rows = np.arange(planes)[:, None]
        np.add.at(out, (rows, index.reshape(planes, -1)), g.reshape(planes, -1))
        np.add.at(size, (rows, index.reshape(planes, -1)), np.abs(g).reshape(planes, -1))
        return [(*(a.reshape(1, planes, *sizes.shape) for a in (out, size)), 9)]

    def spread(inputs: Any) -> Any:
        x, taps, sizes = float64(inputs)
        every = np.repeat(x[..., None], taps.size, -1)
        return [(*(references.scattered(v, taps.shape, 2, sizes.shape) for v in (every, np.abs(every))), taps.size)]

    def sums(inputs: Any) -> Any:
        found = seen(inputs)
        return [(found.sum(-1), np.abs(found).sum(-1), found.shape[-1])]

    def unfolded(inputs: Any) -> Any:
        columns = np.moveaxis(seen(inputs), -1, 2)
        return [columns.reshape(*columns.shape[:2], *inputs[1].shape, *columns.shape[3:])]

    def declared(kernel: Any, given: Any, reference: Any, launch: Any, passes: float, every: bool = False) -> Any:
        def count(shape: Any) -> Any:
            return shape[0] * shape[1] * (shape[2] if every else 1)

        return TritonKernel(
            kernel, ("planes", "places", "taps"), SPACE, given, launch, reference,
            lambda s, size, c: (1.0 * s[0] * s[1] * s[2], size * passes * count(s)), (3, 121, 9),
            lambda s, dtype, target: default_for((count(s),)), kept=("taps",))  # fmt: skip

    return [
        declared(max_pool_kernel, arrays(True, "", "int64"), greatest,
                 lambda i, o, c: call(max_pool_forward, i[0], *o, window(i[1]), c), 5),
        declared(max_pool_backward_kernel, arrays(False, "", index=True), back,
                 lambda i, o, c: call(max_pool_backward, i[0], i[3], *o, window(i[1]), c), 2),
        declared(window_sum_kernel, arrays(True, ""), sums,
                 lambda i, o, c: call(window_sum, i[0], *o, *window(i[1])[:3], c), 5),
        declared(window_spread_kernel, arrays(False, ""), spread,
                 lambda i, o, c: call(window_spread, i[0], *o, *window(i[1])[:3], c), 1.25),
        declared(unfold_kernel, arrays(True, "", columns=True), unfolded,
                 lambda i, o, c: call(unfold, i[0], *o, window(i[1]), c), 1.5, every=True),
    ]  # fmt: skip
