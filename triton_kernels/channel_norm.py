"""Batch norm: channels in the middle of images x channels x places, forward, backward and evaluation.

Algorithm: a program owns BLOCK_C channels and walks tiles of BLOCK_N images by BLOCK_S places. Each lane keeps a mean
and a sum of squared differences (Welford), joined by Chan's formula, so that a large mean costs no digits. Where
tiles are few, or the channels alone fill a GPU, the same program walks its tiles again and writes; else they are split
among programs, a second launch joins their shares in order, and a third one writes. Backward likewise: the sums of g
and of g z (z the standardised x), the gradients of bias and weight, then dx = weight rstd (g - mean(g) - z mean(g z)).
No atomics: the bits depend on shapes and config alone. Half types are computed in float32.

Bytes moved: forward 3 n elements, in evaluation 2 n, backward 5 n. Operations: 10 an element forward, 12 backward.
Sources: Ioffe and Szegedy, arXiv 1502.03167; Chan, Golub and LeVeque, Updating formulae (1979).
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator"
from __future__ import annotations

from typing import Any

import numpy as np
import triton
import triton.language as tl

from . import runtime, scalar
from .cases import Case
from .runtime import FLOATING, INTERPRET, Launch, Memo
from .tune.declared import TritonKernel, call, each, empty, float64, normal, rounded, wide
from .tune.space import Config, Space

_PLACES = (1, 4, 16, 64, 256, 1024)


def _tile(spatial: int, warps: int) -> Config:
    """Neighbouring places first, channels until 64 elements lie side by side, then images."""
    size, places = 256 * warps, next((n for n in _PLACES if n >= spatial), 1024)
    channels = max(64 // places, 1)
    return {"BLOCK_N": size // (places * channels), "BLOCK_C": channels, "BLOCK_S": places, "num_warps": warps}


SPACE = Space.of([_tile(n, 4) for n in reversed(_PLACES)] + [_tile(n, 8) for n in (1024, 64)])
JOIN_SPACE = Space.of([{"BLOCK_C": 32, "BLOCK_P": 32, "num_warps": 4}])
_FILL_PROGRAMS = 1056  # eight for each of the 132 multiprocessors of an H100: a program has few loads under way
_FEW_TILES = 16  # walked twice by one program in less time than two more launches take
_INTERPRETED_TILE = 1 << 16
_launches: Memo = Memo()


@triton.jit
def _at(tile, blocks, channel, images, channels, spatial, BLOCK_N: tl.constexpr, BLOCK_S: tl.constexpr):
    """Offsets and mask of a tile; and the images that it has."""
    image = (tile // blocks).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    place = (tile % blocks) * BLOCK_S + tl.arange(0, BLOCK_S)
    row = image[:, None, None] * channels + channel[None, :, None]
    mask = (image < images)[:, None, None] & (channel < channels)[None, :, None] & (place < spatial)[None, None, :]
    return row * spatial + place[None, None, :], mask, image


@triton.jit
def _of_channels(value):
    """A sum over images and places."""
    return tl.sum(tl.sum(value, 2), 0)


@triton.jit
def channel_kernel(
    x_ptr, weight_ptr, bias_ptr, y_ptr, mean_ptr, var_ptr, eps: tl.float64,
    images, channels, spatial, blocks, tiles, stretch,
    STATISTICS: tl.constexpr, APPLY: tl.constexpr, WEIGHT: tl.constexpr, BIAS: tl.constexpr, COMPUTE: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_C: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    """With STATISTICS the mean and variance of the program's tiles; with APPLY also the result.

    Where STATISTICS stands alone, count, mean and sum of squares go to y_ptr, the shares' scratch.
    """
    channel = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    real = channel < channels
    first = tl.program_id(1) * stretch
    last = tl.minimum(first + stretch, tiles)
    if STATISTICS:
        means = tl.zeros([BLOCK_N, BLOCK_C, BLOCK_S], COMPUTE)
        spreads = tl.zeros([BLOCK_N, BLOCK_C, BLOCK_S], COMPUTE)
        counts = tl.zeros([BLOCK_N, BLOCK_C, BLOCK_S], COMPUTE)
        for tile in range(first, last):
            at, mask, _ = _at(tile, blocks, channel, images, channels, spatial, BLOCK_N, BLOCK_S)
            x = tl.load(x_ptr + at, mask=mask, other=0.0).to(COMPUTE)
            counts += mask.to(COMPUTE)
            delta = tl.where(mask, x - means, 0.0)
            means += delta / tl.maximum(counts, 1.0)
            spreads += tl.where(mask, delta * (x - means), 0.0)
        count = _of_channels(counts)
        mean = scalar.div(_of_channels(counts * means), tl.maximum(count, 1.0))
        off = means - mean[None, :, None]
        spread = _of_channels(spreads + counts * off * off)
        var = scalar.div(spread, tl.maximum(count, 1.0))
        if APPLY:
            tl.store(mean_ptr + channel, mean, mask=real)
            tl.store(var_ptr + channel, var, mask=real)
        else:
            share = tl.program_id(1) * channels + channel
            size = tl.num_programs(1) * channels
            tl.store(y_ptr + share, count, mask=real)
            tl.store(y_ptr + size + share, mean, mask=real)
            tl.store(y_ptr + 2 * size + share, spread, mask=real)
    else:
        mean = tl.load(mean_ptr + channel, mask=real, other=0.0).to(COMPUTE)
        var = tl.load(var_ptr + channel, mask=real, other=1.0).to(COMPUTE)
    if APPLY:
        rstd = scalar.rsqrt(var + eps.to(COMPUTE))
        for tile in range(first, last):
            at, mask, _ = _at(tile, blocks, channel, images, channels, spatial, BLOCK_N, BLOCK_S)
            x = tl.load(x_ptr + at, mask=mask, other=0.0).to(COMPUTE)
            y = (x - mean[None, :, None]) * rstd[None, :, None]
            if WEIGHT:
                y *= tl.load(weight_ptr + channel, mask=real, other=0.0).to(COMPUTE)[None, :, None]
            if BIAS:
                y += tl.load(bias_ptr + channel, mask=real, other=0.0).to(COMPUTE)[None, :, None]
            tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def channel_join_kernel(
    share_ptr, mean_ptr, var_ptr, channels, shares,
    COMPUTE: tl.constexpr, BLOCK_C: tl.constexpr, BLOCK_P: tl.constexpr,
):  # fmt: skip
    """Mean and variance of each channel from those of its shares."""
    channel = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    size = shares * channels
    counts = tl.zeros([BLOCK_P, BLOCK_C], COMPUTE)
    sums = tl.zeros([BLOCK_P, BLOCK_C], COMPUTE)
    for begin in range(0, shares, BLOCK_P):
        share = begin + tl.arange(0, BLOCK_P)
        mask = (share < shares)[:, None] & (channel < channels)[None, :]
        at = share_ptr + share[:, None] * channels + channel[None, :]
        n = tl.load(at, mask=mask, other=0.0)
        counts += n
        sums += n * tl.load(at + size, mask=mask, other=0.0)
    count = tl.maximum(tl.sum(counts, 0), 1.0)
    mean = scalar.div(tl.sum(sums, 0), count)
    spreads = tl.zeros([BLOCK_P, BLOCK_C], COMPUTE)
    for begin in range(0, shares, BLOCK_P):
        share = begin + tl.arange(0, BLOCK_P)
        mask = (share < shares)[:, None] & (channel < channels)[None, :]
        at = share_ptr + share[:, None] * channels + channel[None, :]
        off = tl.where(mask, tl.load(at + size, mask=mask, other=0.0) - mean[None, :], 0.0)
        spreads += tl.load(at + 2 * size, mask=mask, other=0.0) + tl.load(at, mask=mask, other=0.0) * off * off
    tl.store(mean_ptr + channel, mean, mask=channel < channels)
    tl.store(var_ptr + channel, scalar.div(tl.sum(spreads, 0), count), mask=channel < channels)


@triton.jit
def channel_backward_kernel(
    g_ptr, x_ptr, weight_ptr, mean_ptr, var_ptr, sums_ptr, g_mean_ptr, g_var_ptr, out_ptr, weight_grad_ptr,
    bias_grad_ptr, eps: tl.float64, count: tl.float64,
    images, channels, spatial, blocks, tiles, stretch, groups,
    SUMS: tl.constexpr, APPLY: tl.constexpr, TRAINED: tl.constexpr, WEIGHT: tl.constexpr, GROUPED: tl.constexpr,
    COMPUTE: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_C: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    """With SUMS those of g and g z over the program's tiles, for the gradients of the parameters; with APPLY also dx.

    GROUPED: `mean_ptr` has one for each image and group of channels, `var_ptr` the rstd. Where one of SUMS and APPLY
    stands alone, the sums go to sums_ptr or come from there. g_mean_ptr, g_var_ptr: the gradients at mean and variance.
    """
    channel = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    real = channel < channels
    first = tl.program_id(1) * stretch
    last = tl.minimum(first + stretch, tiles)
    if not GROUPED:
        mean = tl.load(mean_ptr + channel, mask=real, other=0.0).to(COMPUTE)[None, :, None]
        rstd = scalar.rsqrt(tl.load(var_ptr + channel, mask=real, other=1.0).to(COMPUTE) + eps.to(COMPUTE))[
            None, :, None
        ]
    size = tl.num_programs(1) * channels
    if SUMS:
        alone = tl.zeros([BLOCK_N, BLOCK_C, BLOCK_S], COMPUTE)
        with_z = tl.zeros([BLOCK_N, BLOCK_C, BLOCK_S], COMPUTE)
        for tile in range(first, last):
            at, mask, image = _at(tile, blocks, channel, images, channels, spatial, BLOCK_N, BLOCK_S)
            if GROUPED:
                of = image[:, None] * groups + (channel // (channels // groups))[None, :]
                inside = (image < images)[:, None] & real[None, :]
                mean = tl.load(mean_ptr + of, mask=inside, other=0.0)[:, :, None]
                rstd = tl.load(var_ptr + of, mask=inside, other=0.0)[:, :, None]
            g = tl.load(g_ptr + at, mask=mask, other=0.0).to(COMPUTE)
            alone += g
            with_z += g * ((tl.load(x_ptr + at, mask=mask, other=0.0).to(COMPUTE) - mean) * rstd)
        sum_alone = _of_channels(alone)
        sum_with_z = _of_channels(with_z)
        if APPLY:
            tl.store(weight_grad_ptr + channel, sum_with_z.to(weight_grad_ptr.dtype.element_ty), mask=real)
            tl.store(bias_grad_ptr + channel, sum_alone.to(bias_grad_ptr.dtype.element_ty), mask=real)
        else:
            share = tl.program_id(1) * channels + channel
            tl.store(sums_ptr + share, sum_with_z, mask=real)
            tl.store(sums_ptr + size + share, sum_alone, mask=real)
    elif TRAINED:
        sum_with_z = tl.load(sums_ptr + channel, mask=real, other=0.0)
        sum_alone = tl.load(sums_ptr + channels + channel, mask=real, other=0.0)
    if APPLY:
        scale = rstd
        if WEIGHT:
            scale = rstd * tl.load(weight_ptr + channel, mask=real, other=0.0).to(COMPUTE)[None, :, None]
        if TRAINED:
            n = count.to(COMPUTE)
            of_one = scalar.div(sum_alone, n)[None, :, None]
            of_z = scalar.div(sum_with_z, n)[None, :, None]
            more = scalar.div(tl.load(g_mean_ptr + channel, mask=real, other=0.0).to(COMPUTE), n)[None, :, None]
            slope = scalar.div(tl.load(g_var_ptr + channel, mask=real, other=0.0).to(COMPUTE) * 2.0, n)[None, :, None]
        for tile in range(first, last):
            at, mask, _ = _at(tile, blocks, channel, images, channels, spatial, BLOCK_N, BLOCK_S)
            dx = tl.load(g_ptr + at, mask=mask, other=0.0).to(COMPUTE)
            if TRAINED:
                off = tl.load(x_ptr + at, mask=mask, other=0.0).to(COMPUTE) - mean
                dx = scale * (dx - of_one - (off * rstd) * of_z) + (more + off * slope)
            else:
                dx = scale * dx
            tl.store(out_ptr + at, dx.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def channel_sums_kernel(
    share_ptr, sums_ptr, weight_grad_ptr, bias_grad_ptr, channels, shares,
    COMPUTE: tl.constexpr, BLOCK_C: tl.constexpr, BLOCK_P: tl.constexpr,
):  # fmt: skip
    """The sums of all shares: the gradients of weight (program_id(1) is 0) and bias, and in full precision for dx."""
    channel = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    which = tl.program_id(1)
    total = tl.zeros([BLOCK_P, BLOCK_C], COMPUTE)
    for begin in range(0, shares, BLOCK_P):
        share = begin + tl.arange(0, BLOCK_P)
        mask = (share < shares)[:, None] & (channel < channels)[None, :]
        total += tl.load(
            share_ptr + (which * shares + share)[:, None] * channels + channel[None, :], mask=mask, other=0.0
        )
    result = tl.sum(total, 0)
    tl.store(sums_ptr + which * channels + channel, result, mask=channel < channels)
    if which == 0:
        tl.store(weight_grad_ptr + channel, result.to(weight_grad_ptr.dtype.element_ty), mask=channel < channels)
    else:
        tl.store(bias_grad_ptr + channel, result.to(bias_grad_ptr.dtype.element_ty), mask=channel < channels)


def batch_forward(x: Any, weight: Any, bias: Any, y: Any, mean: Any, var: Any, eps: float,
                  config: Config | None = None, shares: int | None = None) -> None:  # fmt: skip
    """``y = (x - mean) / sqrt(var + eps) * weight + bias`` by channel; `mean` and `var` are written.

    x is contiguous, (images, channels, places). `shares`: among how many programs a channel is split.
    """
    _run("forward", (x, weight, bias, y, mean, var), (float(eps),), config, shares)


def batch_apply(x: Any, weight: Any, bias: Any, y: Any, mean: Any, var: Any, eps: float,
                config: Config | None = None) -> None:  # fmt: skip
    """As `batch_forward` with a mean and a variance that are there already."""
    _run("apply", (x, weight, bias, y, mean, var), (float(eps),), config, None)


def batch_backward(g: Any, x: Any, weight: Any, mean: Any, var: Any, g_mean: Any, g_var: Any, out: Any,
                   weight_grad: Any, bias_grad: Any, eps: float, trained: bool = True, config: Config | None = None,
                   shares: int | None = None) -> None:  # fmt: skip
    """The gradients of `batch_forward` (`trained`), also for those at mean and variance; or of `batch_apply`."""
    n = float(x.shape[0] * x.shape[2])
    name = "backward" if trained else "apply_backward"
    arrays = (g, x, weight, mean, var, g_mean, g_var, out, weight_grad, bias_grad)
    _run(name, arrays, (float(eps), n), config, shares)


def channel_gradients(g: Any, x: Any, mean: Any, rstd: Any, weight_grad: Any, bias_grad: Any, groups: int,
                      config: Config | None = None, shares: int | None = None) -> None:  # fmt: skip
    """The gradients of a weight and bias a channel, where `mean` and `rstd` are one an image and group of channels."""
    arrays = (g, x, None, mean, rstd, None, None, g, weight_grad, bias_grad)
    _run("groups", arrays, (0.0, 1.0), config, shares, groups)


def _run(name: str, arrays: tuple[Any, ...], floats: tuple[float, ...], config: Config | None, shares: int | None,
         groups: int = 1) -> None:  # fmt: skip
    x = arrays[1] if len(arrays) > 6 else arrays[0]
    key = (name, shares, groups, config and tuple(config.items()), tuple(a is None for a in arrays),
           *runtime.key_of(*(a for a in arrays if a is not None)))  # fmt: skip
    run = _launches.get(key)
    if run is None:
        _check(name, x, arrays, groups)
        prepare = _prepare_forward if len(arrays) == 6 else _prepare_backward
        run = _launches[key] = prepare(name, x, arrays, config, shares, groups)
    run(arrays, floats)


def _check(name: str, x: Any, arrays: tuple[Any, ...], groups: int) -> None:
    given = [a for a in arrays if a is not None]
    if any(a.dtype not in FLOATING for a in given):
        raise TypeError(f"batch norm {name}: takes floating-point arrays, got {', '.join(str(a.dtype) for a in given)}")
    lengths = {x.size, x.shape[1] if x.ndim == 3 else 0, x.shape[0] * groups}
    if x.ndim != 3 or any(a.size not in lengths for a in given) or x.size == 0:
        raise ValueError(f"batch norm {name}: takes images x channels x places and an element a channel, got shapes "
                         f"{', '.join(str(tuple(a.shape)) for a in given)}")  # fmt: skip
    if not all(runtime.is_contiguous(a) for a in given):
        raise ValueError(f"batch norm {name}: the arrays must be contiguous. Remedy: copy what is not first.")


def _plan(kernel: Any, x: Any, config: Config | None, shares: int | None) -> tuple[Config, list[int], tuple[int, int]]:
    """Settings, the kernel's integers and the grid."""
    images, channels, spatial = x.shape
    settings = settings_for(x.shape, config or runtime.tuned(kernel, SPACE, x.shape, x.dtype))
    blocks = triton.cdiv(spatial, settings["BLOCK_S"])
    tiles = triton.cdiv(images, settings["BLOCK_N"]) * blocks
    programs = triton.cdiv(channels, settings["BLOCK_C"])
    whole = INTERPRET or tiles <= _FEW_TILES or 2 * programs >= _FILL_PROGRAMS
    wanted = shares or (1 if whole else triton.cdiv(_FILL_PROGRAMS, programs))
    stretch = triton.cdiv(tiles, min(wanted, triton.cdiv(tiles, 2) if shares is None else tiles))
    return settings, [images, channels, spatial, blocks, tiles, stretch], (programs, triton.cdiv(tiles, stretch))


def _types(x: Any) -> tuple[Any, Any]:
    wide = x.dtype == np.float64
    return (tl.float64 if wide else tl.float32), np.dtype(np.float64 if wide else np.float32)


def _join_settings(channels: int, shares: int) -> tuple[Config, int]:
    settings = JOIN_SPACE.default
    if INTERPRET:
        settings |= {"BLOCK_C": triton.next_power_of_2(channels), "BLOCK_P": min(triton.next_power_of_2(shares), 16)}
    return settings, settings.pop("num_warps")


def _prepare_forward(name: str, x: Any, arrays: tuple[Any, ...], config: Config | None, shares: int | None,
                     groups: int) -> Any:  # fmt: skip
    compute, scratch_type = _types(x)
    settings, ints, grid = _plan(channel_kernel, x, config, shares if name == "forward" else 1)
    constants = {"WEIGHT": arrays[1] is not None, "BIAS": arrays[2] is not None, "COMPUTE": compute, **settings}
    warps = constants.pop("num_warps")

    def launch(statistics: bool, apply: bool, grid: tuple[int, int], stretch: int) -> Launch:
        kind = {"STATISTICS": statistics, "APPLY": apply, **constants}
        return Launch(channel_kernel, grid, [*ints[:-1], stretch], kind, num_warps=warps)

    spread = (grid[0], _pieces(ints[4]))
    write = launch(False, True, spread, triton.cdiv(ints[4], spread[1]))
    if name == "apply":
        return lambda arrays, floats: write(_held(arrays), floats)
    if grid[1] == 1:
        whole = launch(True, True, grid, ints[-1])
        return lambda arrays, floats: whole(_held(arrays), floats)
    first = launch(True, False, grid, ints[-1])
    side, side_warps = _join_settings(x.shape[1], grid[1])
    join = Launch(channel_join_kernel, (triton.cdiv(x.shape[1], side["BLOCK_C"]),), [x.shape[1], grid[1]],
                  {"COMPUTE": compute, **side}, num_warps=side_warps)  # fmt: skip
    shape = (3, grid[1], x.shape[1])

    def run(arrays: tuple[Any, ...], floats: tuple[float, ...]) -> None:
        scratch, (x, _, _, _, mean, var) = runtime.empty(shape, scratch_type), arrays
        first((x, x, x, scratch, mean, var), floats)
        join((scratch, mean, var))
        write(_held(arrays), floats)

    return run


def _held(arrays: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return what was left out is passed as something of the right type that is not read."""
    x = arrays[1] if len(arrays) > 6 else arrays[0]
    return tuple([x if a is None else a for a in arrays])


def _pieces(tiles: int) -> int:
    """Among how many programs the tiles of an elementwise pass are split."""
    return 1 if INTERPRET else min(triton.cdiv(tiles, 2), 65535)


def _prepare_backward(name: str, x: Any, arrays: tuple[Any, ...], config: Config | None, shares: int | None,
                      groups: int) -> Any:  # fmt: skip
    compute, scratch_type = _types(x)
    settings, ints, grid = _plan(channel_backward_kernel, x, config, shares)
    trained, grouped, channels = name == "backward", name == "groups", x.shape[1]
    constants = {"TRAINED": trained, "GROUPED": grouped, "COMPUTE": compute, "WEIGHT": arrays[2] is not None}
    constants |= settings
    warps = constants.pop("num_warps")

    def launch(sums: bool, apply: bool, grid: tuple[int, int], stretch: int) -> Launch:
        kind = {"SUMS": sums, "APPLY": apply, **constants}
        return Launch(channel_backward_kernel, grid, [*ints[:-1], stretch, groups], kind, num_warps=warps)

    summed = trained or arrays[-1] is not None or arrays[-2] is not None
    whole = None if grouped or grid[1] > 1 or not summed else launch(True, True, grid, ints[-1])
    first = launch(True, False, grid, ints[-1])
    side, side_warps = _join_settings(channels, grid[1])
    join = Launch(channel_sums_kernel, (triton.cdiv(channels, side["BLOCK_C"]), 2), [channels, grid[1]],
                  {"COMPUTE": compute, **side}, num_warps=side_warps)  # fmt: skip
    spread = (grid[0], _pieces(ints[4]))
    write = None if grouped else launch(False, True, spread, triton.cdiv(ints[4], spread[1]))
    shape = (2, grid[1], channels)

    def run(arrays: tuple[Any, ...], floats: tuple[float, ...]) -> None:
        g, x, weight, mean, var, g_mean, g_var, out, *_ = _held(arrays)
        totals = runtime.empty((2, channels), scratch_type)
        given = [totals[i] if a is None else a for i, a in enumerate(arrays[-2:])]
        if whole is not None:
            whole((g, x, weight, mean, var, totals, g_mean, g_var, out, *given), floats)
            return
        if summed:
            scratch = runtime.empty(shape, scratch_type)
            first((g, x, weight, mean, var, scratch, g_mean, g_var, out, *given), floats)
            join((scratch, totals, *given))
        if write is not None:
            write((g, x, weight, mean, var, totals, g_mean, g_var, out, *given), floats)

    return run


def settings_for(shape: tuple[int, ...], config: Config | None) -> Config:
    """Return the tile for images x channels x places."""
    if config is not None:
        return SPACE.complete(config)
    if INTERPRET:
        images, channels, spatial = (triton.next_power_of_2(n) for n in shape)
        places = min(spatial, 1024)
        lanes = min(channels, max(_INTERPRETED_TILE // places, 1))
        return {"BLOCK_N": min(images, max(_INTERPRETED_TILE // (places * lanes), 1)), "BLOCK_C": lanes,
                "BLOCK_S": places, "num_warps": 4}  # fmt: skip
    return default_for(shape)


def default_for(shape: tuple[int, ...], dtype: Any = None) -> Config:
    """Return what is launched on a GPU for this shape where nothing was tuned."""
    return _tile(shape[2], 4)


def compile_cases(dtype: str) -> list[Case]:
    """Return what the compile check compiles, for one dtype."""
    p, wide = f"*{dtype}", "fp64" if dtype == "fp64" else "fp32"
    compute, stat = tl.float64 if wide == "fp64" else tl.float32, f"*{wide}"
    sizes, cases = (33, 1000, 49, 1, 9, 3), []
    for name, statistics, apply in (("whole", True, True), ("shares", True, False), ("apply", False, True)):
        kind = {"STATISTICS": statistics, "APPLY": apply, "WEIGHT": True, "BIAS": True, "COMPUTE": compute}
        target = p if apply else stat
        cases.append(
            Case(f"batch_norm_{name}", channel_kernel, (p, p, p, target, stat, stat, 1e-5, *sizes), kind, SPACE)
        )
    for name, sums, apply in (("whole", True, True), ("shares", True, False), ("apply", False, True)):
        kind = {"SUMS": sums, "APPLY": apply, "TRAINED": True, "WEIGHT": True, "GROUPED": False, "COMPUTE": compute}
        arguments = (p, p, p, stat, stat, stat, stat, stat, p, p, p, 1e-5, 99.0, *sizes, 1)
        cases.append(Case(f"batch_norm_backward_{name}", channel_backward_kernel, arguments, kind, SPACE))
    kind |= {"SUMS": True, "APPLY": False, "TRAINED": False, "WEIGHT": False, "GROUPED": True}
    cases.append(Case("channel_gradients", channel_backward_kernel, (*arguments[:-1], 8), kind, SPACE))
    join = (stat, stat, stat, 1000, 9)
    cases.append(Case("channel_join", channel_join_kernel, join, {"COMPUTE": compute}, JOIN_SPACE))
    cases.append(
        Case("channel_sums", channel_sums_kernel, (stat, stat, p, p, 1000, 9), {"COMPUTE": compute}, JOIN_SPACE)
    )
    return cases


def tuning() -> list[TritonKernel]:
    """Return what the tuner is told: training, with a weight and a bias."""

    def forward(shape: Any, dtype: str, rng: Any) -> Any:
        given = [normal(rng, shape, dtype), *(normal(rng, shape[1], dtype) for _ in range(2))]
        return given, [empty(shape, dtype), *(empty(shape[1], wide(dtype)) for _ in range(2))]

    def backward(shape: Any, dtype: str, rng: Any) -> Any:
        g, x, weight = normal(rng, shape, dtype), normal(rng, shape, dtype), normal(rng, shape[1], dtype)
        known = rounded(lambda: statistics(x), rng, (2, shape[1]), wide(dtype))
        more = [normal(rng, shape[1], wide(dtype)) for _ in range(2)]
        return [g, x, weight, *known, *more], [empty(shape, dtype), *(empty(shape[1], dtype) for _ in range(2))]

    def statistics(x: Any) -> Any:
        x = x.astype(np.float64)
        return x.mean((0, 2)), x.var((0, 2))

    def by(vector: Any) -> Any:
        return vector[None, :, None]

    def expected(inputs: Any) -> Any:
        x, weight, bias = float64(inputs)
        (mean, var), size, n = statistics(x), (x * x).mean((0, 2)), x.shape[0] * x.shape[2]
        scale = by(np.abs(weight) / np.sqrt(var + 1e-5))
        y = (x - by(mean)) * by(weight / np.sqrt(var + 1e-5)) + by(bias)
        return [(y, (np.abs(x) + by(np.sqrt(size))) * scale + np.abs(by(bias)), n), (mean, np.sqrt(size), n),
                (var, size, n)]  # fmt: skip

    def gradient(inputs: Any) -> Any:
        g, x, weight, mean, var, g_mean, g_var = float64(inputs)
        n, r, w = x.shape[0] * x.shape[2], by(1.0 / np.sqrt(var + 1e-5)), by(weight)
        z, size, axes = (x - by(mean)) * r, (np.abs(x) + np.abs(by(mean))) * r, (0, 2)
        sums, with_z = g.sum(axes), (g * z).sum(axes)
        dx = w * r * (g - by(sums) / n - z * by(with_z) / n) + by(g_mean) / n + z / r * by(g_var) * 2 / n
        scale = np.abs(w) * r * (np.abs(g) + by(np.abs(g).mean(axes)) + size * by(np.abs(g * size).mean(axes)))
        scale += np.abs(by(g_mean)) / n + size / r * np.abs(by(g_var)) * 2 / n
        return [(dx, scale, n), (with_z, np.abs(g * size).sum(axes), n), (sums, np.abs(g).sum(axes), n)]

    common: Any = {"axes": ("images", "channels", "places"), "space": SPACE, "small": (2, 9, 40),
                   "default": lambda shape, dtype, target: default_for(shape)}  # fmt: skip
    return [
        TritonKernel(channel_kernel, arrays=forward, reference=expected, work=each(3, 10),
                     launch=lambda i, o, c: call(batch_forward, *i, *o, 1e-5, config=c), **common),
        TritonKernel(channel_backward_kernel, arrays=backward, reference=gradient, work=each(5, 12),
                     launch=lambda i, o, c: call(batch_backward, *i, *o, 1e-5, config=c), **common),
    ]  # fmt: skip
