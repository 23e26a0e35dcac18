"""Layer norm, RMS norm and group norm of rows, forward and backward.

Algorithm: a program owns ROWS rows. A row of at most BLOCK elements is read once and kept in registers: its mean, then
the mean of the squared differences, so that a large mean costs no digits. A longer row is walked twice, the first time
with a mean and a sum of squared differences in each lane (Welford), joined by Chan's formula. Backward, with the row's
standardised values z and h = g weight: dx = rstd (h - mean(h) - z mean(h z)). A program of the backward walks a
stretch of rows and adds up its share of the gradients of weight and bias; a second launch joins the shares in order.
No atomics: the bits depend on shapes and config alone. Group norm is the same over rows of (channels in a group) x
(places), with a weight and a bias for each channel. Half types are computed in float32.

Bytes moved: forward 2 n m elements (3 n m for long rows), backward 3 n m (7 n m) and 2 (programs x m) float32 for the
parameters. Operations: 8 an element forward, 14 backward. Sources: Ba et al., arXiv 1607.06450; Zhang and Sennrich,
arXiv 1910.07467; Chan, Golub and LeVeque, Updating formulae and a pairwise algorithm for variances (1979).
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
from .tune.declared import TritonKernel, call, each, empty, float64, normal, of_rows, rounded, wide
from .tune.space import Config, Constraint, Space, Tunable, powers_of_two

SPACE = Space(
    [
        Tunable("BLOCK", (256, 1024, 2048, 4096, 8192), default=1024),
        Tunable("ROWS", (1, 4), default=1),
        powers_of_two("num_warps", 4, 16, default=4),
    ],
    [
        Constraint("at most 16 elements a thread", lambda c: c["BLOCK"] * c["ROWS"] <= 512 * c["num_warps"]),
        Constraint("at least 4 elements a thread", lambda c: c["BLOCK"] * c["ROWS"] >= 128 * c["num_warps"]),
        Constraint("several rows only where they are short", lambda c: c["ROWS"] == 1 or c["BLOCK"] <= 256),
        Constraint("16 warps for the longest rows alone", lambda c: c["num_warps"] < 16 or c["BLOCK"] > 4096),
    ],
)
_FUSED_SPACE = Space(
    SPACE.tunables,
    [*SPACE.constraints, Constraint("sums for the parameters only beside short rows", lambda c: c["BLOCK"] <= 4096)],
)
# the gradients of the parameters of rows too long for one block, and the joining of shares
COLUMNS_SPACE = Space(
    [
        Tunable("BLOCK", (64, 128), default=128),
        Tunable("ROWS", (8, 16), default=16),
        Tunable("num_warps", (4,), default=4),
    ],
    [],
)
_FUSED_BLOCK = 1 << 16 if INTERPRET else 4096  # the sums for the parameters of longer rows spill beside the rows
_FILL_PROGRAMS = 264  # two for each of the 132 multiprocessors of an H100
_INTERPRETED_TILE = 1 << 16
_launches: Memo = Memo()
_backwards: Memo = Memo()


@triton.jit
def _parameter(
    ptr, row, column, columns, groups, spatial, CHANNEL: tl.constexpr, COMPUTE: tl.constexpr
):  # fmt: skip
    """The weight or bias at these places of these rows: one a column, or one a channel of the row's group."""
    inside = (column < columns)[None, :]
    if CHANNEL:
        at = (row % groups)[:, None] * (columns // spatial) + (column // spatial)[None, :]
        value = tl.load(ptr + at, mask=inside, other=0.0)
    else:
        value = tl.load(ptr + column[None, :], mask=inside, other=0.0)
    return value.to(COMPUTE)


@triton.jit
def norm_kernel(
    x_ptr, weight_ptr, bias_ptr, y_ptr, mean_ptr, rstd_ptr, eps: tl.float64, count: tl.float64,
    rows, columns, groups, spatial,
    RMS: tl.constexpr, WEIGHT: tl.constexpr, BIAS: tl.constexpr, CHANNEL: tl.constexpr, ONE_BLOCK: tl.constexpr,
    COMPUTE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    live = (row < rows)[:, None]
    column = tl.arange(0, BLOCK)
    at = (row * columns)[:, None]
    eps = eps.to(COMPUTE)
    count = count.to(COMPUTE)
    mean = tl.zeros([ROWS, 1], COMPUTE)
    if ONE_BLOCK:
        mask = live & (column < columns)[None, :]
        x = tl.load(x_ptr + at + column[None, :], mask=mask, other=0.0).to(COMPUTE)
        if not RMS:
            mean = scalar.div(tl.sum(x, 1)[:, None], count)
        off = tl.where(mask, x - mean, 0.0)
        spread = tl.sum(off * off, 1)[:, None]
    elif RMS:
        squares = tl.zeros([ROWS, BLOCK], COMPUTE)
        for begin in range(0, columns, BLOCK):
            mask = live & (begin + column < columns)[None, :]
            x = tl.load(x_ptr + at + (begin + column)[None, :], mask=mask, other=0.0).to(COMPUTE)
            squares += x * x
        spread = tl.sum(squares, 1)[:, None]
    else:
        means = tl.zeros([ROWS, BLOCK], COMPUTE)
        spreads = tl.zeros([ROWS, BLOCK], COMPUTE)
        counts = tl.zeros([ROWS, BLOCK], COMPUTE)
        seen = tl.zeros([1, 1], COMPUTE)
        for begin in range(0, columns, BLOCK):
            mask = live & (begin + column < columns)[None, :]
            x = tl.load(x_ptr + at + (begin + column)[None, :], mask=mask, other=0.0).to(COMPUTE)
            seen += 1.0
            counts += mask.to(COMPUTE)
            delta = tl.where(mask, x - means, 0.0)
            means += delta * (1.0 / seen)
            spreads += tl.where(mask, delta * (x - means), 0.0)
        mean = scalar.div(tl.sum(counts * means, 1)[:, None], count)
        off = means - mean
        spread = tl.sum(spreads + counts * off * off, 1)[:, None]
    rstd = scalar.rsqrt(scalar.div(spread, count) + eps)
    tl.store(rstd_ptr + row[:, None], rstd, mask=live)
    if not RMS:
        tl.store(mean_ptr + row[:, None], mean, mask=live)
    if ONE_BLOCK:
        y = (x - mean) * rstd
        if WEIGHT:
            y *= _parameter(weight_ptr, row, column, columns, groups, spatial, CHANNEL, COMPUTE)
        if BIAS:
            y += _parameter(bias_ptr, row, column, columns, groups, spatial, CHANNEL, COMPUTE)
        tl.store(y_ptr + at + column[None, :], y.to(y_ptr.dtype.element_ty), mask=mask)
    else:
        for begin in range(0, columns, BLOCK):
            place = begin + column
            mask = live & (place < columns)[None, :]
            x = tl.load(x_ptr + at + place[None, :], mask=mask, other=0.0).to(COMPUTE)
            y = (x - mean) * rstd
            if WEIGHT:
                y *= _parameter(weight_ptr, row, place, columns, groups, spatial, CHANNEL, COMPUTE)
            if BIAS:
                y += _parameter(bias_ptr, row, place, columns, groups, spatial, CHANNEL, COMPUTE)
            tl.store(y_ptr + at + place[None, :], y.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def norm_backward_kernel(
    g_ptr, x_ptr, weight_ptr, mean_ptr, rstd_ptr, out_ptr, share_ptr, count: tl.float64,
    rows, columns, groups, spatial, stretch,
    RMS: tl.constexpr, WEIGHT: tl.constexpr, CHANNEL: tl.constexpr, SHARES: tl.constexpr, ONE_BLOCK: tl.constexpr,
    COMPUTE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """dx of `stretch` times ROWS rows; with SHARES (1: weight, 2: and bias) their part of the parameters' gradients."""
    column = tl.arange(0, BLOCK)
    count = count.to(COMPUTE)
    if ONE_BLOCK:
        if SHARES >= 1:
            for_weight = tl.zeros([ROWS, BLOCK], COMPUTE)
        if SHARES == 2:
            for_bias = tl.zeros([ROWS, BLOCK], COMPUTE)
        for i in range(stretch):
            row = (tl.program_id(0).to(tl.int64) * stretch + i) * ROWS + tl.arange(0, ROWS)
            live = (row < rows)[:, None]
            mask = live & (column < columns)[None, :]
            at = (row * columns)[:, None] + column[None, :]
            g = tl.load(g_ptr + at, mask=mask, other=0.0).to(COMPUTE)
            z = tl.load(x_ptr + at, mask=mask, other=0.0).to(COMPUTE)
            rstd = tl.load(rstd_ptr + row[:, None], mask=live, other=0.0)
            if RMS:
                z = z * rstd
            else:
                z = (z - tl.load(mean_ptr + row[:, None], mask=live, other=0.0)) * rstd
            if SHARES >= 1:
                for_weight += g * z
            if SHARES == 2:
                for_bias += g
            if WEIGHT:
                g *= _parameter(weight_ptr, row, column, columns, groups, spatial, CHANNEL, COMPUTE)
            dx = g - z * scalar.div(tl.sum(g * z, 1)[:, None], count)
            if not RMS:
                dx -= scalar.div(tl.sum(g, 1)[:, None], count)
            tl.store(out_ptr + at, (dx * rstd).to(out_ptr.dtype.element_ty), mask=mask)
        to = tl.program_id(0).to(tl.int64) * columns + column
        if SHARES >= 1:
            tl.store(share_ptr + to, tl.sum(for_weight, 0), mask=column < columns)
        if SHARES == 2:
            after = tl.num_programs(0).to(tl.int64) * columns
            tl.store(share_ptr + after + to, tl.sum(for_bias, 0), mask=column < columns)
    else:
        row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
        live = (row < rows)[:, None]
        rstd = tl.load(rstd_ptr + row[:, None], mask=live, other=0.0)
        mean = tl.zeros([ROWS, 1], COMPUTE)
        if not RMS:
            mean = tl.load(mean_ptr + row[:, None], mask=live, other=0.0)
        with_z = tl.zeros([ROWS, BLOCK], COMPUTE)
        alone = tl.zeros([ROWS, BLOCK], COMPUTE)
        for begin in range(0, columns, BLOCK):
            place = begin + column
            mask = live & (place < columns)[None, :]
            at = (row * columns)[:, None] + place[None, :]
            g = tl.load(g_ptr + at, mask=mask, other=0.0).to(COMPUTE)
            if WEIGHT:
                g *= _parameter(weight_ptr, row, place, columns, groups, spatial, CHANNEL, COMPUTE)
            with_z += g * ((tl.load(x_ptr + at, mask=mask, other=0.0).to(COMPUTE) - mean) * rstd)
            if not RMS:
                alone += g
        of_z = scalar.div(tl.sum(with_z, 1)[:, None], count)
        of_one = scalar.div(tl.sum(alone, 1)[:, None], count)
        for begin in range(0, columns, BLOCK):
            place = begin + column
            mask = live & (place < columns)[None, :]
            at = (row * columns)[:, None] + place[None, :]
            g = tl.load(g_ptr + at, mask=mask, other=0.0).to(COMPUTE)
            if WEIGHT:
                g *= _parameter(weight_ptr, row, place, columns, groups, spatial, CHANNEL, COMPUTE)
            z = (tl.load(x_ptr + at, mask=mask, other=0.0).to(COMPUTE) - mean) * rstd
            tl.store(out_ptr + at, ((g - z * of_z - of_one) * rstd).to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def norm_columns_kernel(
    g_ptr, x_ptr, mean_ptr, rstd_ptr, share_ptr, rows, columns, stretch,
    RMS: tl.constexpr, SHARES: tl.constexpr, COMPUTE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The parameters' part of `stretch` times ROWS rows, for BLOCK columns."""
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    for_weight = tl.zeros([ROWS, BLOCK], COMPUTE)
    for_bias = tl.zeros([ROWS, BLOCK], COMPUTE)
    for i in range(stretch):
        row = (tl.program_id(1).to(tl.int64) * stretch + i) * ROWS + tl.arange(0, ROWS)
        live = (row < rows)[:, None]
        mask = live & (column < columns)[None, :]
        at = (row * columns)[:, None] + column[None, :]
        g = tl.load(g_ptr + at, mask=mask, other=0.0).to(COMPUTE)
        z = tl.load(x_ptr + at, mask=mask, other=0.0).to(COMPUTE)
        if not RMS:
            z -= tl.load(mean_ptr + row[:, None], mask=live, other=0.0)
        for_weight += g * (z * tl.load(rstd_ptr + row[:, None], mask=live, other=0.0))
        for_bias += g
    to = tl.program_id(1).to(tl.int64) * columns + column
    tl.store(share_ptr + to, tl.sum(for_weight, 0), mask=column < columns)
    if SHARES == 2:
        after = tl.num_programs(1).to(tl.int64) * columns
        tl.store(share_ptr + after + to, tl.sum(for_bias, 0), mask=column < columns)


@triton.jit
def norm_join_kernel(
    share_ptr, weight_grad_ptr, bias_grad_ptr, shares, columns,
    COMPUTE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The sum of all shares, for the weight (program_id(1) is 0) or the bias."""
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([ROWS, BLOCK], COMPUTE)
    base = tl.program_id(1).to(tl.int64) * shares * columns
    for begin in range(0, shares, ROWS):
        share = begin + tl.arange(0, ROWS)
        mask = (share < shares)[:, None] & (column < columns)[None, :]
        total += tl.load(share_ptr + base + share[:, None] * columns + column[None, :], mask=mask, other=0.0)
    result = tl.sum(total, 0)
    if tl.program_id(1) == 0:
        tl.store(weight_grad_ptr + column, result.to(weight_grad_ptr.dtype.element_ty), mask=column < columns)
    else:
        tl.store(bias_grad_ptr + column, result.to(bias_grad_ptr.dtype.element_ty), mask=column < columns)


def norm_forward(
    x: Any, weight: Any, bias: Any, y: Any, mean: Any, rstd: Any, eps: float, groups: int = 1, spatial: int = 0,
    config: Config | None = None,
) -> None:  # fmt: skip
    """``y = (x - mean) * rstd * weight + bias`` of every row of a contiguous matrix; without `mean`, RMS norm.

    `weight` and `bias` (or None) have an element a column; with `spatial`, row ``r`` is group ``r % groups`` of an
    image and they have an element a channel, each of `spatial` columns. `mean` and `rstd`, one a row, are written; they
    are float32, float64 for float64.
    """
    if x.size == 0:
        return
    optional = tuple(a for a in (weight, bias, mean) if a is not None)
    key = (weight is None, bias is None, mean is None, groups, spatial, config and tuple(config.items()),
           *runtime.key_of(x, y, rstd, *optional))  # fmt: skip
    launch = _launches.get(key)
    if launch is None:
        _check("norm", x, (y,), (mean, rstd), (weight, bias), groups, spatial)
        tuned = config or runtime.tuned(norm_kernel, SPACE, x.shape, x.dtype)
        settings = settings_for(x.shape, tuned)
        constants = {"RMS": mean is None, "WEIGHT": weight is not None, "BIAS": bias is not None}
        constants |= {"CHANNEL": spatial > 0, "ONE_BLOCK": x.shape[1] <= settings["BLOCK"], "COMPUTE": _compute(x)}
        launch = _launches[key] = _launch(norm_kernel, x, (groups, spatial or 1), constants, settings)
    launch((x, x if weight is None else weight, x if bias is None else bias, y, rstd if mean is None else mean, rstd),
           (float(eps), float(x.shape[1])))  # fmt: skip


def norm_backward(
    g: Any, x: Any, weight: Any, mean: Any, rstd: Any, out: Any, weight_grad: Any = None, bias_grad: Any = None,
    groups: int = 1, spatial: int = 0, config: Config | None = None, columns_config: Config | None = None,
) -> None:  # fmt: skip
    """The gradients of `norm_forward`: `out` at x and, where given, those of the parameters that have a column each.

    Those of a channel's weight and bias come from `channel_norm.channel_gradients`. `columns_config` is for the kernels
    that sum the parameters' gradients.
    """
    if x.size == 0:
        for array in (weight_grad, bias_grad):
            if array is not None:
                array[...] = 0
        return
    optional = tuple(a for a in (weight, mean, weight_grad, bias_grad) if a is not None)
    key = (*runtime.key_of(g, x, rstd, out, *optional), weight is None, mean is None, weight_grad is None,
           bias_grad is None, groups, spatial, config and tuple(config.items()),
           columns_config and tuple(columns_config.items()))  # fmt: skip
    run = _backwards.get(key)
    if run is None:
        _check("norm_backward", x, (g, out), (mean, rstd), (weight, weight_grad, bias_grad), groups, spatial)
        run = _backwards[key] = _prepare_backward(x, weight, mean, weight_grad, bias_grad, groups, spatial, config,
                                                  columns_config)  # fmt: skip
    run(g, x, weight, mean, rstd, out, weight_grad, bias_grad)


def _prepare_backward(x: Any, weight: Any, mean: Any, weight_grad: Any, bias_grad: Any, groups: int, spatial: int,
                      config: Config | None, columns_config: Config | None) -> Any:  # fmt: skip
    rows, columns = x.shape
    tuned = config or runtime.tuned(norm_backward_kernel, SPACE, x.shape, x.dtype)
    settings = settings_for(x.shape, tuned, _FUSED_BLOCK if spatial else 8192)
    one_block = columns <= settings["BLOCK"]
    shares = 2 if bias_grad is not None else 1 if weight_grad is not None else 0
    pieces = triton.cdiv(rows, settings["ROWS"])
    fused = shares if one_block and settings["BLOCK"] <= _FUSED_BLOCK else 0
    stretch = triton.cdiv(pieces, _programs(pieces, settings)) if fused else 1
    programs = triton.cdiv(pieces, stretch)
    constants = {"RMS": mean is None, "WEIGHT": weight is not None, "CHANNEL": spatial > 0, "SHARES": fused,
                 "ONE_BLOCK": one_block, "COMPUTE": _compute(x)}  # fmt: skip
    first = _launch(norm_backward_kernel, x, (groups, spatial or 1, stretch), constants, settings, programs)
    side = columns_config or runtime.tuned(norm_columns_kernel, COLUMNS_SPACE, x.shape, x.dtype)
    side = COLUMNS_SPACE.complete(side or (_interpreted_columns(columns, rows) if INTERPRET else None))
    warps = side.pop("num_warps")
    blocks = triton.cdiv(columns, side["BLOCK"])
    second = None
    if shares and not fused:
        pieces = triton.cdiv(rows, side["ROWS"])
        stretch = triton.cdiv(pieces, min(pieces, triton.cdiv(_FILL_PROGRAMS, blocks)))
        programs = triton.cdiv(pieces, stretch)
        constants = {"RMS": mean is None, "SHARES": shares, "COMPUTE": _compute(x), **side}
        second = Launch(norm_columns_kernel, (blocks, programs), [rows, columns, stretch], constants, num_warps=warps)
    last = Launch(norm_join_kernel, (blocks, shares), [programs, columns], {"COMPUTE": _compute(x), **side},
                  num_warps=warps)  # fmt: skip
    scratch_type = np.dtype(np.float64 if x.dtype == np.float64 else np.float32)
    shape = (shares, programs, columns)

    def run(g: Any, x: Any, weight: Any, mean: Any, rstd: Any, out: Any, weight_grad: Any, bias_grad: Any) -> None:
        scratch = runtime.empty(shape, scratch_type) if shares else rstd
        middle = rstd if mean is None else mean
        first((g, x, x if weight is None else weight, middle, rstd, out, scratch), (float(columns),))
        if second is not None:
            second((g, x, middle, rstd, scratch))
        if shares:
            given = weight_grad if weight_grad is not None else runtime.empty((columns,), scratch_type)
            last((scratch, given, given if bias_grad is None else bias_grad))

    return run


def _launch(kernel: Any, x: Any, more: tuple[int, ...], constants: dict[str, Any], settings: Config,
            programs: int | None = None) -> Launch:  # fmt: skip
    rows, columns = x.shape
    settings = dict(settings)
    warps = settings.pop("num_warps")
    grid = (programs or triton.cdiv(rows, settings["ROWS"]),)
    return Launch(kernel, grid, [rows, columns, *more], {**constants, **settings}, num_warps=warps)


def _programs(pieces: int, settings: Config) -> int:
    """Return how many programs share the rows: enough to fill a GPU, few enough that their shares weigh little."""
    wanted = 4 if INTERPRET else _FILL_PROGRAMS * (2 if settings["num_warps"] <= 4 else 1)
    return min(pieces, wanted)


def _compute(x: Any) -> Any:
    return tl.float64 if x.dtype == np.float64 else tl.float32


def _check(name: str, x: Any, like_x: tuple[Any, ...], of_rows: tuple[Any, ...], parameters: tuple[Any, ...],
           groups: int, spatial: int) -> None:  # fmt: skip
    given = [a for a in (x, *like_x, *of_rows, *parameters) if a is not None]
    if any(a.dtype not in FLOATING for a in given):
        raise TypeError(f"{name}: takes floating-point arrays, got {', '.join(str(a.dtype) for a in given)}")
    length = x.shape[1] // spatial * groups if spatial else x.shape[1]
    wrong = [a.shape for a in like_x if a.shape != x.shape]
    wrong += [a.shape for a in of_rows if a is not None and a.size != x.shape[0]]
    wrong += [a.shape for a in parameters if a is not None and a.size != length]
    if x.ndim != 2 or wrong or (spatial and (x.shape[1] % spatial or x.shape[0] % groups)):
        raise ValueError(f"{name}: rows of a matrix, statistics a row, parameters of {length} elements; x is "
                         f"{tuple(x.shape)}, groups={groups}, spatial={spatial}, wrong are {wrong}")  # fmt: skip
    if not all(runtime.is_contiguous(a) for a in given):
        raise ValueError(f"{name}: the arrays must be contiguous. Remedy: copy what is not first.")


def settings_for(shape: tuple[int, ...], config: Config | None, longest: int = 8192) -> Config:
    """Return the config for rows of this length: one block where a row fits."""
    if config is not None:
        return SPACE.complete(config)
    if INTERPRET:
        block = min(triton.next_power_of_2(shape[1]), _INTERPRETED_TILE)
        rows = min(triton.next_power_of_2(triton.cdiv(shape[0], 3)), max(_INTERPRETED_TILE // block, 1))
        return {"BLOCK": block, "ROWS": rows, "num_warps": 4}
    return default_for((shape[0], min(shape[1], longest)))


def default_for(shape: tuple[int, ...], dtype: Any = None) -> Config:
    """Return what is launched on a GPU for rows of this length where nothing was tuned."""
    block = next((n for n in SPACE.tunables[0].values if n >= shape[1]), 8192)
    return {"BLOCK": block, "ROWS": 4 if block == 256 else 1, "num_warps": min(max(block // 512, 4), 16)}


def _interpreted_columns(columns: int, rows: int) -> Config:
    return {"BLOCK": min(triton.next_power_of_2(columns), 4096), "ROWS": min(triton.next_power_of_2(max(rows, 1)), 16)}


def compile_cases(dtype: str) -> list[Case]:
    """Return what the compile check compiles, for one dtype."""
    p, wide = f"*{dtype}", "fp64" if dtype == "fp64" else "fp32"
    compute, stat = tl.float64 if wide == "fp64" else tl.float32, f"*{wide}"
    cases = []
    for name, rms, channel in (("layer_norm", False, False), ("rms_norm", True, False), ("group_norm", False, True)):
        sizes = (999, 1000, 8, 25) if channel else (999, 1000, 1, 1)
        forward = (p, p, p, p, stat, stat, 1e-5, 1000.0, *sizes)
        backward = (p, p, p, stat, stat, p, stat, 1000.0, *sizes, 7)
        common = {"RMS": rms, "WEIGHT": True, "CHANNEL": channel, "COMPUTE": compute}
        for one_block in (True, False):
            kind, tail = {**common, "ONE_BLOCK": one_block}, "" if one_block else "_long"
            cases.append(Case(name + tail, norm_kernel, forward, {**kind, "BIAS": not rms}, SPACE))
            space = _FUSED_SPACE if channel and one_block else SPACE
            cases.append(Case(f"{name}_backward{tail}", norm_backward_kernel, backward, {**kind, "SHARES": 0}, space))
        if not channel:
            shares = {"SHARES": 1 if rms else 2}
            kind = {**common, **shares, "ONE_BLOCK": True}
            cases.append(Case(f"{name}_backward_fused", norm_backward_kernel, backward, kind, _FUSED_SPACE))
            arguments, kind = (p, p, stat, stat, stat, 999, 1000, 7), {"RMS": rms, "COMPUTE": compute, **shares}
            cases.append(Case(f"{name}_columns", norm_columns_kernel, arguments, kind, COLUMNS_SPACE))
    cases.append(Case("norm_join", norm_join_kernel, (stat, p, p, 264, 1000), {"COMPUTE": compute}, COLUMNS_SPACE))
    return cases


def tuning() -> list[TritonKernel]:
    """Return what the tuner is told: of the three norms layer norm; the columns' kernel beside rows of many blocks."""
    by_blocks = {"BLOCK": 1024, "ROWS": 1, "num_warps": 4}

    def forward(shape: Any, dtype: str, rng: Any) -> Any:
        given = [normal(rng, shape, dtype), *(normal(rng, shape[1], dtype) for _ in range(2))]
        return given, [empty(shape, dtype), *(empty(shape[0], wide(dtype)) for _ in range(2))]

    def backward(shape: Any, dtype: str, rng: Any) -> Any:
        g, x, weight = normal(rng, shape, dtype), normal(rng, shape, dtype), normal(rng, shape[1], dtype)
        known = rounded(lambda: standard(x), rng, (2, shape[0]), wide(dtype))
        return [g, x, weight, *known], [empty(shape, dtype), *(empty(shape[1], dtype) for _ in range(2))]

    def standard(x: Any) -> Any:
        x = x.astype(np.float64)
        return x.mean(1), 1.0 / np.sqrt(x.var(1) + 1e-5)

    def expected(inputs: Any) -> Any:
        x, weight, bias = float64(inputs)
        mean, rstd = standard(x)
        size = np.abs(x).mean(1)
        y = (x - mean[:, None]) * rstd[:, None] * weight + bias
        scale = (np.abs(x) + size[:, None]) * rstd[:, None] * np.abs(weight) + np.abs(bias)
        return [(y, scale, x.shape[1]), (mean, size, x.shape[1]), (rstd, rstd * (1 + size * rstd), x.shape[1])]

    def gradient(inputs: Any) -> Any:
        g, x, weight, mean, rstd = float64(inputs)
        z, r, h = (x - mean[:, None]) * rstd[:, None], rstd[:, None], g * weight
        size = (np.abs(x) + np.abs(mean[:, None])) * r
        dx = r * (h - h.mean(1, keepdims=True) - z * (h * z).mean(1, keepdims=True))
        scale = r * (np.abs(h) + np.abs(h).mean(1, keepdims=True) + size * np.abs(h * size).mean(1, keepdims=True))
        return [(dx, scale, x.shape[1]), ((g * z).sum(0), np.abs(g * size).sum(0), len(x)),
                (g.sum(0), np.abs(g).sum(0), len(x))]  # fmt: skip

    def columns(i: Any, o: Any, c: Any) -> None:
        call(norm_backward, *i, *o, config=c and by_blocks, columns_config=c)

    common: Any = {"axes": ("rows", "columns"), "small": (5, 2100)}
    default: Any = {"default": lambda shape, dtype, target: default_for(shape)}
    back: Any = {"arrays": backward, "reference": gradient, **common}
    return [
        TritonKernel(norm_kernel, space=SPACE, arrays=forward, reference=expected, work=of_rows(2, 3, 8),
                     launch=lambda i, o, c: call(norm_forward, *i, *o, 1e-5, config=c), **common, **default),
        TritonKernel(norm_backward_kernel, space=SPACE, work=of_rows(3, 7, 14),
                     launch=lambda i, o, c: call(norm_backward, *i, *o, config=c), **back, **default),
        TritonKernel(norm_columns_kernel, space=COLUMNS_SPACE, work=each(2, 4), limits={"columns": (1025, 1 << 40)},
                     launch=columns, **back),
    ]  # fmt: skip
